"""A version of the store in a fresh database, connections to it, and histories of ticks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

from marketdata.interval import DAY, SECOND
from marketdata.store import migrations
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Tick

RELAXED: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
}
"""Settings of every property test: an example takes many statements, and the machine may be busy."""

START = 1_706_659_200 * SECOND
"""2024-01-31: a month's end, in a leap year."""


@pytest.fixture(scope="module")
def new_store(new_database: Callable[[], str]) -> Callable[[], AbstractContextManager[tuple[str, Version]]]:
    """``with new_store() as (database, version)``: an empty version in a database of its own. tests/release/citus runs
    the tests that are not ``plain_only`` on a shard instead: with its names, on a connection to its node."""

    @contextmanager
    def plain() -> Iterator[tuple[str, Version]]:
        database, version = new_database(), Version.of("t", 1)
        with connect(database) as connection:
            migrations.migrate(connection)
            version.create(connection)
        yield database, version

    return plain


@pytest.fixture(scope="module")
def store(new_store: Callable[[], AbstractContextManager[tuple[str, Version]]]) -> Iterator[tuple[str, Version]]:
    """The version that the tests of one module share."""
    with new_store() as store:
        yield store


@pytest.fixture(scope="module")
def database(store: tuple[str, Version]) -> str:
    return store[0]


@pytest.fixture(scope="module")
def version(store: tuple[str, Version]) -> Version:
    return store[1]


@pytest.fixture(scope="module")
def conn(database: str, version: Version) -> Iterator[Connection]:
    with connect(database) as connection:
        yield connection


@pytest.fixture
def clock(conn: Connection) -> Iterator[Callable[[int], None]]:
    """``clock(at)`` makes ``at`` (microseconds) the database's time."""
    with clock_of(conn) as clock:
        yield clock


@contextmanager
def clock_of(conn: Connection) -> Iterator[Callable[[int], None]]:
    """The clock of this connection, by a function ``now`` of its own."""
    conn.execute("CREATE SCHEMA IF NOT EXISTS clock")
    conn.execute(
        "CREATE OR REPLACE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$"
        " SELECT '1970-01-01Z'::timestamptz + current_setting('test.now')::bigint * interval '1 us' $$"
    )
    conn.execute("SET search_path = clock, pg_catalog, public")
    yield lambda at: void(conn.execute("SELECT set_config('test.now', %s, false)", (str(at),)))
    conn.execute("RESET search_path")


def void(_result: object) -> None:
    pass


def new_symbol() -> str:
    """A symbol of a test's own: the tests of a module share the tables."""
    return f"test:{uuid.uuid4().hex}"


def tick(symbol: str, id: str, ts: int, price: str = "1", size: str = "1", **more: Any) -> Tick:
    """A tick with default values, except those that are given."""
    known = {"seq": 0, "side": None, "block_number": None, "block_hash": None, "tx": None}
    return Tick(symbol=symbol, id=id, ts=ts, price=price, size=size, **(known | more))


# Spans from one second to months, so that ticks share buckets of every width. Some ticks share an instant.
_TIMES = st.builds(
    lambda base, unit, count, us: START + base * 40 * DAY + unit * count + us,
    st.integers(0, 2),
    st.sampled_from([SECOND // 4, SECOND, 37 * SECOND, 900 * SECOND, 5 * 3600 * SECOND, DAY, 6 * DAY]),
    st.integers(0, 9),
    st.sampled_from([0, 0, 1, 999_999]),
)
_AMOUNTS = st.one_of(
    st.sampled_from(["1", "1.0", "1.000", "3", "0.5", "1.50", "0.25", "0.3", "7.25", "99999999.99999999"]),
    st.sampled_from(["0.5", "1.50", "0.250"]),  # many sums of these end in zeros
    st.decimals("0.000001", "1000000", places=6).map(lambda number: format(number, "f")),
    st.decimals("1e-30", "1e-20", places=30).map(lambda number: format(number, "f")),
)


def history(symbol: str, max_size: int = 40) -> st.SearchStrategy[list[Tick]]:
    """Ticks of one symbol with distinct ids, many at one instant, in any order, some of four blocks."""

    def made(rows: Sequence[tuple[int, int, str, str, int | None]]) -> list[Tick]:
        ids = ["b", "a", "Z", "é", "0"]
        return [
            tick(
                symbol, f"{ids[number % 5]}{number}", ts, price, size, seq=seq, side=(None, "buy", "sell")[number % 3],
                block_number=block, block_hash=None if block is None else f"0xb{block}",
                tx=None if number % 2 else f"0x{number:x}",
            )
            for number, (ts, seq, price, size, block) in enumerate(rows)
        ]  # fmt: skip

    row = st.tuples(
        _TIMES,
        st.sampled_from([0, 0, 0, 1, -1]),
        _AMOUNTS,
        st.one_of(st.just("0"), _AMOUNTS),
        st.sampled_from([None, None, 1, 2, 3, 4]),
    )
    return st.lists(row, min_size=1, max_size=max_size).map(made)


def stored_ticks(conn: Connection, version: Version, symbol: str) -> list[Tick]:
    """The ticks that the table holds of a symbol."""
    rows = conn.execute(
        version.query(
            "SELECT symbol, id, (extract(epoch FROM ts) * 1000000)::bigint, seq, price::text, size::text, side,"
            " block_number, block_hash, tx FROM {ticks} WHERE symbol = %s"
        ),
        (symbol,),
    )
    return [Tick(*row) for row in rows]


def stored_rollups(conn: Connection, version: Version, symbol: str) -> list[tuple[Any, ...]]:
    """The rows of the rollups table of a symbol in the shape of ``brute_force.rollups``, numbers as they are stored."""
    rows = conn.execute(
        version.query("""
            SELECT res, (extract(epoch FROM bucket) * 1000000)::bigint, open::text, high::text, low::text, close::text,
                   volume::text, quote::text, vwap::text, n,
                   (extract(epoch FROM first_ts) * 1000000)::bigint, first_seq, first_id,
                   (extract(epoch FROM last_ts) * 1000000)::bigint, last_seq, last_id, max_block, json_prefix,
                   buy_volume::text, buy_quote::text
            FROM {rollups} WHERE symbol = %s ORDER BY res, bucket"""),
        (symbol,),
    )
    return rows.fetchall()


def insert(conn: psycopg.Connection[Any], version: Version, ticks: Sequence[Tick]) -> None:
    """One plain INSERT of another client, which uses only the table of ticks."""
    row = b"(%s, %s, '1970-01-01Z'::timestamptz + %s * interval '1 us', %s, %s, %s, %s, %s, %s, %s)"
    columns = "INSERT INTO {ticks} (symbol, id, ts, seq, price, size, side, block_number, block_hash, tx) VALUES "
    values = [Decimal(part) if place in (4, 5) else part for each in ticks for place, part in enumerate(each)]
    conn.execute(version.query(columns) + b", ".join([row] * len(ticks)), values)
