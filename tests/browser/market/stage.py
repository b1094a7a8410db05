"""The data API on a PostgreSQL of its own and the frontend before it, as processes, and what a test stores in them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client

USER, PASSWORD = "ann", "correct horse battery"
MINUTE = 60_000
HOUR = 60 * MINUTE


class Stage:
    """``address`` is the address of the page; ``user`` and ``password`` are its login."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.api = ApiProcess(state_dir)
        self.api.start()
        self.api_port = self.api.port
        self.user, self.password = USER, PASSWORD
        self._command("user", "add", USER, "--password-stdin", given=PASSWORD)
        self._frontend = self._start_frontend()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def frontend_pid(self) -> int:
        return self._frontend.pid

    def _environment(self) -> dict[str, str]:
        upstream = f"http://127.0.0.1:{self.api_port}"
        return os.environ | {
            "MARKET_STATE_DIR": str(self.state_dir), "MARKET_FRONTEND_PORT": "0", "API_UPSTREAM": upstream,
        }  # fmt: skip

    def _command(self, *arguments: str, given: str = "") -> None:
        subprocess.run(
            [sys.executable, "-P", "-m", "marketdata", *arguments], cwd=ROOT, env=self._environment(), check=True,
            input=f"{given}\n", text=True, capture_output=True, timeout=SECONDS,
        )  # fmt: skip

    def _start_frontend(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "marketdata", "frontend"], cwd=ROOT, env=self._environment(),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], SECONDS)[0], "the frontend printed no address"
        self.port = int(process.stdout.readline().rpartition(":")[2])
        return process

    def change_password(self, password: str) -> None:
        self._command("user", "passwd", self.user, "--password-stdin", given=password)
        self.password = password

    def restart_api(self) -> None:
        """Start the API again on the same port."""
        self.api.start(self.api_port)

    def write(self, *items: dict[str, Any]) -> None:
        """Store ticks, retractions and finalized blocks."""
        with closing(Client(self.api.port, self.api.token("alg"))) as client:
            for start in range(0, len(items), 5000):
                status, answer = client("POST", "/v1/ingest/tick", {"ticks": items[start : start + 5000]})
                assert (status, answer["rejected"]) == (200, [])

    def drop(self, symbol: str) -> None:
        self._command("symbol", "drop", symbol, "--yes")

    def prune(self, symbol: str, before: int) -> None:
        """Remove the symbol's ticks before a midnight (UTC)."""
        self._command("prune", "--symbol", symbol, "--before", str(before))

    def cover(self, symbol: str, start: int, end: int, state: str = "indexed") -> None:
        with closing(Client(self.api.port, self.api.token("alg"))) as client:
            body = {"symbol": symbol, "from": start, "to": end, "state": state}
            assert client("PUT", "/v1/coverage", body)[0] == 200

    def read(self, path: str) -> Any:
        with closing(Client(self.api.port, self.api.token("read"))) as client:
            status, answer = client("GET", path)
            assert status == 200
            return answer

    def close(self) -> None:
        self._frontend.terminate()
        self._frontend.wait(SECONDS)
        assert self._frontend.stdout is not None
        self._frontend.stdout.close()
        self.api.stop()


@contextmanager
def running_stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="chart-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        stage = Stage(Path(folder))
        try:
            yield stage
        finally:
            stage.close()


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def now() -> int:
    return int(time.time() * 1000)


def tick(
    symbol: str, ts: int | str, price: str, size: str = "1", block: int | None = None, at: int = 0
) -> dict[str, Any]:
    """``at`` is the tick's position in its block, and distinguishes ticks of the same time."""
    made: dict[str, Any] = {
        "symbol": symbol, "id": f"{ts}:{at}", "ts": ts, "seq": at, "price": price, "size": size, "side": "buy",
    }  # fmt: skip
    return made if block is None else made | {"block": {"number": block, "hash": f"0x{block:x}"}}


def minutes(symbol: str, end: int, count: int, prices: Sequence[str] = ("100", "104", "98", "101.5")) -> list[Any]:
    """One candle for each of the ``count`` minutes up to the minute of ``end``, with the ``prices`` in turn."""
    first = end // MINUTE * MINUTE - (count - 1) * MINUTE
    return [
        tick(symbol, first + minute * MINUTE + at * 1000, price, at=at)
        for minute in range(count)
        for at, price in enumerate((prices[minute % len(prices)], prices[(minute + 1) % len(prices)]))
    ]
