"""Ingest and candles in the database alone, at growing sizes.

    python -m tests.bench.market_store 1000000 10000000 50000000

``--keep DIR`` keeps the filled databases in DIR, and uses the databases that an earlier run of the same SQL left there,
because filling takes long. A database of an earlier run is read with cold caches.

A private cluster of the service's own making is filled through ``store.ticks.ingest`` in batches of 1000, a tick every
five seconds, a symbol for each year of them. A candle's figure is the time of ``store.candles.read``, with the
round trip over the UNIX socket and the answer's text. Compare figures of one run, and shares rather than times.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from psycopg.conninfo import make_conninfo

from marketdata.interval import DAY, SECOND, WIDTHS, Zone, bucket_open
from marketdata.postgres.client import Client
from marketdata.store import candles, migrations, ticks
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Tick
from tests.bench.figures import Figure, median_ms, percentile, table

START = 1_704_067_200 * SECOND
GAP = 5 * SECOND
A_YEAR = 366 * DAY // GAP
BATCH = 1000
BARE_EVERY = 10
"""Every tenth batch is also stored in a second version, whose rollup triggers are off."""

STORED = ("1m", "15m", "30m", "1h", "4h", "1d")
DERIVED = (
    ("3m", 0), ("5m", 0), ("2h", 0), ("6h", 0), ("8h", 0), ("12h", 0), ("3d", 0), ("1w", 0), ("1M", 0),
    ("1h", 330), ("4h", 60), ("4h", 330), ("12h", 60), ("1d", 60), ("1d", 330), ("1w", 60), ("1M", 330),
)  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.market_store")
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000_000], metavar="TICKS")
    parser.add_argument("--keep", metavar="DIR", help="keep the databases in DIR, and read those that are there")
    given = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        kept = Path(given.keep).resolve() if given.keep else None
        folder = kept or stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True))
        client = stack.enter_context(Client(Path(folder), linger=False))
        for size in given.sizes:
            figures = measure(client.conninfo, size, keep=kept is not None)
            print(f"\n{size:,} ticks\n\n{table(list(figures))}", flush=True)


def measure(cluster: str, size: int, *, keep: bool = False) -> Iterator[Figure]:
    """The figures of a database with ``size`` ticks. A database with its name was filled by an earlier run, and is used
    again."""
    version = Version.of("full", 1)
    name, filling = f"bench_{size}_{hashlib.sha256(version.script()).hexdigest()[:8]}", f"filling_{size}"
    symbols = [f"bench:{number}" for number in range(max(1, round(size / A_YEAR)))]
    with connect(cluster) as admin:
        if admin.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            admin.execute(f'DROP DATABASE IF EXISTS "{filling}"')
            admin.execute(f'CREATE DATABASE "{filling}"')
            with connect(make_conninfo(cluster, dbname=filling)) as conn:
                yield from _fill(conn, version, symbols, size)
            admin.execute(f'ALTER DATABASE "{filling}" RENAME TO "{name}"')
        with connect(make_conninfo(cluster, dbname=name)) as conn:
            yield from _read(conn, version, symbols, size)
        if not keep:
            admin.execute(f'DROP DATABASE "{name}"')


def _fill(conn: Connection, version: Version, symbols: list[str], size: int) -> Iterator[Figure]:
    migrations.migrate(conn)
    conn.prepare_threshold = 0
    bare = Version.of("bare", 1)
    for each in (version, bare):
        each.create(conn)
    for trigger in ("rollups_insert", "rollups_delete"):
        conn.execute(bare.query(f"ALTER TABLE {{ticks}} DISABLE TRIGGER {{{trigger}}}"))
    yield from _load(conn, version, bare, symbols, size)
    conn.execute("VACUUM ANALYZE")
    yield Figure("size of rollups, share of the ticks'", f"{_share_of_size(conn):.1%}")


def _read(conn: Connection, version: Version, symbols: list[str], size: int) -> Iterator[Figure]:
    conn.prepare_threshold = 0
    for interval in STORED:
        yield _candles(conn, version, symbols, size, interval, 0, "p50 <= 2 ms, p99 <= 5 ms")
    yield _candles(conn, version, symbols, size, "1s", 0, "")
    for interval, shift in DERIVED:
        yield _candles(conn, version, symbols, size, interval, shift, "p50 <= 10 ms")
    yield from _year(conn, version, symbols[0], min(366, size // len(symbols) * GAP // DAY))


def _load(conn: Connection, version: Version, bare: Version, symbols: list[str], size: int) -> Iterator[Figure]:
    rng = random.Random(size)
    full, without = [], []
    for number in range(0, size, BATCH):
        first = number // BATCH // len(symbols) * BATCH
        batch = _batch(symbols[number // BATCH % len(symbols)], first, rng)
        full.append(_seconds(lambda batch=batch: ticks.ingest(conn, version, batch)))
        if number // BATCH % BARE_EVERY == 0:
            without.append((_seconds(lambda batch=batch: ticks.ingest(conn, bare, batch)), full[-1]))
    speed = len(full) * BATCH / sum(full)
    yield Figure("ingest with rollups, batches of 1000", f"{speed:,.0f} ticks/s", ">= 60 000")
    last = full[-max(1, len(full) // 10) :]
    yield Figure("the last tenth of it", f"{len(last) * BATCH / sum(last):,.0f} ticks/s", ">= 60 000")
    share = sum(bare_s for bare_s, _ in without) / sum(full_s for _, full_s in without)
    yield Figure("share of the same ingest without rollups", f"{share:.2f}")


def _batch(symbol: str, first: int, rng: random.Random) -> list[Tick]:
    return [
        Tick(
            symbol=symbol,
            id=f"{n:x}:{n % 7}",
            ts=START + n * GAP + rng.randrange(GAP),
            seq=n % 7,
            price=f"{rng.randrange(90, 110)}.{rng.randrange(10**6):06}",
            size=f"{rng.randrange(100)}.{rng.randrange(10**4):04}",
            side=("buy", "sell")[n % 2],
            block_number=None,
            block_hash=None,
            tx=None,
        )
        for n in range(first, first + BATCH)
    ]


def _share_of_size(conn: Connection) -> float:
    row = conn.execute(
        "SELECT sum(pg_total_relation_size(oid)) FILTER (WHERE relname LIKE 'full_rollups%_v1')"
        " / sum(pg_total_relation_size(oid)) FILTER (WHERE relname = 'full_ticks_v1') FROM pg_class WHERE relkind = 'r'"
    ).fetchone()
    assert row is not None
    return float(row[0])


def _candles(
    conn: Connection, version: Version, symbols: list[str], size: int, interval: str, shift: int, goal: str
) -> Figure:
    rng = random.Random(interval)
    width = (WIDTHS[interval] or 31 * 86_400) * SECOND
    span = size // len(symbols) * GAP
    count = 0
    times = []
    for number in range(210):
        # A random start with 500 candles after it, if there are enough. The first reads warm the caches and plans.
        start = bucket_open(START + rng.randrange(max(1, span - 501 * width)), interval, Zone.fixed(shift))
        asked: dict[str, Any] = {"start": start, "zone": Zone.fixed(shift), "limit": 500}
        began = perf_counter()
        count = candles.read(conn, version, rng.choice(symbols), interval, **asked).count
        if number >= 10:
            times.append(perf_counter() - began)
    zone = f" at {shift // 60:+}:{shift % 60:02}" if shift else ""
    percentiles = f"p50 {percentile(times, 0.5):.2f} ms, p99 {percentile(times, 0.99):.2f} ms"
    return Figure(f"{count} candles of {interval}{zone}", percentiles, goal)


def _year(conn: Connection, version: Version, symbol: str, days: int) -> Iterator[Figure]:
    end = START + days * DAY - 1
    ours = [_seconds(lambda: candles.read(conn, version, symbol, "1d", start=START, end=end)) for _ in range(50)][5:]
    raw = version.query(
        """SELECT date_bin('1 day', ts, '1970-01-01Z') AS day, (array_agg(price ORDER BY ts, seq, id))[1],
                  max(price), min(price), (array_agg(price ORDER BY ts DESC, seq DESC, id DESC))[1], sum(size), count(*)
           FROM {ticks} WHERE symbol = %s AND ts >= {instant}(%s) AND ts <= {instant}(%s) GROUP BY day ORDER BY day"""
    )
    theirs = [_seconds(lambda: conn.execute(raw, (symbol, START, end)).fetchall()) for _ in range(3)]
    yield Figure(f"{days} candles of a day", f"{median_ms(ours):.2f} ms")
    yield Figure("the same from the ticks by plain SQL", f"{median_ms(theirs):,.0f} ms")
    goal = ">= 5 000" if days > 270 else ""  # the goal is for about a year of candles
    yield Figure("times faster", f"{median_ms(theirs) / median_ms(ours):,.0f}", goal)


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


if __name__ == "__main__":
    main(sys.argv[1:])
