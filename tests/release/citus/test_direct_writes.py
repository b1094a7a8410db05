"""Clients that write to the distributed table of ticks by SQL: their candles are exact, too, wherever a shard is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from marketdata.interval import SECOND
from marketdata.operations.setup import make_tables
from marketdata.store.pool import Connection, connect
from marketdata.store.shard_ingest import ShardIngest
from marketdata.store.version import Version
from marketdata.tick import Tick
from tests.marketdata.store.brute_force import rollups
from tests.marketdata.store.conftest import START, insert, new_symbol, stored_rollups, stored_ticks, tick
from tests.release.citus.cluster import Database
from tests.release.citus.versions import distributed, shard_ingest

SHARDS = 8
SYMBOLS = 24


@pytest.fixture(scope="module")
def version(citus_database: Database) -> Version:
    return distributed(citus_database, Version.of("t", 1), SHARDS)


@pytest.fixture
def conn(citus_database: Database, version: Version) -> Iterator[Connection]:
    with connect(citus_database.url) as connection:
        yield connection


@pytest.fixture
def ingest(citus_database: Database, version: Version) -> Iterator[ShardIngest]:
    with shard_ingest(citus_database) as ingest:
        yield ingest


def some_ticks(symbols: list[str], name: str, rng: random.Random) -> list[Tick]:
    """Ticks of a few minutes."""
    return [
        tick(
            rng.choice(symbols), f"{name}-{number}", START + rng.randrange(1200) * SECOND,
            f"{rng.randrange(1, 99)}.{rng.randrange(10)}0", f"{rng.randrange(5)}.250",
            seq=rng.randrange(3), side=rng.choice([None, "buy", "sell"]),
        )
        for number in range(rng.choice([1, 7, 60]))
    ]  # fmt: skip


def write(conn: Connection, version: Version, ingest: ShardIngest, symbols: list[str], seed: int) -> None:
    """Insert and delete by SQL, one symbol per statement, and store batches in between."""
    rng = random.Random(seed)
    for round in range(8):
        batch = some_ticks(symbols, f"{seed}-{round}", rng)
        if rng.random() < 0.3:
            assert ingest.ingest(version, batch).outcomes == ["created"] * len(batch)
            continue
        for symbol in {each.symbol for each in batch}:
            own = [each for each in batch if each.symbol == symbol]
            insert(conn, version, own)
            if rng.random() < 0.5:
                delete = version.query("DELETE FROM {ticks} WHERE symbol = %s AND id = ANY (%s)")
                conn.execute(delete, (symbol, [each.id for each in own[::2]]))


def check(conn: Connection, version: Version, symbols: list[str]) -> None:
    found = {symbol: stored_ticks(conn, version, symbol) for symbol in symbols}
    assert any(found.values())
    assert {symbol: stored_rollups(conn, version, symbol) for symbol in symbols} == {
        symbol: rollups(ticks) for symbol, ticks in found.items()
    }


def new_symbols() -> list[str]:
    return [new_symbol() for _ in range(SYMBOLS)]


def test_candles_are_exact_after_a_shard_has_moved(
    citus_database: Database, conn: Connection, version: Version, ingest: ShardIngest
) -> None:
    symbols = new_symbols()
    write(conn, version, ingest, symbols, 11)
    for seed, mode in enumerate(("block_writes", "force_logical"), 12):
        moved = citus_database.move(version.ticks_table, symbols[0], mode)
        assert citus_database.node_of(version.ticks_table, symbols[0]) == moved
        write(conn, version, ingest, symbols[:1], seed)
        write(conn, version, ingest, symbols, seed + 10)
        check(conn, version, symbols)


def test_they_are_exact_with_writers_of_every_kind_at_once(
    citus_database: Database, conn: Connection, version: Version, ingest: ShardIngest
) -> None:
    symbols = new_symbols()

    def run(seed: int) -> None:
        with connect(citus_database.url) as own:
            write(own, version, ingest, symbols, seed)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(41, 45)))
    check(conn, version, symbols)


def test_a_tick_is_never_changed_in_place(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    insert(conn, version, [tick(symbol, "a", START)])
    for change in (
        "UPDATE {ticks} SET price = 2 WHERE symbol = %(symbol)s",
        "UPDATE {ticks} SET price = 2",
        "INSERT INTO {ticks} SELECT * FROM {ticks} WHERE symbol = %(symbol)s"
        " ON CONFLICT (symbol, id) DO UPDATE SET price = 2",
        "TRUNCATE {ticks}",
    ):
        with pytest.raises(psycopg.Error, match="DELETE and INSERT them"):
            conn.execute(version.query(change), {"symbol": symbol} if "%" in change else None)
    assert [each.price for each in stored_ticks(conn, version, symbol)] == ["1"]


def test_a_statement_for_symbols_on_several_nodes_is_refused(conn: Connection, version: Version) -> None:
    """PostgreSQL cannot prepare a transaction that notifies, and Citus prepares those of several nodes."""
    symbols = new_symbols()
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        insert(conn, version, [tick(symbol, "a", START) for symbol in symbols])
    for symbol in symbols:
        insert(conn, version, [tick(symbol, "a", START)])
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        conn.execute(version.query("DELETE FROM {ticks} WHERE symbol = ANY (%s)"), (symbols,))
    check(conn, version, symbols)
    assert len(stored_ticks(conn, version, symbols[0])) == 1


def test_another_role_may_store_ticks_and_not_use_the_functions_for_a_table_of_its_own(
    citus_database: Database, conn: Connection, version: Version
) -> None:
    """They run as their owner, and would take the rows of a temporary table for ticks of the shard with its name."""
    role, symbol = "plain_writer", new_symbol()
    citus_database.execute(f"CREATE ROLE {role} LOGIN")
    citus_database.execute(f"GRANT INSERT, DELETE, SELECT ON {version.ticks_table} TO {role}")
    with psycopg.connect(citus_database.nodes[0].url(citus_database.name, role)) as own:
        insert(own, version, [tick(symbol, "a", START), tick(symbol, "b", START)])
        own.execute(version.query("DELETE FROM {ticks} WHERE symbol = %s AND id = 'a'"), (symbol,))
    assert stored_rollups(conn, version, symbol) == rollups([tick(symbol, "b", START)])
    shard, _ = citus_database.shard_and_port(version.ticks_table, symbol)
    table = f"{version.ticks_table}_{shard}"
    attempt = (
        f"CREATE TRIGGER mine AFTER INSERT ON {table} REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT"
        f" EXECUTE FUNCTION {version.name('rollups_insert')}();"
        f"INSERT INTO {table} (symbol, id, ts, seq, price, size) VALUES ('X:Y', 'a', now(), 0, 1, 1)"
    )
    for node in citus_database.nodes:
        with psycopg.connect(node.url(citus_database.name, role), autocommit=True) as own:
            own.execute(f"CREATE TEMP TABLE {table} (LIKE public.{version.ticks_table})")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute(attempt)


def test_rows_of_a_shard_that_was_split_are_refused_until_it_has_functions(
    citus_database: Database, conn: Connection, version: Version, ingest: ShardIngest
) -> None:
    symbols = new_symbols()
    write(conn, version, ingest, symbols, 51)
    shard, _ = citus_database.shard_and_port(version.ticks_table, symbols[0])
    citus_database.execute(
        "SELECT citus_split_shard_by_split_points(shardid, ARRAY[((shardminvalue::bigint + shardmaxvalue::bigint) / 2)"
        "::text], ARRAY[nodeid, nodeid], 'block_writes') FROM pg_dist_shard JOIN pg_dist_placement USING (shardid)"
        " JOIN pg_dist_node USING (groupid) WHERE shardid = %s", shard,
    )  # fmt: skip
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="run bin/marketdata-version again"):
        insert(conn, version, [tick(symbols[0], "late", START)])
    make_tables(conn, version)
    write(conn, version, ingest, symbols[:1], 52)
    write(conn, version, ingest, symbols, 53)
    check(conn, version, symbols)
