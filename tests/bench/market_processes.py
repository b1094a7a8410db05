"""The data API with 1, 2 and 4 processes: charts, cached charts, single ticks and batches, and what each of them costs.

python -m tests.bench.market_processes [TICKS]      (default 1 000 000; takes five minutes)

The clients are a process of their own. Processor time is that of all processes of the API and of PostgreSQL. What a
number of cores carries is calculated from it, so it is an upper bound for clients on other machines.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figure, spread, table
from tests.bench.market_http import CHART, ROUNDS, _fill, _load, _uncached
from tests.bench.market_load import BATCH
from tests.bench.memory import children
from tests.bench.turns import processor_time
from tests.functional.market_process import ApiProcess

SECONDS = 4.0
COUNTS = (1, 2, 4)
CORES = (1, 2, 8, 32)


@dataclass(frozen=True)
class Kind:
    """Requests of one kind; ``request``, ``clients`` and ``token`` as in ``market_http``. Each has ``items``."""

    name: str
    request: str
    clients: int
    token: str
    items: int = 1
    unit: str = "req/s"


KINDS = (
    Kind("chart of 500 candles, 16 clients, uncached", _uncached("1h", 1), 16, "read"),
    Kind("the same chart, 16 clients, cached", CHART, 16, "read"),
    Kind("single ticks, 32 clients (durable)", "tick", 32, "alg", unit="ticks/s"),
    Kind(f"batches of {BATCH:,}, 4 clients (durable)", "batch", 4, "alg", BATCH, "ticks/s"),
)


@dataclass(frozen=True)
class Run:
    """One turn: items a second, latencies of requests, and seconds of the processor for an item."""

    rate: float
    latencies: Sequence[float]
    api: float
    postgres: float


class Api:
    """The API with some processes, on a cluster that several of them use one after the other."""

    def __init__(self, state: Path, processes: int) -> None:
        self._process = ApiProcess(state, durable=True, MARKET_API_PROCESSES=str(processes))
        self._process.start()
        self._postgres: int = json.loads((state / "owner.lock").read_text())["postgres"]

    def stop(self) -> None:
        self._process.stop()

    def _used(self) -> tuple[float, float]:
        return tuple(processor_time([pid, *children(pid)]) for pid in (self._process.pid, self._postgres))  # type: ignore[return-value]

    def turn(self, kind: Kind, seconds: float = SECONDS) -> Run:
        token = self._process.token(kind.token)
        before = self._used()
        run = _load(self._process.port, kind.request, kind.clients, token, seconds)
        items = len(run["latencies"]) * kind.items
        api, postgres = ((after - earlier) / items for after, earlier in zip(self._used(), before, strict=True))
        return Run(run["rate"] * kind.items, run["latencies"], api, postgres)


def measure(ticks: int) -> tuple[list[Figure], list[Figure]]:
    """The figures of each kind and number of processes, and what numbers of cores carry."""
    runs: dict[tuple[Kind, int], list[Run]] = {(kind, count): [] for kind in KINDS for count in COUNTS}
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        for number in range(ROUNDS):
            for count in COUNTS:
                api = Api(state, count)
                try:
                    if number == 0 and count == COUNTS[0]:
                        _fill(state, ticks, 1)
                    for kind in KINDS:
                        api.turn(kind, 0.5)  # opens connections and fills caches
                        runs[kind, count].append(api.turn(kind))
                finally:
                    api.stop()
    figures = [_figure(kind, count, found) for (kind, count), found in runs.items()]
    return figures, [_carried(kind, {count: runs[kind, count] for count in COUNTS}) for kind in KINDS]


def _cost(runs: Sequence[Run]) -> tuple[float, float]:
    return statistics.median(run.api for run in runs), statistics.median(run.postgres for run in runs)


def _figure(kind: Kind, count: int, runs: Sequence[Run]) -> Figure:
    run = sorted(runs, key=lambda run: run.rate)[len(runs) // 2]
    api, postgres = (1e6 * each for each in _cost(runs))
    value = f"{run.rate:,.0f} {kind.unit}, {spread(run.latencies)}; API {api:.0f} µs, PostgreSQL {postgres:.0f} µs"
    return Figure(f"{kind.name}: {count} process{'es' if count > 1 else ''}", value)


def _carried(kind: Kind, runs: dict[int, list[Run]]) -> Figure:
    """The load that a number of cores carries at most. One core is computed from the cost with one process, more cores
    from the cost with the most processes."""
    carried = [f"{cores}: {cores / sum(_cost(runs[min(cores, COUNTS[-1])])):,.0f}" for cores in CORES]
    return Figure(f"{kind.name}, {kind.unit} by cores", ", ".join(carried))


if __name__ == "__main__":
    measured, carried = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    print(table([*measured, *carried]))
