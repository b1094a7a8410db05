"""The page over the running demo source: its month of history, a late ingestor, a reorganisation of its chain, live
candles, the API down and back, and the end of a login.

The demo source is the process that ``bin/start`` runs, with a clock that a test can hold: the chain then stands in
front of a reorganisation for as long as the page needs. The clock must not go back, so the tests keep their order.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from urllib.parse import quote

import pytest

from marketdata import secretfile
from marketdata.demo.chain import BLOCK_S, HISTORY, MAX_DEPTH, POOLS, Blocks
from marketdata.source.log_filter import swap_filter
from tests.browser.market.conftest import LIBRARY, ChartPage, settled
from tests.browser.market.stage import HOUR, ROOT, Stage, now, running_stage
from tests.functional.market_process import SECONDS
from tests.functional.serving import until

pytestmark = pytest.mark.functional

Tab = Callable[[str], ChartPage]

POOL = POOLS[0].pool
SYMBOL = POOL.symbol
WANTED = swap_filter([POOL])
SEED = b"\7" * 32
LATE_S = 600
"""How many seconds the chain's clock is behind while a test holds it."""
WITH_A_CLOCK = (
    "import pathlib, runpy, sys, time; real, held = time.time, pathlib.Path(sys.argv.pop(1)); "
    "time.time = lambda: float(held.read_text()) if held.exists() else real(); "
    "runpy.run_module('marketdata', run_name='__main__', alter_sys=True)"
)
HATCH = "color-mix(in srgb, var(--ink-soft) 30%, var(--paper))"


