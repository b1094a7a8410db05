"""The demo source on a real API: its history, live blocks and a reorganisation, and that it begins anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marketdata.demo import state_directory
from marketdata.demo.chain import BLOCK_S, POOLS, Blocks, DemoProvider
from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.delivery import Delivery
from marketdata.ingest.follower import Follower
from marketdata.ingest.lease import Lease
from marketdata.ingest.outbox import Outbox
from marketdata.settings import load
from marketdata.source import swaps
from marketdata.source.log_filter import swap_filter
from marketdata.tick import parse_tick
from tests.functional.chain_market import stored_candles, stored_ticks
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client
from tests.marketdata.store import brute_force

pytestmark = pytest.mark.functional

GENESIS, HISTORY = 1_790_000_000, 1500
BLOCKS = Blocks(b"\7" * 32, GENESIS, HISTORY)
WANTED = swap_filter(each.pool for each in POOLS)
OTHER = {"symbol": "TEST:ETH-USD", "id": "1", "ts": 1_790_000_000_000, "price": "1", "size": "1"}


@pytest.fixture(scope="module")
def api() -> Iterator[ApiProcess]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = ApiProcess(Path(folder))
        found.start()
        yield found
        found.stop()


class Ingestor:
    """The demo's node with a clock of the test's own. Everything else is as in the ingestor."""

    def __init__(self, api: ApiProcess) -> None:
        self.head = 0
        self.outbox = Outbox(api.state_dir / "demo-test.sqlite")
        self.client = ApiClient(f"http://127.0.0.1:{api.port}", lambda: api.token("alg"))
        self.lease = Lease(self.client, self.outbox, "md_ticks_v1")
        self.delivery = Delivery(self.outbox, self.client, self.lease)
        node = DemoProvider(BLOCKS, lambda: GENESIS + BLOCK_S * self.head)
        self.follower = Follower(node, state_directory.SOURCE, [each.pool for each in POOLS], self.outbox)

    def go_on_to(self, head: int) -> None:
        self.head = head
        self.follower.look()
        while self.follower.step():
            pass
        while self.delivery.step():
            pass
        assert self.outbox.dead_letters() == []

    def close(self) -> None:
        self.lease.release()
        self.client.close()
        self.outbox.close()


def assert_stored(read: Client, head: int) -> set[str]:
    """Ticks and candles are those of the chain at this moment, block by block; returns the hashes of its blocks."""
    headers = [BLOCKS.header(n, is_abandoned=BLOCKS.is_abandoned(n, head)) for n in range(head + 1)]
    for pool, *_ in POOLS:
        logs = [
            log
            for header in headers
            for log in BLOCKS.logs(header.number, WANTED, is_abandoned=BLOCKS.is_abandoned(header.number, head))
            if log.address == pool.address
        ]
        expected = [parse_tick(json.loads(swaps.tick_json(pool, each))) for each in logs]
        assert len(expected) > HISTORY // 20
        assert [parse_tick(each) for each in stored_ticks(read, pool.symbol)] == expected
        for interval in ("1m", "15m", "1d"):
            candles = [
                json.loads(f"{brute_force.json_prefix(each)}}}") for each in brute_force.candles(expected, interval)
            ]
            assert stored_candles(read, pool.symbol, interval) == candles
    return {header.hash for header in headers}


def next_reorganisation(first: int) -> int:
    """The block before which the next reorganisation happens that replaces trades."""
    head = first
    while not any(
        BLOCKS.is_abandoned(number, head - 1)
        and BLOCKS.header(number, is_abandoned=True).has_transactions
        and BLOCKS.header(number).has_transactions
        for number in range(head - 4, head)
    ) or BLOCKS.is_abandoned(head - 1, head):  # fmt: skip
        head += 1
    return head


def test_history_live_blocks_and_a_reorganisation(api: ApiProcess) -> None:
    with closing(Ingestor(api)) as ingestor, closing(Client(api.port, api.token("read"))) as read:
        ingestor.go_on_to(HISTORY)
        assert_stored(read, HISTORY)
        before = ingestor.follower.counts.ticks
        ingestor.go_on_to(HISTORY + 5)
        assert_stored(read, HISTORY + 5)
        assert ingestor.follower.counts.ticks > before
        changed = next_reorganisation(HISTORY + 10)
        ingestor.go_on_to(changed - 1)
        abandoned = assert_stored(read, changed - 1)
        retracted = ingestor.follower.counts.retracted_blocks
        ingestor.go_on_to(changed)
        assert abandoned - assert_stored(read, changed)
        assert ingestor.follower.counts.retracted_blocks > retracted


def test_reset_removes_what_is_of_the_demo(api: ApiProcess) -> None:
    def reset() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "marketdata", "demo", "reset"], cwd=ROOT, capture_output=True, text=True,
            env=os.environ | {"MARKET_STATE_DIR": str(api.state_dir)}, timeout=SECONDS, check=False,
        )  # fmt: skip

    write = Client(api.port, api.token("alg"))
    read = Client(api.port, api.token("read"))
    with closing(write), closing(read):
        tick = OTHER | {"id": "2", "symbol": state_directory.SYMBOLS[0]}
        assert write("POST", "/v1/ingest/tick", {"ticks": [OTHER, tick]})[1]["accepted"] == 2
        covered = {"from": 1_789_000_000_000, "to": 1_790_000_000_000, "state": "indexed"}
        gone = {"block_hash": "0xaa"}
        for symbol in (OTHER["symbol"], state_directory.SYMBOLS[0]):
            assert write("PUT", "/v1/coverage", {"symbol": symbol} | covered)[0] < 300
            write("POST", "/v1/ingest/tick", {"ticks": [{"retract": {"symbol": symbol} | gone}]})
        settings = load({"MARKET_STATE_DIR": str(api.state_dir)})
        with state_directory.alone(settings):
            refused = reset()
            assert refused.returncode == 4
            assert "another" in refused.stderr
            chain = state_directory.connected(
                settings, api.state_dir / "none.sqlite", state_directory.SOURCE, threading.Event()
            ).headers([0])
        done = reset()
        assert (done.returncode, done.stderr) == (0, "")
        assert "removed" in done.stdout
        assert [each["symbol"] for each in read("GET", "/v1/symbols")[1]["symbols"]] == [OTHER["symbol"]]
        for symbol in state_directory.SYMBOLS:
            assert read("GET", f"/v1/chart?symbol={symbol}&interval=1d")[1]["code"] == "unknown_symbol"
            assert read("GET", f"/v1/coverage?symbol={symbol}")[1].get("ranges", []) == []
        assert len(read("GET", f"/v1/coverage?symbol={OTHER['symbol']}")[1]["ranges"]) > 0
        # The retracted hash is accepted for the demo again, and only for it.
        late = {"id": "3", "block": {"number": 1, "hash": "0xaa"}}
        answer = write("POST", "/v1/ingest/tick", {"ticks": [tick | late, OTHER | late]})[1]
        assert [each["code"] for each in answer["rejected"]] == ["retracted"]
        assert answer["accepted"] == 1
        with state_directory.alone(settings):
            provider = state_directory.connected(
                settings, api.state_dir / "none.sqlite", state_directory.SOURCE, threading.Event()
            )
            assert provider.headers([0]) != chain
