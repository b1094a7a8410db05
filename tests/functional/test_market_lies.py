"""The ingestor and the backfill on a node that leaves out logs.

A bloom filter shows that a pool's logs of a block are missing, but not that one of several is. So the tests compare
pools and blocks first; ``verify`` and ``repair`` find the rest.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.source import evm, proof
from marketdata.source.log_filter import swap_filter
from marketdata.source.pools.pool import Pool, PoolIndex
from tests.functional.chain_market import Market, indexed, running, stored_ticks
from tests.functional.evm_packages import FIRST_INSTALL_SECONDS, EvmPackages
from tests.functional.ingestor_process import BackfillProcess
from tests.functional.lying_node import Lies, LyingNode
from tests.functional.market_process import Client
from tests.functional.serving import until

CONFIRMATIONS = 12

pytestmark = [pytest.mark.functional, pytest.mark.timeout(FIRST_INSTALL_SECONDS)]


class Doubted(Market):
    """A market whose stored blocks are compared with the chain."""

    def lacking(self) -> set[tuple[str, int]]:
        """The symbols and blocks of which no tick is stored, although there was a swap."""
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            symbols = [f"TEST:{pool.name}" for pool in self.pools]
            stored = {(symbol, tick["block"]["number"]) for symbol in symbols for tick in stored_ticks(read, symbol)}
        return {(tick["symbol"], tick["block"]["number"]) for tick in self.exchanges.ticks(*self.pools)} - stored

    def failed(self) -> set[tuple[str, int]]:
        """The symbols and the times in seconds that are reported as failed."""
        found = set()
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            for pool in self.pools:
                _, answer = read("GET", f"/v1/coverage?symbol=TEST:{pool.name}")
                ranges = [each for each in answer.get("ranges", ()) if each["state"] == "failed"]
                found |= {(f"TEST:{pool.name}", each["from"] // 1000) for each in ranges}
        return found

    def forget(self) -> None:
        """Let the backfill read everything again."""
        with closing(sqlite3.connect(self.api.state_dir / "ingestor" / "md_ticks_v1.sqlite")) as state, state:
            state.execute("DELETE FROM backfilled")

    def assert_lacks_nothing(self) -> None:
        with suppress(AssertionError):
            until(lambda: not self.lacking(), 30)
        assert self.lacking() == set(), self.ingestor.said()[-3000:]


@pytest.fixture(scope="module")
def market(evm_packages: EvmPackages) -> Iterator[Doubted]:
    with running(partial(Doubted, full=True), evm_packages) as found:
        found.ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
        yield found


@pytest.fixture
def node(market: Market) -> Iterator[LyingNode]:
    with closing(LyingNode(market.chain)) as found:
        yield found


def test_a_bloom_filter_names_every_pool_that_lacks_its_logs_and_receipts_prove_themselves(market: Market) -> None:
    # The kinds and addresses are enough for a filter.
    pools = [Pool(each.name, each.address, each.kind, each.decimals, each.invert, 0) for each in market.pools]
    wanted, index = swap_filter(pools), PoolIndex(pools)
    blocks = [
        (evm.header(block), [evm.receipt(each) for each in receipts]) for block, receipts in market.chain.blocks()
    ]

    @given(st.data())
    def check(data: st.DataObject) -> None:
        header, receipts = data.draw(st.sampled_from(blocks))
        logs = [log for receipt in receipts for log in receipt.logs if wanted.selects(log)]
        kept = data.draw(st.lists(st.sampled_from(logs), unique=True) if logs else st.just([]))
        there, left = ({pool.address for log in each for pool in index.of(log)} for each in (logs, kept))
        unseen = wanted.unseen(header.bloom, kept)
        assert there - left <= unseen
        assert not unseen & left
        assert proof.of_receipts(header, receipts, wanted) == [log._replace(time=header.time) for log in logs]
        # Nothing shows that the last log is missing if others have its address and topics.
        logs = [log for log in logs if log.position < sum(len(each.logs) for each in receipts) - 1]
        if logs:
            lost = data.draw(st.sampled_from(logs))
            lying = [each._replace(logs=tuple(log for log in each.logs if log != lost)) for each in receipts]
            with pytest.raises(ValueError, match="lack logs"):
                proof.of_receipts(header, lying, wanted)

    check()


def test_what_a_node_leaves_out_is_asked_again_or_failed(market: Doubted, node: LyingNode) -> None:
    market.ingestor.configure(url=node.url)
    node.logs = node.receipts = lambda _: []
    market.ingestor.start()
    until(market.failed)  # already where the chain's coverage continues that of the pools
    node.logs = node.receipts = None
    market.assert_complete()
    market.assert_covered(60)
    node.logs = lies = Lies(market.random, 6)
    until(lambda: lies.is_done or market.trade(5))
    market.assert_lacks_nothing()
    node.logs = lambda _: []  # only the receipts have the logs
    market.trade(3)
    market.assert_lacks_nothing()
    counted = market.ingestor.figures()["marketdata_source_contradictions_total"]
    assert counted > 3
    for lie in ("lacks", "receipts"):
        counted = market.ingestor.figures()["marketdata_source_contradictions_total"]
        node.logs = lambda _: []
        node.lacks = "eth_getBlockReceipts" if lie == "lacks" else ""
        node.receipts = lambda _: []
        market.trade(3)
        lacking = market.lacking()
        times = {
            number: int(market.chain("eth_getBlockByNumber", hex(number), False)["timestamp"], 16)
            for _, number in lacking
        }
        until(lambda lacking=lacking, times=times: market.failed() == {(symbol, times[at]) for symbol, at in lacking})
        assert (
            market.ingestor.figures()["marketdata_source_contradictions_total"] >= counted + len(times) == counted + 3
        )
        node.logs = node.receipts = None
        node.lacks = ""
        market.assert_lacks_nothing()
    assert market.ingestor.said().count("has eth_getBlockReceipts") == 1
    market.assert_covered(60)
    assert market.ingestor.stop() == 0


def test_final_ranges_are_checked_by_a_sample_and_read_block_by_block_after_a_lie(
    market: Doubted, node: LyingNode
) -> None:
    market.chain.mine(CONFIRMATIONS + 1)
    backfill = BackfillProcess(market.api, node.url, market.pools)
    backfill.configure()
    newest = int(market.chain("eth_blockNumber"), 16)
    last = newest - CONFIRMATIONS
    blocks = ("--from-block", str(last - 29), "--to-block", str(last))
    done = backfill.run(*blocks)
    assert (done.returncode, done.stderr) == (0, "")
    # Honest ranges cost no more than without the check: the sample has the same size, and no receipts are asked for.
    assert "eth_getBlockReceipts" not in node.calls
    searched = sum(pool.kind == "uniswap-v4" for pool in market.pools)  # their creations, with three headers each
    ranges = node.calls["eth_getLogs"] - searched
    assert node.calls["eth_getBlockByNumber"] <= 4 * ranges + 3 * searched + 2
    market.forget()
    node.logs = lambda _: []
    done = backfill.run(*blocks)
    assert re.search(r", [1-9]\d* blocks of which the provider had left out events$", done.stdout.rstrip()), done.stdout
    market.forget()
    node.receipts = lambda _: []
    done = backfill.run(*blocks)
    assert (done.returncode, "blocks are not indexed, because every answer lacks events" in done.stderr) == (1, True)
    assert market.failed()
    node.logs = node.receipts = None
    done = backfill.run(*blocks)
    assert done.returncode == 0
    assert not market.failed()
    market.assert_lacks_nothing()


def test_verify_finds_and_repair_mends_what_a_bloom_filter_does_not_show(market: Doubted, node: LyingNode) -> None:
    """One of several logs of a pool in a block, and ticks that were falsified, removed or invented."""
    market.ingestor.configure(url=node.url)
    market.ingestor.start()
    node.logs = lambda logs: logs[:1]
    market.trade(25)
    for _ in range(2):  # in one block
        market.exchanges.swap(market.pools[0], market.pools[0].amounts[0] // 1000, sell=True)
    market.chain.mine()
    market.assert_lacks_nothing()
    market.chain.mine(CONFIRMATIONS + 1)
    market.assert_covered()
    node.logs = None
    last = int(market.chain("eth_blockNumber"), 16) - CONFIRMATIONS
    ticks = {tick["id"]: tick for tick in market.exchanges.ticks(*market.pools) if tick["block"]["number"] <= last}
    with closing(Client(market.api.port, market.api.token("read"))) as read:
        stored = {tick["id"] for pool in market.pools for tick in stored_ticks(read, f"TEST:{pool.name}")}
    lost = ticks.keys() - stored
    assert lost
    right = market.random.sample([ticks[id] for id in stored], 20)
    false = [tick | {"price": "7"} for tick in right]
    invented = right[0] | {"id": "0x" + "ab" * 32 + ":1", "block": right[0]["block"] | {"hash": "0x" + "ab" * 32}}
    with closing(Client(market.api.port, market.api.token("alg"))) as write:
        for tick in right:  # the other ticks of the block get lost
            block = {"symbol": tick["symbol"], "block_hash": tick["block"]["hash"]}
            assert write("POST", "/v1/ingest/tick", {"ticks": [{"retract": block}, {"restore": block}]})[0] == 200
        assert write("POST", "/v1/ingest/tick", {"ticks": [*false, invented]})[1]["rejected"] == []
    blocks = ("--from-block", "0", "--to-block", str(last))
    done = market.ingestor.run("verify", *blocks, "--format", "json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert {tick["id"] for tick in found["different"]} == {tick["id"] for tick in false}
    assert [tick["id"] for tick in found["superfluous"]] == [invented["id"]]
    assert {tick["id"] for tick in found["missing"]} >= lost
    # The running ingestor finds them by itself, too.
    market.ingestor.stop()
    market.ingestor.configure(verify_s=0.2)
    starts = market.ingestor.said().count(" metrics: ")
    market.ingestor.start()
    until(lambda: market.ingestor.said().count(" metrics: ") > starts)
    until(lambda: market.ingestor.figures().get("marketdata_verify_differences", 0) > 0)
    done = market.ingestor.run("repair", *blocks)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [len(found[kind]) for kind in ("missing", "superfluous", "different")]
    assert "missing {}, superfluous {}, different {}".format(*counts) in done.stdout
    market.assert_complete()
    newest = int(market.chain("eth_getBlockByNumber", "latest", False)["timestamp"], 16) * 1000 + 1000
    with closing(Client(market.api.port, market.api.token("read"))) as read:  # also after the repaired blocks
        assert {indexed(read, f"TEST:{pool.name}")[-1][1] for pool in market.pools} == {newest}
    until(lambda: market.ingestor.figures()["marketdata_verify_differences"] == 0)
    done = market.ingestor.run("verify")
    assert (done.returncode, ": missing 0, superfluous 0, different 0\n" in done.stdout) == (0, True)
    assert market.ingestor.stop() == 0
