"""The data API on a Citus of one coordinator and three workers beside the API on one PostgreSQL, in one run: charts,
summaries, single ticks and batches.

python -m tests.bench.market_citus [TICKS]      (default 300 000; takes seven minutes; TEST_CITUS as for tests)

Both have one process of the API and nodes with the same programs and settings, those of the private PostgreSQL. They
take turns on this machine, whose cores are those of all nodes: so a cluster can gain nothing here.
"""

from __future__ import annotations

import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.bench.entered import folder
from tests.bench.figures import percentile, spread
from tests.bench.market_http import CHART, START, YEAR, _load, _uncached
from tests.functional.market_process import ROOT, ApiProcess
from tests.release.citus.cluster import OWNER, SETTINGS, CitusCluster, citus_cluster

ROUNDS = 3
SECONDS = 4.0
WARMING = 8.0
"""Seconds of load before the first turn of a kind, in which every connection prepares its statements for every
shard."""
SHARDS = 32
CHARTS, SUMMARIES = 8, 200
BATCH = 1000
DAY = 86_400_000

_SUMMARY = "/v1/summary?symbol=" + ",".join(f"SUM:{number}" for number in range(SUMMARIES))


@dataclass(frozen=True)
class Kind:
    """Requests of one kind; ``request``, ``clients`` and ``token`` as in ``market_http``. Each has ``items``. ``goal``
    is that of the ratio of Citus : PostgreSQL."""

    name: str
    request: str
    clients: int
    token: str = "read"
    items: int = 1
    unit: str = "req/s"
    goal: str = ""


KINDS = (
    Kind("chart of 500 candles, one client, uncached", _uncached("1h", CHARTS), 1, goal="p50 ≤ 1.3"),
    Kind("chart of 500 candles, 8 clients, uncached", _uncached("1h", CHARTS), 8),
    Kind("the same chart, 8 clients, cached", CHART, 8),
    Kind(f"summary of {SUMMARIES} symbols, one client", _SUMMARY, 1),
    Kind("single ticks of 4 symbols, 32 clients", "tick", 32, "alg", unit="ticks/s"),
    *(
        Kind(
            f"batches of {BATCH:,} of {name}, 4 clients", f"batch-{BATCH}-{count}", 4, "alg", BATCH, "ticks/s",
            "rate ≥ 0.6",
        )
        for name, count in (("one symbol", 1), ("10 symbols", 10), ("100 symbols", 100))
    ),
)  # fmt: skip


class Turn(NamedTuple):
    """Items a second, and seconds of each request."""

    rate: float
    latencies: Sequence[float]


class Side:
    """The API on a database."""

    def __init__(self, state: Path, url: str, *version: str) -> None:
        environment = os.environ | {"MARKET_STATE_DIR": str(state), "DATABASE_URL": url}
        secrets = state / "secrets"
        secrets.mkdir(0o700)
        for command in (
            ("version", "1", *version),
            ("token", "create", "--name", "read", "--scope", "read", "--output", str(secrets / "read.json")),
            ("token", "create", "--name", "alg", "--scope", "write", "--output", str(secrets / "alg.json")),
        ):
            ended = subprocess.run(
                [sys.executable, "-P", "-m", "marketdata", *command],
                cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if ended.returncode:
                raise SystemExit(ended.stderr)
        self._api = ApiProcess(state, durable=True, DATABASE_URL=url)
        self._api.start()

    def stop(self) -> None:
        self._api.stop()

    def turn(self, kind: Kind, seconds: float = SECONDS) -> Turn:
        run = _load(self._api.port, kind.request, kind.clients, self._api.token(kind.token), seconds)
        return Turn(run["rate"] * kind.items, run["latencies"])

    def fill(self, bodies: Iterator[bytes]) -> None:
        headers = {"Authorization": f"Bearer {self._api.token('alg')}", "Content-Type": "application/json"}
        with closing(http.client.HTTPConnection("127.0.0.1", self._api.port, timeout=600)) as connection:
            for body in bodies:
                connection.request("POST", "/v1/ingest/tick", body, headers)
                response = connection.getresponse()
                answer = response.read()
                if response.status != 200:
                    raise SystemExit(f"a batch was answered by {response.status} {answer[:500]!r}")


def measure(ticks: int) -> dict[Kind, list[tuple[Turn, Turn]]]:
    """The turns of each kind, first that on PostgreSQL alone and then that on Citus."""
    with ExitStack() as ends:
        sides = _plain(ends), _citus(ends)
        for side in sides:
            ends.callback(side.stop)
            side.fill(_bodies(ticks))
        turns: dict[Kind, list[tuple[Turn, Turn]]] = {each: [] for each in KINDS}
        for number in range(ROUNDS):
            for each, found in turns.items():
                if number == 0:
                    for side in sides:
                        side.turn(each, WARMING)
                first = number % 2  # the sides take turns at going first
                pair = {index: sides[index].turn(each) for index in (first, 1 - first)}
                found.append((pair[0], pair[1]))
        return turns


def _settings(**more: str) -> dict[str, str]:
    """The settings of the private PostgreSQL, except those that the cluster sets itself."""
    lines = (ROOT / "etc" / "postgresql.conf").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" = ") for line in lines if " = " in line and not line.startswith("#"))
    own = {name: value.strip("'") for name, value in pairs if name not in SETTINGS}
    return own | {"fsync": "on", "shared_buffers": "256MB"} | more


