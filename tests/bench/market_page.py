"""How quick the chart is, in the system's Chromium over the real frontend, API and PostgreSQL.

python -m tests.bench.market_page      (a trade each half second arrives while it is measured)
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from playwright.sync_api import Browser, BrowserContext, Page

from marketdata.postgres.cluster import conninfo
from tests.bench.figures import Figure, per_second, spread, table
from tests.bench.page_tab import PROBE, SIZE
from tests.browser.market.stage import MINUTE, Stage, now, running_stage, tick
from tests.functional.chromium import chromium
from tests.functional.market_process import Client
from tests.functional.serving import until

SYMBOL = "BENCH:ETH-USDC"
MINUTES = 49_990
"""Candles of a minute. The page keeps 50 000, those that begin during the run included."""
TICKS_PER_MINUTE = 4
TRADE_SECONDS = 0.5
LOADS = 10
INTERVALS = ("5m", "15m", "1h", "4h", "1m")
CHANGES = 100
KEYS = 100
ZOOM_STEPS = 30
SIGHTS = (160, 500, 1_200)
"""Bars in sight while the chart is scrolled. A bar of a candle has at least about a pixel."""
SCROLL_SECONDS = 5
SCROLL_SPEED = 5_000
"""Pixels a second: at 1 200 candles in sight, a run passes about 25 000."""
MIDDLE = (600, 350)

_FILL = """
INSERT INTO md_ticks_v1 (symbol, id, ts, price, size)
SELECT %s, lpad(n::text, 12, '0'), to_timestamp(%s) + make_interval(secs => n * 60.0 / %s),
       2500 + round((200 * sin(n / 9000.0) + 30 * sin(n / 211.0))::numeric, 2) + n * 7919 %% 1009 / 100.0,
       n %% 1009 / 8.0 + 1
