"""``bin/marketdata-init``, ``-version --shards`` and ``-drop`` on a Citus cluster: what they make, what is left
after a drop, and each refusal."""

from __future__ import annotations

import re

import psycopg
import pytest

from marketdata.operations.symbol_access import SymbolAccess
from marketdata.store import candles
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version, registered
from tests.marketdata.store.conftest import START, tick
from tests.release.citus.cluster import CitusCluster, Database
from tests.release.citus.commands import Prepare, Prepared

SYMBOLS = [f"X{n}:A-USD" for n in range(12)]
OBJECTS = """
    SELECT name FROM (SELECT relname::text AS name FROM pg_class UNION ALL SELECT proname::text FROM pg_proc
                      UNION ALL SELECT tgname::text FROM pg_trigger) named WHERE name ~ %s ORDER BY 1"""


def objects(database: Database, pattern: str) -> list[list[str]]:
    """The tables, functions and triggers whose names match, on each node. Citus hides shards from other clients."""
    found = []
    for url in database.node_urls:
        with psycopg.connect(url) as connection:
            connection.execute("SET citus.override_table_visibility = off")
            found.append([name for (name,) in connection.execute(OBJECTS, (pattern,))])
    return found


def store(connection: Connection, version: Version, batch: str) -> None:
    """A tick of each symbol."""
    with SymbolAccess(connection) as access:
        outcomes = access.ingest(version, [tick(symbol, batch, START) for symbol in SYMBOLS])
    assert set(outcomes) == {"created"}


def counts(connection: Connection, version: Version) -> list[int]:
    """The ticks of each symbol, as its daily candle counts them."""

    def read(symbol: str) -> int:
        def of_shard(conn: Connection, shard: Version) -> int:
            found = candles.read(conn, shard, symbol, interval="1d", limit=5, format="columns")
            return int(re.findall(rb'"n":\[(\d+)\]', found.body)[0])

        return access.read(version, [symbol], of_shard)

    with SymbolAccess(connection) as access:
        return [read(symbol) for symbol in SYMBOLS]


def test_a_version_is_distributed_beside_a_plain_one_by_an_owner_without_superuser(prepared: Prepared) -> None:
    command, database = prepared.command, prepared.database
    done = command("init")
    assert (done.returncode, done.stderr) == (0, "")
    assert command("version", "1").returncode == 0
    done = command("version", "2", "--shards", "6")
    assert (done.returncode, done.stderr) == (0, "")
    assert "version 2: created md_ticks_v2 and md_candles_v2, 6 shards on 3 nodes" in done.stdout
    again = command("version", "2", "--shards", "6")
    assert "version 2: md_ticks_v2 and md_candles_v2 already exist, 6 shards on 3 nodes" in again.stdout
    assert command("version", "2").returncode == 0
    for n, now in (("1", "no shards"), ("2", "6 shards")):
        done = command("version", n, "--shards", "5")
        assert done.returncode == 2
        assert f"--shards 5: version {n} exists and has {now}. Create another version with --shards 5" in done.stderr
    with connect(database.url) as connection:
        assert [each.shards for each in registered(connection, "md")] == [None, 6]
        assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)
        for each in registered(connection, "md"):
            store(connection, each.version, "a")
            assert counts(connection, each.version) == [1] * len(SYMBOLS)


def test_a_dropped_version_leaves_nothing_on_any_node(prepared: Prepared) -> None:
    command, database = prepared.command, prepared.database
    assert command("version", "1").returncode == 0
    for n in ("2", "3"):
        assert command("version", n, "--shards", "4").returncode == 0
    assert command("alias", "add", "NICK", SYMBOLS[0]).returncode == 0
    with connect(database.url) as connection:
        version = registered(connection, "md")[1].version
        store(connection, version, "a")
    database.move("md_ticks_v2", SYMBOLS[0])
    database.execute("CALL citus_cleanup_orphaned_resources()")
    done = command("drop", "2", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("dropped version 2 (md_ticks_v2: 12 ticks of 12 symbols)")
    assert objects(database, "_v2(_|$)") == [[]] * 4
    assert all(objects(database, "_v3_s"))
    assert command("drop", "3", "--yes").returncode == 0
    assert objects(database, "_v3(_|$)|market_aliases_\\d") == [[]] * 4
    assert database.execute("SELECT count(*) FROM pg_dist_partition") == [(0,)]
    assert command("alias", "list").stdout == f"NICK  {SYMBOLS[0]}\n"
    assert command("version", "2", "--shards", "3").returncode == 0, "it can be created again"


def test_a_version_that_is_read_on_a_worker_is_not_dropped(prepared: Prepared) -> None:
    command, database = prepared.command, prepared.database
    assert command("version", "1").returncode == 0
    assert command("version", "2", "--shards", "4").returncode == 0
    with connect(database.url) as connection, SymbolAccess(connection) as access:
        version = registered(connection, "md")[1].version

        def hold(conn: Connection, shard: Version) -> None:
            conn.execute("BEGIN")
            conn.execute(shard.query("SELECT FROM {ticks}"))
            done = command("drop", "2", "--yes")
            assert (done.returncode, done.stdout) == (1, "")
            assert "version 2 has been in use for over 10 s; nothing was dropped" in done.stderr
            conn.execute("ROLLBACK")

        access.read(version, [SYMBOLS[0]], hold)
        store(connection, version, "a")
    assert command("drop", "2", "--yes").returncode == 0


def test_a_worker_is_refused_before_anything_is_created(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    command, database = prepared.command, prepared.database
    monkeypatch.setenv("DATABASE_URL", database.node_urls[1])
    for arguments in (("init",), ("version", "1"), ("version", "1", "--shards", "4")):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "DATABASE_URL leads to a worker of a Citus cluster: set it to the coordinator" in done.stderr
    assert objects(database, "^(market_|api_tokens)") == [[]] * 4


def test_a_cluster_without_workers_is_refused(citus: CitusCluster, prepare: Prepare) -> None:
    database = citus.fresh_database(workers=0)
    command = prepare(database)
    done = command("version", "1", "--shards", "4")
    assert done.returncode == 2
    assert (
        "the Citus cluster has no node for shards: add one on the coordinator with SELECT citus_add_node" in done.stderr
    )
    assert command("version", "1").returncode == 0, "a plain version needs none"
    database.drop()
