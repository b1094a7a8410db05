"""How much bin/marketdata-prune slows down the charts of a running API, and what it costs afterwards.

    python -m tests.bench.market_prune 10000000

A real API on a private cluster that flushes to the disk. A client asks for uncached charts of 500 candles, one after
the other: before the prune, until the prune has deleted all ticks but those of the last day, and afterwards. Compare
figures of one run. The quiet values before and after say how much the machine itself varied.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from tests.bench.figures import Figure, percentile, spread, table
from tests.functional.market_process import ROOT, ApiProcess, Client

START = 1_704_067_200
GAP_S = 5
SYMBOLS = 4
PART = 100_000
SHOWN = 500
QUIET = 1500
"""Charts of a quiet measurement."""
V1 = Version.of("md", 1)

FILL = """
    INSERT INTO {ticks} (symbol, id, ts, seq, price, size, side, block_number, block_hash)
    SELECT 'BENCH:' || n %% %(symbols)s, '0x' || md5((n / 8)::text) || md5((n / 8 + 1)::text) || ':' || n,
           to_timestamp(%(start)s + n / %(symbols)s * %(gap)s), n, 100 + n %% 977, 1.25 + n %% 13, 'buy', n / 8,
           '0x' || md5((n / 8)::text) || md5((n / 8 + 1)::text)
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.market_prune")
    parser.add_argument("size", nargs="?", type=int, default=10_000_000, metavar="TICKS")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        api = ApiProcess(Path(folder), durable=True)
        api.start()
        try:
            with connect(conninfo(api.state_dir)) as connection:
                print(table(list(measure(api, connection, given.size))), flush=True)
        finally:
            api.stop()


def measure(api: ApiProcess, connection: Connection, size: int) -> Iterator[Figure]:
    _fill(connection, size)
    end = START + size // SYMBOLS * GAP_S
    before = end - end % 86_400
    with closing(Client(api.port, api.token("read"))) as client:
        charts = _charts(client, end)
        quiet = [charts() for _ in range(QUIET)]
        environment = os.environ | {"MARKET_STATE_DIR": str(api.state_dir)}
        arguments = [sys.executable, "-P", "-m", "marketdata", "prune", "--before", str(before * 1000)]
        began = perf_counter()
        process = subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        during = []
        while process.poll() is None:
            during.append(charts())
        seconds = perf_counter() - began
        print(process.communicate()[0], end="", flush=True)
        after = [charts() for _ in range(QUIET)]
    for name, sample in (("before", quiet), ("during", during), ("after", after)):
        yield Figure(f"chart {name} the prune", spread(sample))
    share = percentile(during, 0.99) / percentile([*quiet, *after], 0.99)
    yield Figure("p99 during the prune, of that of both quiet times", f"{share:.2f}", "<= 2")
    ((deleted,),) = connection.execute(
        f"SELECT {size} - count(*) FROM md_ticks_v1 WHERE ts >= to_timestamp({before})"
    ).fetchall()
    yield Figure("deleted", f"{deleted:,} ticks in {seconds:.0f} s, {deleted / seconds:,.0f} ticks/s")
    yield from _digests(connection, size)


def _fill(connection: Connection, size: int) -> None:
    for first in range(0, size, PART):
        values = {"symbols": SYMBOLS, "start": START, "gap": GAP_S, "first": first, "last": first + PART - 1}
        connection.execute(V1.query(FILL), values)
    connection.execute("UPDATE md_symbols_v1 SET final_until = now()")
    connection.execute("VACUUM ANALYZE")


def _charts(client: Client, end: int) -> Callable[[], float]:
    """Request a chart that was not requested before, of an interval of at most an hour. Returns its seconds."""
    chance = random.Random(1)

    def chart() -> float:
        symbol, interval = chance.randrange(SYMBOLS), chance.choice(["1m", "15m", "1h"])
        until = chance.randrange(START + 86_400, end) * 1000 + chance.randrange(1000)
        path = f"/v1/chart?symbol=BENCH:{symbol}&interval={interval}&endTime={until}&limit={SHOWN}"
        began = perf_counter()
        status, _ = client("GET", path)
        assert status == 200
        return perf_counter() - began

    return chart


def _digests(connection: Connection, size: int) -> Iterator[Figure]:
    """What is kept of pruned blocks, and how long it takes to look through all of them, as the retraction of a block
    without stored ticks does."""
    ((blocks, bytes_),) = connection.execute(
        "SELECT sum(cardinality(blocks)), pg_total_relation_size('md_pruned_v1') FROM md_pruned_v1"
    ).fetchall()
    yield Figure("kept of pruned blocks", f"{bytes_ / blocks:.1f} bytes per block and symbol")
    ((most,),) = connection.execute(
        "SELECT max(n) FROM (SELECT sum(cardinality(blocks)) AS n FROM md_pruned_v1 GROUP BY symbol) s"
    ).fetchall()
    times = []
    for number in range(20):
        began = perf_counter()
        connection.execute(V1.query("SELECT {is_pruned}('BENCH:0', now(), %s)"), (f"0xunknown{number}",))
        times.append(perf_counter() - began)
    yield Figure(f"search for an unknown block among {most:,}", f"{spread(times)}")


if __name__ == "__main__":
    main(sys.argv[1:])