def chain() -> tuple[Blocks, int]:
    """A chain, and its last block before a reorganisation that leaves fewer trades of the symbol. That block is
    ``LATE_S`` seconds old."""
    for number in count(HISTORY):
        blocks = Blocks(SEED, now() // 1000 - LATE_S - number * BLOCK_S)
        before = number - MAX_DEPTH
        if blocks.is_abandoned(number, number) and trades(blocks, before, number) > trades(blocks, before, number + 1):
            return blocks, number
    raise AssertionError


def trades(blocks: Blocks, before: int, head: int) -> int:
    """The number of the symbol's trades in the blocks after ``before`` while ``head`` is the newest block."""
    numbers = range(before + 1, head + 1)
    return sum(len(blocks.logs(each, WANTED, is_abandoned=blocks.is_abandoned(each, head))) for each in numbers)


class Demo:
    """Runs the demo source, which stores its trades through the API of ``stage``."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.blocks, self.last = chain()
        self.before = self.last - MAX_DEPTH
        """A block that stays in the chain: the newest, or an older one."""
        self._clock = stage.state_dir / "clock"
        folder = stage.state_dir / "demo"
        folder.mkdir(mode=0o700)
        content = {"seed": SEED.hex(), "genesis": self.blocks.genesis, "history": HISTORY}
        secretfile.write(folder / "chain.json", content)
        self.stand_at(self.before)
        upstream = f"http://127.0.0.1:{stage.api_port}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", WITH_A_CLOCK, str(self._clock), "demo", "run", "--quiet"], cwd=ROOT,
            env=os.environ | {"MARKET_STATE_DIR": str(stage.state_dir), "API_UPSTREAM": upstream},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def stand_at(self, block: int) -> None:
        """Hold the clock at the time of this block."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(self.blocks.genesis + block * BLOCK_S + 1))
        new.replace(self._clock)

    def go_on(self) -> None:
        """Let the clock run with the time of this machine."""
        self._clock.unlink(missing_ok=True)

    def has_stored(self, head: int) -> bool:
        """Whether the newest stored trade is the newest trade of the chain up to a block."""
        assert self._process.poll() is None, "the demo source ended"
        listed = {each["symbol"]: each["last"] for each in self.stage.read("/v1/symbols")["symbols"]}
        traded = next(each for each in count(head, -1) if self.blocks.logs(each, WANTED))
        return bool(listed.get(SYMBOL) == self.time(traded))

    def has_covered(self, head: int) -> bool:
        """Whether everything up to a block is recorded as indexed."""
        ranges = self.stage.read(f"/v1/coverage?symbol={quote(SYMBOL)}")["ranges"]
        return bool(ranges) and max(each["to"] for each in ranges) >= self.time(head)

    def time(self, number: int) -> int:
        """The time of a block, in milliseconds."""
        return (self.blocks.genesis + number * BLOCK_S) * 1000

    def newest(self, interval: str) -> dict[str, str]:
        """The newest candle as the legend shows it."""
        path = f"/v1/chart?symbol={quote(SYMBOL)}&interval={interval}&limit=1"
        candle = self.stage.read(path)["candles"][0]
        return {name.upper(): candle[name] for name in "ohlcv"} | {"n": str(candle["n"])}

    def close(self) -> None:
        self._process.terminate()
        assert self._process.wait(SECONDS) == 0


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """The demo with its history stored, up to the blocks that a reorganisation will replace."""
    if not LIBRARY.exists():
        pytest.skip("not run: the set-up could not fetch the chart library")
    with running_stage() as stage:
        found = Demo(stage)
        try:
            until(lambda: found.has_stored(found.before), SECONDS)
            yield found
        finally:
            found.close()


@pytest.fixture(scope="module")
def stage(demo: Demo) -> Stage:
    return demo.stage


def query(interval: str, **more: object) -> str:
    named = {"symbol": SYMBOL, "interval": interval, **more}
    return "?" + "&".join(f"{name}={value}" for name, value in named.items())


@pytest.mark.full
def test_the_month_is_loaded_by_scrolling_back(tab: Tab, demo: Demo) -> None:
    opened = tab(query("1h", bars=300)).drawn()
    page = opened.page

    def scroll() -> bool:
        page.mouse.move(100, 300)
        page.mouse.down()
        page.mouse.move(1100, 300, steps=4)
        page.mouse.up()
        settled(opened)  # otherwise the next drag could leave the loaded candles behind
        start = page.evaluate("Date.parse(new URLSearchParams(location.search).get('from'))")
        return start is not None and start <= demo.time(0) + 24 * HOUR

    opened.becomes(scroll)
    assert opened.has_pixels("var(--up)", 0.5)
    assert opened.has_pixels("var(--down)", 0.5)
    assert len(opened.chart_requests) >= 2
    page.locator("#newest").click()
    page.mouse.move(600, 10)
    page.keyboard.press("End")
    opened.becomes(lambda: opened.legend() == demo.newest("1h"))


@pytest.mark.full
def test_blocks_that_a_late_ingestor_has_not_read_are_hatched_and_announced(tab: Tab, demo: Demo) -> None:
    until(lambda: demo.has_covered(demo.before))
    opened = tab(query("1m", bars=40)).drawn()
    page = opened.page
    page.locator("#live.behind", has_text=re.compile(r"behind 1\d min")).wait_for()
    page.locator("#said", has_text="The ingestor is behind.").wait_for()
    read, not_read = (0.2, 0.8), (0.88, 0.99)  # parts of the width: up to the newest candle, and to the right of it
    opened.becomes(lambda: opened.pixels(HATCH, *not_read) > 1000)
    assert opened.pixels(HATCH, *read) < 100
    box = page.locator("#chart").bounding_box()
    assert box
    page.mouse.move(box["width"] * 0.88, 300)
    page.locator("#legend", has_text="not indexed").wait_for()


def test_a_reorganisation_corrects_the_candle(tab: Tab, demo: Demo) -> None:
    opened = tab(query("1w")).drawn()
    opened.page.keyboard.press("Alt+t")
    opened.page.locator("#trade-rows tr").first.wait_for()
    stays = int(demo.newest("1w")["n"])

    def with_head(head: int) -> dict[str, str]:
        demo.stand_at(head)
        until(lambda: int(demo.newest("1w")["n"]) == stays + trades(demo.blocks, demo.before, head))
        return demo.newest("1w")

    before = with_head(demo.last)
    opened.becomes(lambda: opened.legend() == before)
    assert not opened.page.locator("#legend .corrected").count()
    after = with_head(demo.last + 1)
    assert int(after["n"]) < int(before["n"])
    opened.becomes(lambda: opened.legend() == after)
    opened.page.locator("#legend .corrected").wait_for()
    opened.page.locator("#trade-rows tr.retracted").first.wait_for()


def test_the_live_candle_moves_and_missing_blocks_are_read_later(tab: Tab, demo: Demo) -> None:
    opened = tab(query("1d")).drawn()
    opened.page.evaluate("window.stayed = true")
    opened.page.locator("#live.behind").wait_for()
    demo.go_on()
    opened.page.locator("#live.live").wait_for(timeout=1000 * SECONDS)
    caught_up = opened.legend()
    until(lambda: opened.legend() != caught_up, SECONDS)  # not every block has a trade
    opened.becomes(lambda: opened.legend() == demo.newest("1d"))
    assert opened.page.evaluate("window.stayed")


@pytest.mark.full
def test_trades_during_an_outage_of_the_api_are_drawn_afterwards(tab: Tab, demo: Demo) -> None:
    demo.go_on()
    opened = tab(query("1d")).drawn()
    page = opened.page
    demo.stage.api.stop()
    page.locator("#live.offline", has_text="offline, last").wait_for()
    page.locator("#said", has_text="Offline.").wait_for()
    before = opened.legend()
    demo.stage.restart_api()
    until(lambda: demo.newest("1d") != before, SECONDS)
    page.locator("#live.live").wait_for(timeout=1000 * SECONDS)
    opened.becomes(lambda: opened.legend() == demo.newest("1d"))


@pytest.mark.full
def test_the_end_of_a_login_keeps_the_view(tab: Tab, demo: Demo) -> None:
    demo.go_on()
    stage = demo.stage
    opened = tab(query("15m", zone="+05:30", scale="log")).drawn()
    page = opened.page
    address, before = opened.url, opened.legend()
    stage.change_password("another one entirely")
    dialog = page.get_by_role("dialog", name="Log in again")
    dialog.wait_for()
    assert opened.url == address
    assert opened.legend().keys() == before.keys()
    dialog.get_by_label("Password").fill(stage.password)
    page.keyboard.press("Enter")
    dialog.wait_for(state="hidden")
    page.locator("#live.live").wait_for()
    opened.becomes(lambda: opened.legend() == demo.newest("15m"))
    assert opened.url == address
    with page.expect_response("**/logout") as leaving:
        page.get_by_role("link", name="Log out").click()
    assert leaving.value.status == 401
    page.get_by_text("You are logged out").wait_for()