def _plain(ends: ExitStack) -> Side:
    place = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="plain-", ignore_cleanup_errors=True)))
    cluster = CitusCluster(place, _settings(shared_preload_libraries=""))
    ends.callback(cluster.close)
    node = cluster.new_node()
    node.execute(f"CREATE DATABASE marketdata OWNER {OWNER}")
    return Side(ends.enter_context(folder("market-")), node.url("marketdata"))


def _citus(ends: ExitStack) -> Side:
    database = ends.enter_context(citus_cluster(_settings())).fresh_database("marketdata")
    state = ends.enter_context(folder("market-"))
    return Side(state, database.url, "--shards", str(SHARDS))


def _bodies(ticks: int) -> Iterator[bytes]:
    """Batches with a year of the symbols of charts, and with the last day of those of summaries."""
    now = time.time_ns() // 1_000_000
    chart = (_tick(f"CHART:{n % CHARTS}", n, START + n * YEAR // ticks) for n in range(ticks))
    summary = (_tick(f"SUM:{n % SUMMARIES}", n, now - DAY + n * DAY // 20_000) for n in range(20_000))
    for items in (chart, summary):
        while batch := [item for item, _ in zip(items, range(10_000), strict=False)]:
            yield f'{{"ticks":[{",".join(batch)}]}}'.encode()


def _tick(symbol: str, number: int, ts: int) -> str:
    price = f"{100 + number * 7919 % 5003 / 100:.2f}"
    return f'{{"symbol":"{symbol}","id":"{number:012}","ts":{ts},"price":"{price}","size":"{number % 1009 + 1}"}}'


def _row(kind: Kind, pairs: Sequence[tuple[Turn, Turn]]) -> str:
    """The turns of median rate, and the median of the ratios of two neighbouring turns."""
    middle = [sorted(side, key=lambda turn: turn.rate)[len(side) // 2] for side in zip(*pairs, strict=True)]
    cells = [f"{turn.rate:,.0f} {kind.unit}, {spread(turn.latencies)}" for turn in middle]
    rate = statistics.median(citus.rate / plain.rate for plain, citus in pairs)
    medians = [[percentile(turn.latencies, 0.5) for turn in pair] for pair in pairs]
    p50 = statistics.median(citus / plain for plain, citus in medians)
    return f"| {kind.name} | {' | '.join(cells)} | rate {rate:.2f}, p50 {p50:.2f} | {kind.goal} |"


def main(ticks: int) -> None:
    print("| What | PostgreSQL | Citus | Citus : PostgreSQL | Goal |\n| --- | --- | --- | --- | --- |")
    for kind, pairs in measure(ticks).items():
        print(_row(kind, pairs))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
