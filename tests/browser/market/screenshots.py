"""Every state of the chart page as a picture: ``python -m tests.browser.market.screenshots FOLDER``.

Real Chromium over the real frontend, API and PostgreSQL, with the trades of an invented market.
"""

from __future__ import annotations

import math
import random
import sys
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.browser.market.conftest import ChartPage, query, settled, still_picture
from tests.browser.market.stage import HOUR, Stage, now, running_stage
from tests.browser.market.tour import states
from tests.functional.chromium import chromium

SYMBOL = "DEMO:ETH-USDC"
SIZES = ((1280, 720), (1920, 1080), (721, 720), (390, 844))
CHOSEN = {"indicators": "sma.20,bb.20.2,rsi.14,sides", "zone": "America/New_York"}
VIEWS = {
    "chart": query(SYMBOL, "15m", bars=150),
    "indicators": query(SYMBOL, "15m", bars=150, **CHOSEN),
    "lists": query(SYMBOL, "15m", bars=150, panels="watchlist,trades", list="change"),
    "coarser": query(SYMBOL, "1m", bars=8000),
    "log": query(SYMBOL, "1m", bars=300, scale="log"),
    "percent": query(SYMBOL, "1h", scale="percent", inverted=1, type="line"),
}


def fill(stage: Stage) -> None:
    """Twelve days of a random walk, which is the same in each run, with a gap."""
    end = now()
    start = end - 12 * 24 * HOUR
    gap = range(end - 14 * HOUR, end - 11 * HOUR)
    drawn, ticks, price = random.Random(SYMBOL), [], 2500.0
    for block, ts in enumerate(range(start, end, 20_000), 1):
        price *= math.exp(drawn.gauss(0, 0.0014))
        if ts not in gap:
            ticks.append({
                "symbol": SYMBOL, "id": f"{block}", "ts": ts, "seq": 0, "price": f"{price:.2f}",
                "size": f"{drawn.expovariate(1) + 0.001:.4f}", "side": drawn.choice(("buy", "sell")),
                "block": {"number": block, "hash": f"0x{block:x}"},
            })  # fmt: skip
    stage.write(*ticks, {"finalize": {"symbol": SYMBOL, "block": (end - start - 70 * 60_000) // 20_000}})
    stage.cover(SYMBOL, start, gap.start)
    stage.cover(SYMBOL, gap.stop, end + HOUR)


def opened(browser: Browser, stage: Stage, size: tuple[int, int], scheme: Any) -> ChartPage:
    credentials: Any = {"username": stage.user, "password": stage.password}
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, http_credentials=credentials)
    return ChartPage(context.new_page(), stage)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for scheme in ("light", "dark"):
            with running_stage() as stage:
                page = opened(browser, stage, SIZES[0], scheme)
                for name in states(page, stage):
                    (folder / f"{name}-{scheme}.png").write_bytes(still_picture(page.page, "html"))
        with running_stage() as stage:
            fill(stage)
            for size, scheme, name in product(SIZES, ("light", "dark"), VIEWS):
                page = opened(browser, stage, size, scheme).go(VIEWS[name]).drawn()
                settled(page)
                (folder / f"{name}-{size[0]}-{scheme}.png").write_bytes(still_picture(page.page, "html"))
                page.page.context.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.browser.market.screenshots FOLDER")
    main(Path(sys.argv[1]))