FROM generate_series(%s::bigint, %s) AS n
"""
CHUNK = 20_000


def measure() -> Iterator[Figure]:
    with running_stage() as stage, chromium() as browser:
        _fill(stage)
        with _trading(stage):
            yield _loads(browser, stage, "the plain address", "")
            yield _loads(browser, stage, "a permalink", f"?symbol={SYMBOL}&interval=1m")
            with _context(browser, stage) as context:
                yield _interval_changes(context, stage)
                yield _history(context, stage)
                yield from _scrolls(context, stage)


def _fill(stage: Stage) -> None:
    ticks = MINUTES * TICKS_PER_MINUTE
    start = now() // MINUTE - MINUTES
    with psycopg.connect(conninfo(stage.state_dir), autocommit=True) as connection:
        for first in range(0, ticks, CHUNK):
            last = min(first + CHUNK, ticks) - 1
            connection.execute(_FILL, (SYMBOL, start * 60, TICKS_PER_MINUTE, first, last))
        connection.execute("VACUUM ANALYZE md_ticks_v1")
        connection.execute("VACUUM ANALYZE md_rollups_v1")


@contextmanager
def _trading(stage: Stage) -> Iterator[None]:
    """Store a trade again and again, so that the newest candle moves and no answer stays cached."""
    ended = threading.Event()

    def trade() -> None:
        with closing(Client(stage.api_port, stage.api.token("alg"))) as client:
            while not ended.wait(TRADE_SECONDS):
                status, _ = client("POST", "/v1/ingest/tick", tick(SYMBOL, now(), f"{2500 + now() % 7}.5"))
                assert status == 201

    thread = threading.Thread(target=trade, name="trades")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _context(browser: Browser, stage: Stage) -> Iterator[BrowserContext]:
    """A profile with an empty cache, logged in."""
    credentials: Any = {"username": stage.user, "password": stage.password}
    context = browser.new_context(viewport=SIZE, http_credentials=credentials)  # type: ignore[arg-type]
    for probe in (PROBE, Path(__file__).with_name("market_page_probe.js")):
        context.add_init_script(path=probe)
    page = context.new_page()
    page.goto(f"{stage.address}whoami")
    yield context
    context.close()


# -- loading ---------------------------------------------------------------------------------------------------------


def _loads(browser: Browser, stage: Stage, name: str, query: str) -> Figure:
    seconds = []
    for _ in range(LOADS):
        with _context(browser, stage) as context:
            page = context.pages[0]
            page.goto(stage.address + query, wait_until="commit")
            seconds.append(page.evaluate("chartProbe.result") / 1000)
    value = f"p50 {1000 * statistics.median(seconds):.0f} ms, slowest {1000 * max(seconds):.0f} ms"
    return Figure(f"cold load to first candles painted, {name}", value, "≤ 450 ms")


def _shown(context: BrowserContext, stage: Stage, query: str) -> Page:
    page = context.pages[0]
    page.goto(stage.address + query)
    page.locator("#live.live").wait_for()
    page.evaluate("chartProbe.result")
    return page


def _interval_changes(context: BrowserContext, stage: Stage) -> Figure:
    page = _shown(context, stage, f"?symbol={SYMBOL}&interval=1m")
    seconds = []
    for number in range(CHANGES):
        interval = INTERVALS[number % len(INTERVALS)]
        page.evaluate("(interval) => chartProbe.armInterval(interval)", interval)
        page.locator(f"[data-interval='{interval}']").click()
        seconds.append(page.evaluate("chartProbe.tookFromClick()") / 1000)
    return Figure("click on another interval to its candles painted", spread(seconds), "p50 ≤ 150 ms")


# -- scrolling -------------------------------------------------------------------------------------------------------


def _history(context: BrowserContext, stage: Stage) -> Figure:
    """Scroll back from the newest candles, so that older ones are read meanwhile."""
    page = _shown(context, stage, f"?symbol={SYMBOL}&interval=1m&bars=500")
    before = page.evaluate("chartProbe.view()")
    frames = _wheel(page)
    read = page.evaluate("chartProbe.view()")["kept"] - before["kept"]
    return _figure(f"wheel, 500 candles of 1m in sight, {read:,} older ones read meanwhile", frames)


def _scrolls(context: BrowserContext, stage: Stage) -> Iterator[Figure]:
    page = _shown(context, stage, f"?symbol={SYMBOL}&interval=1m&bars={max(SIGHTS)}")
    until(lambda: _read_back(page), 120)
    kept = page.evaluate("chartProbe.view()")["kept"]
    if kept < MINUTES:
        raise SystemExit(f"only {kept} candles were loaded")
    yield _keys(page, kept)
    for sight in reversed(SIGHTS):
        _zoom(page, sight)
        yield _figure(f"wheel, {kept:,} candles of 1m loaded, about {sight:,} in sight", _wheel(page))
        yield _figure(f"drag, {kept:,} candles of 1m loaded, about {sight:,} in sight", _drag(page))
    yield _zooms(page, kept)


def _read_back(page: Page) -> bool:
    """Move to older candles; true when there are none left to read."""
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    return not page.evaluate("chartProbe.view()")["hasOlder"]


def _keys(page: Page, kept: int) -> Figure:
    page.keyboard.press("End")
    seconds = []
    for _ in range(KEYS):
        page.evaluate("chartProbe.armKey()")
        page.keyboard.press("ArrowLeft")
        seconds.append(page.evaluate("chartProbe.result") / 1000)
    return Figure(f"arrow key to the moved chart painted, {kept:,} candles loaded", spread(seconds), "≤ 50 ms")


def _zooms(page: Page, kept: int) -> Figure:
    """Zoom out and back in by 33 key presses a second, like a held key. The drawn interval changes meanwhile. Keys
    without a pause would delay the tasks that count the frames."""
    page.evaluate("probe.countFrames()")
    ends = time.monotonic() + SCROLL_SECONDS
    while time.monotonic() < ends:
        for key in "-" * ZOOM_STEPS + "+" * ZOOM_STEPS:
            page.keyboard.press(key)
            page.wait_for_timeout(30)
    frames = page.evaluate("probe.frames()")
    return _figure(f"zoom out and in by the keys, {kept:,} candles of 1m loaded at first", frames)


def _zoom(page: Page, sight: int) -> None:
    """Zoom with the keys."""
    while page.evaluate("chartProbe.view()")["bars"] > sight * 1.1:
        page.keyboard.press("+")


def _wheel(page: Page) -> list[float]:
    with _counted(page) as painted:
        page.context.new_cdp_session(page).send(
            "Input.synthesizeScrollGesture",
            {"x": MIDDLE[0], "y": MIDDLE[1], "xDistance": SCROLL_SPEED * SCROLL_SECONDS, "yDistance": 0,
             "speed": SCROLL_SPEED, "gestureSourceType": "mouse"},
        )  # fmt: skip
    return painted


def _drag(page: Page) -> list[float]:
    """Drag back and forth as quickly as the browser accepts the pointer's moves."""
    x, y = MIDDLE
    with _counted(page) as painted:
        page.mouse.down()
        ends = time.monotonic() + SCROLL_SECONDS
        while time.monotonic() < ends:
            page.mouse.move(x - 200, y, steps=40)
            page.mouse.move(x + 400, y, steps=60)
        page.mouse.up()
    return painted


@contextmanager
def _counted(page: Page) -> Iterator[list[float]]:
    """When the frames of a movement that begins at the newest candles were painted; empty when nothing has moved."""
    painted: list[float] = []
    page.keyboard.press("End")
    page.mouse.move(*MIDDLE)
    before = page.evaluate("chartProbe.view()")["from"]
    page.evaluate("probe.countFrames()")
    yield painted
    frames = page.evaluate("probe.frames()")
    if page.evaluate("chartProbe.view()")["from"] < before:
        painted += frames


def _figure(name: str, painted: Sequence[float]) -> Figure:
    if not painted:
        return Figure(name, "the chart was not moved in the end", "≥ 50 frames/s")
    counts = per_second(painted)
    value = f"{statistics.median(counts):.0f} frames/s, {min(counts)} in the slowest second"
    return Figure(name, value, "≥ 50 frames/s")


if __name__ == "__main__":
    print(table(list(measure())))
