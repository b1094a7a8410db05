"""From version 1 to version 2 and back while ticks and reorganisations arrive through the API; nothing is lost or
stored twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from marketdata.tick import parse_tick
from tests.functional.chain_market import stored_candles, stored_ticks
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client, command
from tests.functional.serving import until
from tests.marketdata.store import brute_force

pytestmark = pytest.mark.functional

SYMBOLS = ("CHAIN:A", "CHAIN:B")
BLOCK_MS = 12_000
START_MS = 1_706_659_200_000


class Chain:
    """A chain that reorganises, sent through the API until it is stopped. What it holds at the end is what every
    version must hold."""

    def __init__(self, api: ApiProcess) -> None:
        self._api = api
        self._random = random.Random(1)
        self._blocks: list[dict[str, Any]] = []
        self._replaced: list[dict[str, Any]] = []
        self._made = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chain-writer", daemon=True)
        self.error: BaseException | None = None
        self.sent = 0
        self.reorganisations = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The chain ends with a block that is acknowledged."""
        self._stopping.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            with closing(Client(self._api.port, self._api.token("alg"))) as client:
                while not self._stopping.is_set():
                    self._step(client)
        except BaseException as error:
            self.error = error

    def _step(self, client: Client) -> None:
        items: list[dict[str, Any]] = []
        if len(self._blocks) > 5 and self._random.random() < 0.15:
            items += self._reorganise(self._random.randint(1, 4))
        items += self._mine()
        if self._random.random() < 0.1 and len(self._blocks) > 12:
            final = self._blocks[-12]["number"]
            items += [{"finalize": {"symbol": symbol, "block": final}} for symbol in SYMBOLS]
        if self._random.random() < 0.3:
            items.append(self._late())
        self._send(client, items)

    def _send(self, client: Client, items: list[dict[str, Any]]) -> None:
        """Send ``items`` until they are acknowledged. The API stores items that arrive twice once."""

        def acknowledged() -> bool:
            status, answer = client("POST", "/v1/ingest/tick", {"ticks": items})
            assert status in (200, 429, 503), answer
            assert status != 200 or not answer["rejected"], answer
            return status == 200

        until(acknowledged, SECONDS)
        self.sent += len(items)

    def _mine(self) -> list[dict[str, Any]]:
        self._made += 1
        number = self._blocks[-1]["number"] + 1 if self._blocks else 0
        block = {"number": number, "hash": f"0x{self._made}"}
        block["ticks"] = [self._tick(block, each) for each in range(self._random.randint(1, 6))]
        self._blocks.append(block)
        return list(block["ticks"])

    def _tick(self, block: dict[str, Any], index: int) -> dict[str, Any]:
        return {
            "symbol": self._random.choice(SYMBOLS),
            "id": f"{block['hash']}:{index}",
            "ts": START_MS + block["number"] * BLOCK_MS,
            "seq": index,
            "price": str(self._random.randint(1, 10**6) / 1000),
            "size": str(self._random.randint(1, 1000)),
            "side": self._random.choice(["buy", "sell", None]),
            "block": {"number": block["number"], "hash": block["hash"]},
        }

    def _late(self) -> dict[str, Any]:
        """A tick of a block that was sent before."""
        block = self._random.choice(self._blocks)
        block["ticks"].append(self._tick(block, len(block["ticks"]) + 100))
        return dict(block["ticks"][-1])

    def _reorganise(self, depth: int) -> list[dict[str, Any]]:
        """Replace the last blocks. Every third time, the blocks that were replaced before return, if that is
        possible."""
        self.reorganisations += 1
        back, self._replaced = self._replaced, []
        if back and self.reorganisations % 3 == 0:
            depth = max(0, self._blocks[-1]["number"] - back[0]["number"] + 1)
        else:
            back = []
        kept = len(self._blocks) - depth
        gone, self._blocks = self._blocks[kept:], self._blocks[:kept] + back
        self._replaced = gone
        items = [_of(block, "retract", symbol) for block in gone[::-1] for symbol in SYMBOLS]
        for block in back:
            items += [_of(block, "restore", symbol) for symbol in SYMBOLS]
            items += block["ticks"]
        return items

    def ticks(self, symbol: str) -> list[dict[str, Any]]:
        return [tick for block in self._blocks for tick in block["ticks"] if tick["symbol"] == symbol]


def _of(block: dict[str, Any], what: str, symbol: str) -> dict[str, Any]:
    return {what: {"symbol": symbol, "block_hash": block["hash"]}}


@contextmanager
def following(state_dir: Path, source: int, target: int) -> Iterator[None]:
    """A copy that follows, from when it has caught up."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "marketdata", "copy", str(source), str(target), "--follow"],
        cwd=ROOT, env=os.environ | {"MARKET_STATE_DIR": str(state_dir)}, stdout=subprocess.PIPE, text=True,
    ) as copy:  # fmt: skip
        try:
            assert copy.stdout is not None
            line = copy.stdout.readline()
            assert line.startswith(f"caught up: version {target} has what version {source} had"), line
            yield
            copy.terminate()
            assert copy.wait(SECONDS) == 0
        finally:
            copy.kill()


def served(api: ApiProcess) -> str:
    with closing(Client(api.port, api.token("read"))) as client:
        return str(client("GET", "/ready")[1]["ticks_table"])


def assert_holds(api: ApiProcess, chain: Chain) -> None:
    """The API serves exactly the ticks of the chain, and the candles that they make."""
    with closing(Client(api.port, api.token("read"))) as read:
        for symbol in SYMBOLS:
            wanted = sorted(chain.ticks(symbol), key=lambda tick: (tick["ts"], tick["seq"], tick["id"]))
            stored = stored_ticks(read, symbol)
            assert [tick["id"] for tick in stored] == [tick["id"] for tick in wanted]
            parsed = [parse_tick(tick) for tick in wanted]
            for interval in ("1m", "15m", "1h", "1d"):
                made = [
                    json.loads(f"{brute_force.json_prefix(each)}}}") for each in brute_force.candles(parsed, interval)
                ]
                assert stored_candles(read, symbol, interval) == made


def test_a_cutover_and_a_rollback_under_load_lose_and_double_nothing(state_dir: Path) -> None:
    api = ApiProcess(state_dir)
    api.start()
    try:
        assert "created md_ticks_v2" in command(state_dir, "version", "2").stdout
        chain = Chain(api)
        chain.start()
        until(lambda: chain.sent > 500, SECONDS)
        for current, new in ((1, 2), (2, 1)):
            with following(state_dir, current, new):
                before = chain.sent
                done = command(state_dir, "cutover", str(new))
                assert f"version {new} is the current one, and version {current} is kept" in done.stdout, done
                until(lambda new=new: served(api) == f"md_ticks_v{new}", SECONDS)
                until(lambda before=before: chain.sent > before + 200, SECONDS)
        chain.stop()
        assert chain.reorganisations > 10
        assert_holds(api, chain)
    finally:
        api.stop()
