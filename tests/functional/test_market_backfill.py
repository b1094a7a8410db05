"""The backfill on a real node with the real contracts of Uniswap, alone and beside the ingestor."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from tests.functional.chain_market import Market
from tests.functional.evm_packages import FIRST_INSTALL_SECONDS, EvmPackages
from tests.functional.ingestor_process import BackfillProcess
from tests.functional.lying_node import LyingNode
from tests.functional.market_process import SECONDS, Client
from tests.functional.serving import until

pytestmark = [pytest.mark.functional, pytest.mark.timeout(FIRST_INSTALL_SECONDS)]

CONFIRMATIONS = 12
MAX_BLOCKS = 7
"""The number of blocks that the provider answers for in one request."""


class Past(Market):
    """A chain and a store, with the backfill beside the ingestor."""

    def __init__(self, packages: EvmPackages, state_dir: Path) -> None:
        super().__init__(packages, state_dir)
        self.backfill = BackfillProcess(self.api, self.chain.url, self.pools)
        self._folder = state_dir / "ingestor"

    def trade_and_bury(self, blocks: int) -> None:
        """Mine blocks with swaps, and then enough blocks to make them final."""
        self.trade(blocks)
        self.chain.mine(CONFIRMATIONS + 1)

    def assert_backfilled(self, after: int) -> None:
        """The times of the blocks before ``after`` are indexed, without a gap."""
        blocks = [self.chain("eth_getBlockByNumber", hex(number), False) for number in (0, after)]
        times = [int(block["timestamp"], 16) * 1000 for block in blocks]
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            for pool in self.pools:
                _, answer = read("GET", f"/v1/coverage?symbol=TEST:{pool.name}")
                ranges = answer["ranges"]
                assert [ranges[0]["from"], ranges[-1]["to"]] == times
                assert all(one["to"] == other["from"] for one, other in pairwise(ranges))
                assert {each["state"] for each in ranges} <= {"indexed", "no_trades"}

    def finished(self) -> list[tuple[int, int]]:
        """The ranges of the first pool in the state file. There are none while the file does not exist."""
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self._folder / "md_ticks_v1.sqlite")) as state:
            rows = state.execute(
                "SELECT first, last FROM backfilled WHERE symbol = ?", (f"TEST:{self.pools[0].name}",)
            ).fetchall()
            return [(first, last) for first, last in rows]
        return []

    def pretend_stored(self, last: int) -> None:
        """Give the state file the marks that an earlier release made for the blocks 0 to ``last``."""
        with closing(sqlite3.connect(self._folder / "md_ticks_v1.sqlite")) as state, state:
            rows = [("md_ticks_v1", f"TEST:{pool.name}", pool.address, 0, last) for pool in self.pools]
            state.executemany("INSERT INTO backfilled VALUES (?, ?, ?, ?, ?)", rows)
            state.executescript("DROP TABLE old_marks; DROP TABLE doubted; PRAGMA user_version = 2;")

    def unmark(self) -> None:
        """Let the backfill read everything again."""
        with closing(sqlite3.connect(self._folder / "md_ticks_v1.sqlite")) as state, state:
            state.execute("DELETE FROM backfilled")

    def forget(self) -> None:
        """Remove the state of both programs, as if neither had run here. The store stays as it is."""
        shutil.rmtree(self._folder)


@pytest.fixture(scope="module")
def past(evm_packages: EvmPackages) -> Iterator[Past]:
    """The tests share a chain and a store: each test continues where the previous one ended."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = Past(evm_packages, Path(folder))
        found.api.start()
        yield found
        found.backfill.kill()
        found.close()


def test_live_and_backfilled_ticks_are_those_of_the_receipts(past: Past) -> None:
    past.trade_and_bury(25)
    began = int(past.chain("eth_blockNumber"), 16) + 1
    entries = [pool.entry() for pool in past.pools]
    past.ingestor.configure(pools=[each | {"start_block": began} for each in entries])
    past.ingestor.start()
    past.trade(15)
    until(lambda: "delivered" in past.ingestor.said())
    past.backfill.configure(pools=entries)
    done = past.backfill.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(
        rf"TEST: {began} blocks up to block {began - 1} read in \d+\.\d s: (\d+) ticks, \1 new, 0 known, "
        r"0 refused \(dead letters\)\n",
        done.stdout,
    )
    past.assert_complete()
    past.ingestor.stop()
    past.assert_covered()  # both recorded their ranges, without a gap between them
    again = past.backfill.run()
    assert (again.returncode, again.stdout, again.stderr) == (
        0,
        f"TEST: nothing to read: {', '.join(f'TEST:{pool.name}' for pool in past.pools[:3])} and "
        f"{len(past.pools) - 3} more: the blocks 0 to {began - 1} are stored, and the ingestor reads from there on\n",
        "",
    )
    # Blocks that the ingestor has read can be requested, too.
    done = past.backfill.run("--from-block", str(began), "--to-block", str(began + 2))
    assert re.match(rf"TEST: 3 blocks up to block {began + 2} read .*, 0 new, \d+ known, 0 refused", done.stdout)
    past.chain.mine(CONFIRMATIONS)
    final = int(past.chain("eth_blockNumber"), 16) - CONFIRMATIONS
    past.ingestor.start()
    past.assert_covered()
    everything = ("--from-block", "0", "--to-block", str(final))
    assert past.backfill.run(*everything).returncode == 0
    past.assert_covered()
    past.chain.mine()
    past.assert_covered()
    past.unmark()
    with closing(LyingNode(past.chain)) as node:
        past.backfill.configure(url=node.url)
        node.logs = node.receipts = lambda _: []
        assert past.backfill.run(*everything).returncode == 1
        node.logs = node.receipts = None
        assert past.backfill.run(*everything).returncode == 0
        past.backfill.configure(url=past.chain.url)
    past.chain.mine()
    past.assert_covered()
    past.ingestor.stop()


