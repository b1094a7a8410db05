"""A stream reads block by block. Its shard may move between two blocks, and its former table be dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from marketdata.api.current_reads import CurrentReads
from marketdata.api.replicas import Replicas
from marketdata.store import ticks
from marketdata.store.conninfo import node_conninfo
from marketdata.store.placement import Placement
from marketdata.store.pool import Pool
from marketdata.store.shards import Node
from marketdata.store.version import Version
from marketdata.tick import parse_tick
from tests.release.citus import cluster
from tests.release.citus.cluster import Database
from tests.release.citus.versions import distributed

SYMBOL = "X:A"
START = 1_700_000_000_000


@pytest.fixture
def placement(citus_database: Database) -> Iterator[Placement]:
    def node_pool(node: Node) -> Pool:
        return Pool(node_conninfo(citus_database.url, *node), application_name="test", size=2)

    with ExitStack() as stack:
        coordinator = stack.enter_context(closing(Pool(citus_database.url, application_name="test", size=2)))
        yield stack.enter_context(closing(Placement(coordinator, node_pool)))


def test_a_stream_goes_on_where_its_shard_is(citus_database: Database, placement: Placement) -> None:
    version = distributed(citus_database, Version.of("md", 1), 4)
    reads = CurrentReads(placement._coordinator, Replicas(placement._coordinator, []), placement)
    store(placement, version, range(25))
    with reads.several(version, [SYMBOL], 0) as read:
        found = ticks.blocks(read, SYMBOL, limit=10)
        lines = next(found).splitlines()
        for moved in range(2):
            former = citus_database.node_of(version.ticks_table, SYMBOL)
            citus_database.move(version.ticks_table, SYMBOL)
            citus_database.execute("CALL citus_cleanup_orphaned_resources()")
            assert tables(former, citus_database, version) == []
            store(placement, version, [30 + moved])
            lines += next(found).splitlines()
        assert list(found) == []
    assert [line.split(b'"id":"')[1].split(b'"')[0] for line in lines] == [b"%d" % n for n in (*range(25), 30, 31)]


def store(placement: Placement, version: Version, numbers: Iterable[int]) -> None:
    """Ticks with these numbers as their ids, a second apart."""
    items = [
        parse_tick({"symbol": SYMBOL, "id": str(n), "ts": START + n * 1000, "price": "1", "size": "1"}) for n in numbers
    ]
    placement.write(version, [SYMBOL], lambda connection, shard: ticks.ingest(connection, shard, items))


def tables(node: cluster.Node, database: Database, version: Version) -> list[Any]:
    """The shards of the version that have a table of ticks on the node, and are not placed there."""
    return node.execute(
        "SELECT relname FROM pg_class WHERE relname ~ %s AND regexp_replace(relname, '.*_', '')::bigint NOT IN"
        " (SELECT shardid FROM pg_dist_placement JOIN pg_dist_local_group USING (groupid))",
        (rf"^{version.ticks_table}_\d+$",), database=database.name,
    )  # fmt: skip
