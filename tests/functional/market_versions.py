"""Version 2 beside version 1, each with an API of its own, and a chain that reorganises while it is stored."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from marketdata.tick import parse_tick
from tests.functional.chain_market import stored_candles, stored_ticks
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client
from tests.functional.serving import until
from tests.marketdata.store import brute_force

SYMBOLS = ("CHAIN:A", "CHAIN:B")
BLOCK_MS = 12_000
START_MS = 1_706_659_200_000


class Chain:
    """A chain that reorganises, sent through the API of a version until it is stopped. What it holds at the end is what
    every version must hold."""

    def __init__(self, port: Callable[[], int], token: str, seed: int = 1) -> None:
        self._port = port
        self._token = token
        self._random = random.Random(seed)
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

    def grow(self, blocks: int) -> None:
        """Send ``blocks`` blocks, each in a batch of its own. Some of them end in a reorganisation."""
        with closing(Client(self._port(), self._token)) as client:
            for _ in range(blocks):
                self._step(client)

    def _run(self) -> None:
        try:
            with closing(Client(self._port(), self._token)) as client:
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


class Versions:
    """A state directory with an API of the current version, an API of version 2, and the one-shot commands."""

    def __init__(self, current: ApiProcess, *options: str) -> None:
        """``current`` names no version; it runs, and is ended by ``close``. Version 2 is made with the ``options``."""
        self.current = current
        self._apis = [current]
        self.state_dir = current.state_dir
        assert "created md_ticks_v2" in self.run("version", "2", *options)
        self.second = self.api(2)
        self._copy: subprocess.Popen[str] | None = None

    def api(self, n: int) -> ApiProcess:
        """Start the API of a version on a free port, not on the port in its ``vN.env``."""
        found = ApiProcess(self.state_dir, MARKET_ENV_FILE=str(self.state_dir / f"v{n}.env"))
        self._apis.append(found)
        found.start()
        return found

    def close(self) -> None:
        if self._copy is not None:
            self._copy.kill()
            self._copy.communicate()
        for each in self._apis[::-1]:
            each.stop()

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            self._command(*arguments), cwd=ROOT, env=self._environment(), capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == code, done
        return done.stdout + done.stderr

    def follow(self, source: int, target: int) -> None:
        """Start a copy that follows, and wait until it has caught up."""
        self._copy = self.begin("copy", str(source), str(target), "--follow")
        assert self._copy.stdout is not None
        line = self._copy.stdout.readline()
        assert line.startswith(f"caught up: version {target} has what version {source} had"), line

    def end_copy(self) -> str:
        assert self._copy is not None
        self._copy.send_signal(signal.SIGTERM)
        said, _ = self._copy.communicate(timeout=SECONDS)
        assert self._copy.returncode == 0
        self._copy = None
        return said

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(*arguments), cwd=ROOT, env=self._environment(), stdout=subprocess.PIPE, text=True
        )

    def served(self, api: ApiProcess) -> str:
        with closing(Client(api.port, api.token("read"))) as client:
            return str(client("GET", "/ready")[1]["ticks_table"])

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "marketdata", *arguments]

    def _environment(self) -> dict[str, str]:
        return os.environ | {"MARKET_STATE_DIR": str(self.state_dir)}


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
