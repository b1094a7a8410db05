"""The Citus that other tests work on: it has four nodes, moves shards, and survives the end of a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from marketdata.settings import ROOT
from tests.functional.serving import until
from tests.release.citus.cluster import CitusCluster, Database

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


def stored_databases(url: str) -> int:
    with psycopg.connect(url) as owner:
        return owner.execute("SELECT FROM pg_database WHERE datname = 'marketdata'").rowcount


def refuses(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        return "refused" in str(error)
    return False


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


def test_its_nodes_end_when_its_process_is_killed(citus: CitusCluster, state_dir: Path) -> None:
    state_dir.chmod(0o755)
    command = [sys.executable, "-m", "tests.release.citus.cluster"]
    environment = os.environ | {"TMPDIR": str(state_dir)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        urls = [process.stdout.readline().split(maxsplit=1)[1] for _ in range(4)]
        assert [stored_databases(url) for url in urls] == [1] * 4
        process.kill()
    until(lambda: all(map(refuses, urls)))


def test_databases_do_not_share_rows(citus: CitusCluster, citus_database: Database, table: str) -> None:
    other = citus.fresh_database()
    with psycopg.connect(other.url) as owner, pytest.raises(psycopg.errors.UndefinedTable):
        owner.execute("SELECT FROM kept")
    other.drop()
