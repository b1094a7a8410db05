"""Coverage under writers at once: its ranges never overlap, and whoever comes later lays his over the others'."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from marketdata.interval import DAY
from marketdata.store import coverage
from marketdata.store.coverage import Range
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version

from .conftest import new_symbol


def of_days(start: int, end: int, state: str) -> Range:
    return Range(start * DAY, end * DAY, state)


def noted(conn: Connection, version: Version, symbol: str) -> list[tuple[int, int, str]]:
    """What the table holds, in days."""
    rows = conn.execute(
        version.query(
            """SELECT extract(epoch FROM "from")::bigint / 86400, extract(epoch FROM "to")::bigint / 86400, state
               FROM {coverage} WHERE symbol = %s ORDER BY 1"""
        ),
        (symbol,),
    )
    return rows.fetchall()


def test_the_second_writer_waits_and_sees_what_the_first_one_wrote(
    conn: Connection, database: str, version: Version
) -> None:
    symbol, alias = new_symbol(), new_symbol()
    conn.execute("INSERT INTO market_aliases (alias, symbol) VALUES (%s, %s)", (alias, symbol))
    coverage.record(conn, version, symbol, of_days(0, 10, "indexed"))
    with connect(database) as first, connect(database) as second, ThreadPoolExecutor(1) as pool:
        with first.transaction():
            coverage.record(first, version, symbol, of_days(4, 6, "failed"))
            later = pool.submit(coverage.record, second, version, alias, of_days(5, 8, "failed"))
            while not conn.execute(
                "SELECT FROM pg_locks WHERE pid = %s AND NOT granted", (second.info.backend_pid,)
            ).rowcount:
                assert not later.done()
        later.result(30)
    assert noted(conn, version, symbol) == [(0, 4, "indexed"), (4, 8, "failed"), (8, 10, "indexed")]


def test_writers_at_once_leave_no_overlap_and_lose_nothing(
    conn: Connection, database: str, version: Version, loops
) -> None:
    writers = 6
    for seed in range(loops(quick=3, full=60)):
        symbol, together = new_symbol(), threading.Barrier(writers)
        rng = random.Random(seed)
        plans = [[sorted(rng.sample(range(40), 2)) for _ in range(10)] for _ in range(writers)]

        def write(plan: list[list[int]], symbol: str = symbol, together: threading.Barrier = together) -> None:
            with connect(database) as own:
                together.wait(60)
                for start, end in plan:
                    coverage.record(own, version, symbol, of_days(start, end, "indexed"))

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, plans))
        days = {day for plan in plans for start, end in plan for day in range(start, end)}
        found = noted(conn, version, symbol)
        assert sorted(day for start, end, _ in found for day in range(start, end)) == sorted(days)
        assert all(earlier[1] < later[0] for earlier, later in pairwise(found))
