"""Every state of the chart page as a picture: ``python -m tests.browser.market.screenshots FOLDER``.

Real Chromium over the real frontend, API and PostgreSQL, with the trades of an invented market.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser

from tests.browser.market.conftest import ChartPage
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, running_stage
from tests.functional.chromium import chromium

SYMBOL = "DEMO:ETH-USDC"
SMALL, LARGE, PHONE, NARROW = (1280, 720), (1920, 1080), (390, 844), (721, 720)
DAYS = 12
PHONE_VIEW = f"?symbol={SYMBOL}&interval=15m"
VIEW = f"{PHONE_VIEW}&bars=150"


def market(
    symbol: str, start: int, end: int, price: float, places: int, *, every: int = 20_000
) -> list[dict[str, Any]]:
    """Blocks with the prices of a random walk, which is the same in each run."""
    drawn, ticks = random.Random(symbol), []
    for block, ts in enumerate(range(start, end, every), 1):
        for at in range(drawn.choice((0, 1, 1, 2))):
            price *= math.exp(drawn.gauss(0, 0.0014))
            ticks.append({
                "symbol": symbol, "id": f"{block}:{at}", "ts": ts, "seq": at, "price": f"{price:.{places}f}",
                "size": f"{drawn.expovariate(1) + 0.001:.4f}", "side": drawn.choice(("buy", "sell")),
                "block": {"number": block, "hash": f"0x{block:x}"},
            })  # fmt: skip
    return ticks


def fill(stage: Stage) -> None:
    end = now()
    start = end - DAYS * 24 * HOUR
    gap = range(end - 14 * HOUR, end - 11 * HOUR)
    stage.write(*(each for each in market(SYMBOL, start, end, 2500, 2) if each["ts"] not in gap))
    stage.write({"finalize": {"symbol": SYMBOL, "block": (DAYS * 24 * HOUR - 70 * MINUTE) // 20_000}})
    stage.write(*market("DEMO:PEPE-ETH", end - 24 * HOUR, end, 0.0000000163, 24, every=MINUTE))
    stage.write(*market("DEMO:WBTC-ETH", end - 24 * HOUR, end, 38.2, 18, every=MINUTE))
    stage.write(*market("DEMO:YOUNG", end - 3 * HOUR, end, 12, 4))
    stage.cover("DEMO:YOUNG", end - 3 * HOUR, end + HOUR)
    stage.write(*market("DEMO:STOPPED", start, start + 40 * HOUR, 7.5, 4))
    stage.cover("DEMO:STOPPED", start, start + 40 * HOUR)
    stage.cover(SYMBOL, start, gap.start)
    stage.cover(SYMBOL, gap.stop, end + HOUR)


class Album:
    """Takes the pictures of one service into ``folder``."""

    def __init__(self, browser: Browser, folder: Path, stage: Stage) -> None:
        self._browser, self._folder, self._stage = browser, folder, stage

    @contextmanager
    def page(
        self, query: str = VIEW, size: tuple[int, int] = SMALL, scheme: Literal["light", "dark"] = "light"
    ) -> Iterator[ChartPage]:
        credentials: Any = {"username": self._stage.user, "password": self._stage.password}
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, http_credentials=credentials
        )
        try:
            yield ChartPage(context.new_page(), self._stage).go(query).drawn()
        finally:
            context.close()

    def take(self, opened: ChartPage, name: str) -> None:
        opened.page.wait_for_timeout(500)
        opened.page.screenshot(path=self._folder / f"{name}.png")


def at_rest(album: Album) -> None:
    """The chart in both sizes and both themes, on a telephone, and with its lists and dialogs."""
    for name, size, scheme in VARIANTS:
        with album.page(VIEW, size, scheme) as opened:
            opened.page.mouse.move(size[0] * 0.4, size[1] * 0.4)
            album.take(opened, f"chart-{name}")
    with album.page(VIEW, SMALL, "dark") as opened:
        opened.page.keyboard.press("Alt+t")
        album.take(opened, "trades-dark")
        opened.page.keyboard.press("Alt+w")
        opened.page.get_by_label("Show").select_option("change")
        album.take(opened, "watchlist-dark")
    with album.page() as opened:
        for key, name in (("?", "keyboard"), ("e", "symbols"), ("1", "interval")):
            opened.page.keyboard.press(key)
            album.take(opened, name)
            opened.page.keyboard.press("Escape")
    for symbol, name in (("DEMO:PEPE-ETH", "small-prices"), ("DEMO:WBTC-ETH", "long-digits")):
        with album.page(f"?symbol={symbol}&interval=15m") as opened:
            opened.page.mouse.move(500, 300)
            album.take(opened, name)
    for scheme in ("light", "dark"):
        with album.page(PHONE_VIEW, PHONE, scheme) as opened:
            album.take(opened, f"phone-{scheme}")
            opened.page.get_by_role("button", name="View and export").click()
            album.take(opened, f"phone-sheet-{scheme}")
            opened.page.get_by_role("button", name="Help").click()
            album.take(opened, f"phone-help-{scheme}")
            opened.page.keyboard.press("Escape")
            opened.page.keyboard.press("Alt+t")
            album.take(opened, f"phone-trades-{scheme}")


def in_use(album: Album) -> None:
    """Indicators, lists and menus in every width and both themes; scales, breaks, and how the colour-blind see it."""
    chosen = "indicators=sma.20,bb.20.2,rsi.14,sides&zone=America/New_York"
    for size in (PHONE, NARROW, SMALL, LARGE):
        for scheme in ("light", "dark"):
            name = f"{size[0]}-{scheme}"
            with album.page(f"{VIEW}&{chosen}", size, scheme) as opened:
                album.take(opened, f"indicators-{name}")
                opened.page.keyboard.press("Alt+n")
                album.take(opened, f"indicators-menu-{name}")
            with album.page(f"{VIEW}&panels=watchlist,trades&list=change", size, scheme) as opened:
                album.take(opened, f"lists-{name}")
    for query, name in (
        (f"?symbol={SYMBOL}&interval=1m&bars=8000", "coarser"),
        (f"?symbol={SYMBOL}&interval=1m&bars=300&scale=log", "log"),
        (f"?symbol={SYMBOL}&interval=1h&scale=percent&inverted=1&type=line", "percent"),
    ):
        with album.page(query) as opened:
            album.take(opened, name)
    for kind in ("protanopia", "deuteranopia", "tritanopia", "achromatopsia"):
        with album.page(f"{VIEW}&{chosen}&panels=trades") as opened:
            session = opened.page.context.new_cdp_session(opened.page)
            session.send("Emulation.setEmulatedVisionDeficiency", {"type": kind})
            album.take(opened, kind)


def with_little(album: Album) -> None:
    """A new market, a market without recent trades, a range without trades, and an unknown interval."""
    for scheme in ("light", "dark"):
        for symbol, name in (("DEMO:YOUNG", "young"), ("DEMO:STOPPED", "stopped")):
            with album.page(f"?symbol={symbol}&interval=15m", SMALL, scheme) as opened:
                album.take(opened, f"{name}-{scheme}")
        empty = f"?symbol={SYMBOL}&interval=15m&from=2026-01-01T00:00:00Z&to=2026-01-02T12:00:00Z"
        with album.page(VIEW, SMALL, scheme) as opened:
            opened.go(empty).page.get_by_role("heading", name="No trades in this range").wait_for()
            album.take(opened, f"no-trades-{scheme}")
        for size, name in ((SMALL, "notice"), (PHONE, "phone-notice")):
            with album.page(f"?symbol={SYMBOL}&interval=7m", size, scheme) as opened:
                album.take(opened, f"{name}-{scheme}")
        with album.page(VIEW, SMALL, scheme) as opened:
            opened.page.get_by_role("link", name="Log out").click()
            opened.page.get_by_role("heading", name="You are logged out").wait_for()
            album.take(opened, f"logged-out-{scheme}")


VARIANTS: tuple[tuple[str, tuple[int, int], Literal["light", "dark"]], ...] = (
    ("1280", SMALL, "light"), ("1280-dark", SMALL, "dark"), ("1920", LARGE, "light"), ("1920-dark", LARGE, "dark"),
)  # fmt: skip


def in_trouble(album: Album, stage: Stage) -> None:
    """An unknown symbol, an API that does not answer, and a login that has expired."""
    for scheme in ("light", "dark"):
        with album.page(VIEW, SMALL, scheme) as opened:
            opened.page.goto(f"{stage.address}?symbol=NO:SUCH&interval=1h")
            opened.page.get_by_role("heading", name="Unknown symbol").wait_for()
            album.take(opened, f"unknown-{scheme}")
        with album.page(VIEW, SMALL, scheme) as opened, album.page(PHONE_VIEW, PHONE, scheme) as phone:
            stage.api.stop()
            for each, name in ((opened, "offline"), (phone, "phone-offline")):
                each.page.locator("#live.offline").wait_for()
                album.take(each, f"{name}-{scheme}")
            opened.page.reload()
            opened.page.get_by_role("heading", name="The data API does not answer").wait_for()
            album.take(opened, f"unanswered-{scheme}")
            stage.restart_api()
        with album.page(VIEW, SMALL, scheme) as opened:
            stage.change_password(f"{stage.password} again")
            opened.page.keyboard.type("5")
            opened.page.keyboard.press("Enter")
            opened.page.get_by_role("dialog", name="Log in again").wait_for()
            album.take(opened, f"login-{scheme}")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with running_stage() as stage, chromium() as browser:
        fill(stage)
        album = Album(browser, folder, stage)
        at_rest(album)
        in_use(album)
        with_little(album)
        in_trouble(album, stage)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.browser.market.screenshots FOLDER")
    main(Path(sys.argv[1]))
