"""Reads with one streaming replica beside reads without: charts, and cached charts.

python -m tests.bench.market_replicas [TICKS]      (default 1 000 000; takes five minutes)

Two APIs take turns on one primary; one of them has the replica in DATABASE_READ_URL. All run on this machine, so the
replica adds no processor. Its benefit is the processor time of the primary that a read no longer takes.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from marketdata.postgres.cluster import Cluster
from tests.bench.figures import Figure, spread, table
from tests.bench.market_http import CHART, _fill, _load, _uncached
from tests.bench.memory import children
from tests.bench.turns import processor_time
from tests.functional.market_process import ApiProcess
from tests.marketdata.api.standby import Standby, running_standby

SECONDS = 4.0
ROUNDS = 5
CLIENTS = 16
KINDS = {
    f"chart of 500 candles, {CLIENTS} clients, uncached": _uncached("1h", 1),
    f"the same chart, {CLIENTS} clients, cached": CHART,
}


@dataclass(frozen=True)
class Run:
    """One turn: answers a second, latencies, and seconds of the processor for an answer."""

    rate: float
    latencies: Sequence[float]
    primary: float
    replica: float


class Bench:
    """Both APIs, the primary's server and the replica."""

    def __init__(self, state: Path, beside: Path, standby: Standby, without: ApiProcess) -> None:
        urls = {"DATABASE_URL": Cluster(state).conninfo, "DATABASE_READ_URL": standby.url, "MARKET_READ_LAG_S": "600"}
        self._token = without.token("read")
        self.with_replica, self.without = ApiProcess(beside, durable=True, **urls), without
        self.with_replica.start()
        self._servers = (json.loads((state / "owner.lock").read_text())["postgres"], standby.pid)
        _wait_until_usable(self.with_replica.port)

    def turn(self, api: ApiProcess, path: str, seconds: float = SECONDS) -> Run:
        before = self._used()
        run = _load(api.port, path, CLIENTS, self._token, seconds)
        answers = len(run["latencies"])
        primary, replica = ((now - then) / answers for now, then in zip(self._used(), before, strict=True))
        return Run(run["rate"], run["latencies"], primary, replica)

    def _used(self) -> list[float]:
        return [processor_time([pid, *children(pid)]) for pid in self._servers]


def _wait_until_usable(port: int) -> None:
    waiting = threading.Event()
    for _ in range(300):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/ready")
        found = connection.getresponse().read()
        connection.close()
        if b'"usable"' in found:
            return
        waiting.wait(0.1)
    raise SystemExit("the replica is not usable")


def measure(ticks: int) -> list[Figure]:
    with ExitStack() as stack:
        state, beside = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="market-", dir="/tmp"))) for _ in range(2)
        )
        without = ApiProcess(state, durable=True)
        without.start()
        stack.callback(without.stop)
        _fill(state, ticks, 1)
        standby = stack.enter_context(running_standby(Cluster(state)))
        bench = Bench(state, beside, standby, without)
        stack.callback(bench.with_replica.stop)
        return [figure for name, path in KINDS.items() for figure in _figures(bench, name, path)]


def _figures(bench: Bench, name: str, path: str) -> list[Figure]:
    apis = {"without a replica": bench.without, "with one": bench.with_replica}
    runs: dict[str, list[Run]] = {each: [] for each in apis}
    for number in range(ROUNDS):
        for each, api in apis.items() if number % 2 else reversed(apis.items()):
            bench.turn(api, path, 0.5)  # opens connections and fills caches
            runs[each].append(bench.turn(api, path))
    none, one = (runs[each] for each in apis)
    ratios = sorted(with_one.rate / without.rate for with_one, without in zip(one, none, strict=True))
    return [
        *(_figure(f"{name}: {each}", found) for each, found in runs.items()),
        Figure(f"{name}: with one : without", f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"),
    ]


def _figure(name: str, runs: Sequence[Run]) -> Figure:
    middle = sorted(runs, key=lambda run: run.rate)[len(runs) // 2]
    primary = 1e6 * statistics.median(run.primary for run in runs)
    replica = 1e6 * statistics.median(run.replica for run in runs)
    used = f"primary {primary:.0f} µs, replica {replica:.0f} µs"
    return Figure(name, f"{middle.rate:,.0f} req/s, {spread(middle.latencies)}; {used}")


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)))
