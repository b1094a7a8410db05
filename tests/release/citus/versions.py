"""Versions that Citus distributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from psycopg.conninfo import make_conninfo

from marketdata.operations.setup import make_tables
from marketdata.store import migrations, shards
from marketdata.store.conninfo import node_conninfo
from marketdata.store.placement import Placement
from marketdata.store.pool import Pool, connect
from marketdata.store.shard_ingest import ShardIngest
from marketdata.store.shards import Node
from marketdata.store.version import Version
from tests.release.citus.cluster import CitusCluster, Database


def distributed(database: Database, version: Version, count: int) -> Version:
    """The version, made with this number of shards in this database."""
    with connect(database.url) as connection:
        migrations.migrate(connection)
        return make_tables(connection, replace(version, shards=count))[1]


@contextmanager
def placement_of(database: Database, coordinator: Pool) -> Iterator[Placement]:
    """The placement of the database's shards. ``coordinator`` is a pool of connections to its coordinator."""

    def node_pool(node: Node) -> Pool:
        return Pool(node_conninfo(database.url, *node), application_name="test", size=4)

    placement = Placement(coordinator, node_pool)
    yield placement
    placement.close()


@contextmanager
def shard_ingest(database: Database) -> Iterator[ShardIngest]:
    """Stores batches as the API does."""
    coordinator = Pool(database.url, application_name="test", size=4)
    with placement_of(database, coordinator) as placement:
        yield ShardIngest(placement, coordinator)
    coordinator.close()


_ON_NODE = {
    "citus.enable_ddl_propagation": "off",  # tests create schemas and functions of their own
    "citus.override_table_visibility": "off",  # tests read the statistics of the shard's tables
}


@contextmanager
def only_shard(citus: CitusCluster, version: Version) -> Iterator[tuple[str, Version]]:
    """The version, made with one shard in a fresh database: the connection string of the shard's node, and the version
    with the shard's names."""
    database = citus.fresh_database()
    made = distributed(database, version, 1)
    with connect(database.url) as connection:
        (found,) = shards.placed(connection, made)
    options = " ".join(f"-c {name}={value}" for name, value in _ON_NODE.items())
    yield node_conninfo(make_conninfo(database.url, options=options), *found.node), found.shard
    database.drop()
