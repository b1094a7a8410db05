"""How many requests and calls the backfill sends to a provider: with the block times in logs, and header by header.

python -m tests.bench.market_requests [BLOCKS]      (default 100 000, of which two of five have a swap)

The provider is a process of its own, which computes its chain and counts. Without ``blockTimestamp`` in its logs, the
backfill asks for the header of each block with a swap. Each backfill stores into an empty table.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.bench.figures import Figure, table
from tests.functional.market_process import ROOT, ApiProcess
from tests.marketdata.source.synthetic_chain import CHAIN_ID, POOL, TOPIC, SyntheticChain

RANGE = 2_000
"""Blocks of a request of the raw reading."""
FAST, SLOW = 100_000, 10
"""Calls per second: no limit, and the default of ``rpc.json``."""
_COUNTS = "bench_counts"


class CountingChain(SyntheticChain):
    """Answers ``bench_counts`` with the numbers of requests and of calls since the last time."""

    def __init__(self, head: int, *, names_times: bool) -> None:
        super().__init__(head, swaps=1)
        self._unnamed = {} if names_times else {"blockTimestamp": "0x0"}
        self._requests = self._calls = 0

    def respond(self, method: str, path: str, body: bytes) -> Any:
        request = json.loads(body)
        if isinstance(request, dict) and request["method"] == _COUNTS:
            found = [self._requests, self._calls]
            self._requests = self._calls = 0
            return {"jsonrpc": "2.0", "id": request["id"], "result": found}
        self._requests += 1
        self._calls += len(request) if isinstance(request, list) else 1
        return self._answer(request)

    def logs(self, number: int) -> list[dict[str, Any]]:
        if number % 5 not in (0, 2):
            return []
        return [log | self._unnamed for log in super().logs(number)]


class Node:
    """A :class:`CountingChain` in a process of its own."""

    def __init__(self, blocks: int, *, names_times: bool) -> None:
        arguments = ("serve", str(blocks), "named" if names_times else "unnamed")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.market_requests", *arguments],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.communicate("")

    def ask(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self._connection.request("POST", "/", body)
        return json.loads(self._connection.getresponse().read())["result"]


class Run(NamedTuple):
    seconds: float
    requests: int
    calls: int


def measure(blocks: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        with Node(blocks, names_times=False) as node:
            before = _backfill(state, node, blocks, 2, FAST)
        with Node(blocks, names_times=True) as node:
            raw = _raw(node, blocks)
            now = _backfill(state, node, blocks, 3, FAST)
            slow = _backfill(state, node, blocks, 4, SLOW)
    yield Figure(f"`eth_getLogs` alone, {RANGE:,} blocks each", f"{raw:.1f} s")
    for name, run in (("header by header", before), ("with the times of the logs", now)):
        yield Figure(f"backfill {name}", f"{run.calls:,} calls in {run.requests:,} requests, {run.seconds:.1f} s")
    yield Figure("calls, header by header : now", f"{before.calls / now.calls:.0f}", ">= 50")
    yield Figure("requests, header by header : now", f"{before.requests / now.requests:.0f}")
    yield Figure(
        f"backfill with requests_per_s {SLOW}",
        f"{slow.calls:,} calls in {slow.requests:,} requests, {slow.seconds:.1f} s; "
        f"{before.calls / SLOW / 60:.0f} min for the calls header by header",
    )


def _raw(node: Node, blocks: int) -> float:
    topics = [TOPIC]
    began = perf_counter()
    for first in range(0, blocks, RANGE):
        last = min(blocks, first + RANGE) - 1
        node.ask("eth_getLogs", {"fromBlock": hex(first), "toBlock": hex(last), "address": POOL, "topics": topics})
    return perf_counter() - began


def _backfill(state: Path, node: Node, blocks: int, version: int, per_second: float) -> Run:
    """Run the backfill into the table of a new version."""
    pool = {"symbol": "A-B", "address": POOL, "kind": "uniswap-v2"}
    content = {
        "url": node.url, "chain": "SYN", "chain_id": CHAIN_ID, "confirmations": 1, "requests_per_s": per_second,
        "pools": [pool],
    }  # fmt: skip
    environment = os.environ | {"MARKET_STATE_DIR": str(state)}
    subprocess.run(
        [sys.executable, "-P", "-m", "marketdata", "version", str(version)],
        cwd=ROOT, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    names = {"TICKS_TABLE": f"md_ticks_v{version}", "CANDLES_FUNCTION": f"md_candles_v{version}"}
    api = ApiProcess(state, durable=True, **names)
    api.start()
    try:
        file = state / "secrets" / "rpc.json"
        file.write_text(json.dumps(content))
        file.chmod(0o600)
        node.ask(_COUNTS)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "marketdata", "backfill"],
            cwd=ROOT, env=environment | names | {"API_UPSTREAM": f"http://127.0.0.1:{api.port}"},
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    finally:
        api.stop()
    assert done.returncode == 0, done.stderr
    said = re.search(r"([\d,]+) blocks up to block [\d,]+ read in ([\d.]+) s: ([\d,]+) ticks", done.stdout)
    assert said is not None, done.stdout
    assert (said[1], said[3]) == (f"{blocks:,}", f"{blocks * 2 // 5:,}"), done.stdout
    return Run(float(said[2]), *node.ask(_COUNTS))


def serve(head: int, *, names_times: bool) -> None:
    with closing(CountingChain(head, names_times=names_times)) as chain:
        print(chain.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]), names_times=sys.argv[3] == "named")
    else:
        print(table(list(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))))