def test_the_recipe_of_the_manual_stores_what_is_below_start_block(past: Past) -> None:
    """A recent ``start_block``, the ingestor, then ``--from-block``. An earlier release dropped the swaps below
    ``start_block``, so its marks are false: they are removed, and named."""
    past.forget()
    past.trade_and_bury(12)
    past.trade(1)
    began = int(past.chain("eth_blockNumber"), 16)
    entries = [pool.entry() | {"start_block": began} for pool in past.pools]
    past.ingestor.configure(pools=entries)
    past.backfill.configure(pools=entries)
    past.ingestor.start()
    until(lambda: f" read blocks {began} " in past.ingestor.said())
    past.ingestor.stop()
    past.chain.mine(CONFIRMATIONS)
    symbols = [f"TEST:{pool.name}" for pool in past.pools]
    past.pretend_stored(began - 1)
    done = past.backfill.run()
    [said] = re.findall(r"(.*): the blocks 0 to \d+ were marked as stored, .* --from-block 0\b", done.stderr)
    assert (done.returncode, set(said.split(", "))) == (0, set(symbols)), done.stderr
    with closing(Client(past.api.port, past.api.token("read"))) as read:
        for symbol in symbols:
            assert read("GET", f"/v1/coverage?symbol={symbol}")[1]["ranges"][0]["state"] == "failed"
    stored = sum(tick["block"]["number"] < began for tick in past.exchanges.ticks(*past.pools))
    done = past.backfill.run("--from-block", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert f" {stored} ticks, " in done.stdout
    past.assert_complete()
    past.ingestor.start()
    past.assert_covered()
    past.ingestor.stop()
    past.backfill.configure(pools=[pool.entry() for pool in past.pools])


def test_a_killed_backfill_reads_no_finished_range_again(past: Past) -> None:
    past.forget()
    past.trade_and_bury(40)
    with closing(LyingNode(past.chain)) as provider, ExitStack() as stack:
        stack.callback(past.backfill.configure, url=past.chain.url, requests_per_s=5000)
        stack.callback(past.backfill.kill)
        provider.most_blocks = MAX_BLOCKS
        past.backfill.configure(url=provider.url, requests_per_s=20)
        past.backfill.start()
        until(past.finished, SECONDS)
        os.kill(past.backfill.pid, signal.SIGSTOP)  # so that it cannot end first
        second = past.backfill.run()
        assert second.returncode == 4
        assert f"another backfill, process {past.backfill.pid}, holds" in second.stderr
        past.backfill.kill()
        kept = past.finished()
        provider.ranges.clear()
        past.trade_and_bury(20)
        past.backfill.start()
        until(lambda: provider.ranges, SECONDS)
        assert past.backfill.stop() == 128 + 15
        stopped = past.backfill.said().splitlines()[-1]
        goes_on = re.search(r"; SIGTERM ended it; the next run continues at block (\d+)$", stopped)
        assert goes_on is not None, stopped
        assert int(goes_on[1]) == next((last + 1 for first, last in past.finished() if first == 0), 0)
        past.backfill.configure(requests_per_s=5000)
        done = past.backfill.run()
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")
    assert not [one for one in provider.ranges for other in kept if one[0] <= other[1] and other[0] <= one[1]]
    past.assert_complete()
    final = int(past.chain("eth_blockNumber"), 16) - CONFIRMATIONS
    past.assert_backfilled(final + 1)
    assert past.finished() == [(0, final)]


def test_a_retracted_block_that_is_final_is_restored(past: Past) -> None:
    past.forget()
    past.trade_and_bury(5)
    last = past.exchanges.ticks(*past.pools)[-1]
    retract = {"retract": {"symbol": last["symbol"], "block_hash": last["block"]["hash"]}}
    with closing(Client(past.api.port, past.api.token("alg"))) as write:
        assert write("POST", "/v1/ingest/tick", {"ticks": [last, retract]})[0] == 200
    done = past.backfill.run()
    assert done.returncode == 0, done.stderr
    past.assert_complete()


def test_a_wrong_configuration_or_range_is_named(past: Past) -> None:
    past.backfill.configure(chain_id=5)
    wrong = past.backfill.run()
    assert wrong.returncode == 1
    assert "is on the chain 31337, and rpc.json says chain_id 5" in wrong.stderr
    past.backfill.configure(chain_id=31337, pools=[past.pools[0].entry() | {"decimals": [1, 1]}])
    wrong = past.backfill.run()
    assert wrong.returncode == 1
    assert "contradicts rpc.json" in wrong.stderr
    past.backfill.configure(pools=[pool.entry() for pool in past.pools])
    wrong = past.backfill.run("--from-block", "7", "--to-block", "6")
    assert (wrong.returncode, wrong.stdout) == (2, "")
