"""The Citus that other tests work on: it has four nodes, moves shards, and survives the end of a worker."""

from __future__ import annotations

import psycopg
import pytest

from tests.marketdata.citus.cluster import CitusCluster, Database

SYMBOLS = [f"test:{number}" for number in range(20)]


@pytest.fixture(scope="module")
def table(citus_database: Database) -> str:
    with psycopg.connect(citus_database.url) as owner:
        owner.execute("CREATE TABLE kept (symbol text PRIMARY KEY)")
        owner.execute("SELECT create_distributed_table('kept', 'symbol', shard_count => 6)")
        owner.execute("INSERT INTO kept SELECT unnest(%s::text[])", (SYMBOLS,))
    return "kept"


def stored(url: str) -> list[str]:
    with psycopg.connect(url) as owner:
        return [symbol for (symbol,) in owner.execute("SELECT symbol FROM kept ORDER BY length(symbol), symbol")]


def test_it_has_a_coordinator_without_shards_and_three_workers(citus_database: Database, table: str) -> None:
    nodes = citus_database.execute("SELECT nodeport, shouldhaveshards FROM pg_dist_node ORDER BY groupid")
    assert nodes == [(node.port, node != citus_database.nodes[0]) for node in citus_database.nodes]
    placed = citus_database.execute("SELECT nodeport, count(*) FROM citus_shards GROUP BY nodeport")
    assert dict(placed) == {node.port: 2 for node in citus_database.workers}


def test_every_node_answers_its_owner_for_all_shards(citus_database: Database, table: str) -> None:
    assert [stored(url) for url in citus_database.node_urls] == [SYMBOLS] * 4


@pytest.mark.parametrize("mode", ["block_writes", "force_logical"])
def test_a_shard_moves_to_the_next_worker(citus_database: Database, table: str, mode: str) -> None:
    before = citus_database.node_of(table, SYMBOLS[0])
    target = citus_database.move(table, SYMBOLS[0], mode)
    assert target != before
    assert citus_database.node_of(table, SYMBOLS[0]) == target
    assert stored(citus_database.url) == SYMBOLS


def test_a_killed_worker_comes_back_with_its_rows(citus_database: Database, table: str) -> None:
    worker = citus_database.node_of(table, SYMBOLS[0])
    worker.kill()
    try:
        with pytest.raises(psycopg.OperationalError):
            stored(citus_database.url)
    finally:
        worker.start()
    assert stored(citus_database.url) == SYMBOLS


def test_a_node_is_added_and_another_drained(citus: CitusCluster, citus_database: Database, table: str) -> None:
    added = citus_database.add_node()
    assert len(citus_database.nodes) == 5
    citus_database.drain(citus_database.workers[0])
    citus_database.rebalance()
    placed = dict(citus_database.execute("SELECT nodeport, count(*) FROM citus_shards GROUP BY nodeport"))
    assert added.port in placed
    assert citus_database.workers[0].port not in placed
    assert [stored(url) for url in citus_database.node_urls] == [SYMBOLS] * 5


def test_databases_do_not_share_rows(citus: CitusCluster, citus_database: Database, table: str) -> None:
    other = citus.fresh_database()
    with psycopg.connect(other.url) as owner, pytest.raises(psycopg.errors.UndefinedTable):
        owner.execute("SELECT FROM kept")
    other.drop()
