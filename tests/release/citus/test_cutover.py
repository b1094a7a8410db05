"""A cutover from a distributed version: its lock, and what its writers see, on every node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import pytest

from marketdata.errors import Contended
from marketdata.operations.cutover import Cutover
from marketdata.operations.pair_access import PairAccess
from marketdata.operations.setup import initialise, make_version
from marketdata.operations.version_pair import Pair
from marketdata.settings import Settings
from marketdata.store import shards, ticks
from marketdata.store.conninfo import node_conninfo
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version, registered
from marketdata.tick import FinalizeChain, Item
from tests.marketdata.operations.accessed import end_access, pairs, store
from tests.marketdata.store.conftest import START, tick
from tests.release.citus.cluster import Database, Node

SECONDS = 60.0
SHARDS = 6
LOCKED = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ShareRowExclusiveLock'"


@pytest.fixture
def conn(coordinator: Database, settings: Settings) -> Iterator[Connection]:
    """Versions 1, which is distributed, and 2."""
    with connect(coordinator.url) as connection:
        initialise(connection, lambda _text: None)
        for n, count in ((1, SHARDS), (2, None)):
            make_version(connection, settings, n, lambda _text: None, count)
        yield connection
        end_access(connection)


@pytest.fixture
def symbols(coordinator: Database, conn: Connection) -> dict[Node, str]:
    """A symbol with a tick on each worker, in both versions."""
    found: dict[Node, str] = {}
    for n in range(100):
        found.setdefault(coordinator.node_of("md_ticks_v1", f"ETH:{n}"), f"ETH:{n}")
    assert len(found) == len(coordinator.workers)
    for each in registered(conn, "md"):
        store(conn, each.version, *(tick(symbol, "1", START) for symbol in found.values()))
    return found


def current(connection: Connection) -> list[int]:
    return [each.n for each in registered(connection, "md") if each.is_current]


def writers(coordinator: Database, conn: Connection, symbols: dict[Node, str]) -> list[Callable[[], None]]:
    """One writer for the symbol of each node, on the node, and one for a chain, on the coordinator. A writer that is
    refused checks that the other version is the current one."""
    version = registered(conn, "md")[0].version
    found: list[tuple[str, Version, Item]] = [(coordinator.url, version, FinalizeChain("ETH", 1, START))]
    for placed in shards.placed(conn, version):
        for node, symbol in symbols.items():
            if node.port == placed.node.port and shards.hashes(conn, [symbol])[symbol] in range(
                placed.shard.first, placed.shard.last + 1
            ):
                found.append((node_conninfo(coordinator.url, *placed.node), placed.shard, tick(symbol, "late", START)))

    def write(url: str, version: Version, item: Item) -> None:
        with connect(url) as connection, pytest.raises(Contended):
            ticks.ingest(connection, version, [item])
        with connect(coordinator.url) as connection:
            assert current(connection) == [2]

    assert len(found) == len(symbols) + 1
    return [partial(write, *each) for each in found]


def test_no_node_stores_anything_from_the_lock_to_the_end_of_the_pause(
    coordinator: Database, conn: Connection, symbols: dict[Node, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    version = registered(conn, "md")[0].version
    overview = PairAccess.overview
    running: list[Future[None]] = []
    with ThreadPoolExecutor() as threads:

        def during(self: PairAccess, *arguments: Any) -> Any:
            if not running and self.connection.execute(LOCKED).fetchone() != (0,):
                running.extend(map(threads.submit, writers(coordinator, conn, symbols)))
                assert not wait(running, 2, FIRST_COMPLETED).done, "one did not wait"
            return overview(self, *arguments)

        monkeypatch.setattr(PairAccess, "overview", during)
        assert Cutover(pairs(conn, Pair.of(conn, "md", 1, 2)), lambda _text: None).switch() == []
        assert running
        for each in running:
            each.result(SECONDS)
    for write in writers(coordinator, conn, symbols):
        write()
    assert conn.execute(version.query("SELECT count(*) FROM {ticks}")).fetchone() == (len(symbols),)
    assert conn.execute(version.query("SELECT count(*) FROM {chains}")).fetchone() == (0,)
