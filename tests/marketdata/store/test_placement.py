"""How work follows a shard that moves, with stand-ins for the nodes. tests/release/citus has the real ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest

from marketdata.errors import Contended, DatabaseDefect, DatabaseUnavailable, MarketError, NotFound, VersionMissing
from marketdata.store import placement, shards
from marketdata.store.placement import Placement
from marketdata.store.shards import Moved, Node, Placed, Shard
from marketdata.store.version import Version
from tests.functional.serving import until

VERSION = replace(Version.of("md", 1), shards=2)
LOW, HIGH = (Shard("md", 1, "md_candles_v1", 2, number, first) for number, first in ((1, -100), (2, 0)))
HERE, THERE = Node("here", 1), Node("there", 2)
PATIENCE = 0.2
HASHES = {"LOW:A": -50, "HIGH:A": 50, "LOW:B": -1, "HIGH:0": 0}


class Cluster:
    """Scripted answers of the coordinator and the nodes. ``at`` has the node of each shard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = {LOW: HERE, HIGH: THERE}
        self.asked: list[Node] = []
        self.closed: list[object] = []
        self.questions = 0
        monkeypatch.setattr(shards, "placed", lambda *_: [Placed(each, self.at[each]) for each in (LOW, HIGH)])
        monkeypatch.setattr(shards, "hashes", lambda _, names: {name: HASHES[name] for name in names})
        monkeypatch.setattr(shards, "is_here", self._is_here)
        self.placement = Placement(Lender("coordinator", self), lambda node: Lender(node, self), PATIENCE)  # type: ignore[arg-type,return-value]

    def _is_here(self, connection: Any, shard: Shard, names: Collection[str]) -> bool:
        self.questions += 1
        return bool(self.at[shard] == connection)


class Lender:
    """A pool whose connections are the name of its node."""

    def __init__(self, node: object, cluster: Cluster) -> None:
        self._node, self._cluster = node, cluster

    @contextmanager
    def connection(self, **_: object) -> Iterator[Any]:
        if isinstance(self._node, Node):
            self._cluster.asked.append(self._node)
        yield self._node

    def close(self, timeout: float = 5.0) -> None:
        self._cluster.closed.append(self._node)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    cluster = Cluster(monkeypatch)
    yield cluster
    cluster.placement.close()


def where(connection: Any, version: Version) -> tuple[Any, Version]:
    return connection, version


def test_work_runs_where_the_shard_is(cluster: Cluster) -> None:
    for number, (name, found) in enumerate(
        {"LOW:A": (HERE, LOW), "LOW:B": (HERE, LOW), "HIGH:0": (THERE, HIGH)}.items(), 1
    ):
        assert cluster.placement.read(VERSION, [name], where) == found
        assert cluster.questions == number


def test_a_read_is_repeated_on_the_node_to_which_the_shard_has_moved(cluster: Cluster) -> None:
    cluster.placement.read(VERSION, ["LOW:A"], where)
    cluster.at[LOW] = THERE
    assert cluster.placement.read(VERSION, ["LOW:A"], where) == (THERE, LOW)
    assert cluster.asked == [HERE, HERE, THERE]


def test_an_old_copy_that_lacks_the_symbol_makes_no_error(cluster: Cluster) -> None:
    cluster.placement.read(VERSION, ["LOW:A"], where)
    cluster.at[LOW] = THERE

    def read(connection: Any, version: Version) -> str:
        if connection == HERE:
            raise NotFound("there is no symbol LOW:A")
        return "found"

    assert cluster.placement.read(VERSION, ["LOW:A"], read) == "found"


def test_work_that_checks_the_shard_itself_is_repeated_and_not_checked_again(cluster: Cluster) -> None:
    cluster.placement.read(VERSION, ["LOW:A"], where)
    cluster.at[LOW] = THERE
    cluster.questions = 0

    def read(connection: Any, version: Version) -> Any:
        if connection == HERE:
            raise Moved()
        return connection

    assert cluster.placement.read(VERSION, ["LOW:A"], read, checks=True) == THERE
    assert cluster.questions == 0


def test_a_symbol_that_does_not_exist_is_an_error_at_once(cluster: Cluster) -> None:
    def read(connection: Any, version: Version) -> str:
        raise NotFound("there is no symbol LOW:A")

    with pytest.raises(NotFound):
        cluster.placement.read(VERSION, ["LOW:A"], read)
    assert cluster.asked == [HERE]


def failing_first(errors: list[MarketError], then: Callable[[], None] = lambda: None) -> Callable[[Any, Version], Any]:
    def write(connection: Any, version: Version) -> Any:
        if errors:
            then()
            raise errors.pop()
        return connection

    return write


@pytest.mark.parametrize("kind", [Contended, VersionMissing, DatabaseUnavailable])
def test_a_write_is_repeated_where_the_shard_is_now(cluster: Cluster, kind: type[MarketError]) -> None:
    write = failing_first([kind("moved")], lambda: cluster.at.update({LOW: THERE}))
    assert cluster.placement.write(VERSION, ["LOW:A"], write) == THERE


@pytest.mark.parametrize("kind", [VersionMissing, DatabaseUnavailable])
def test_the_error_of_a_node_that_still_holds_the_shard_is_raised(cluster: Cluster, kind: type[MarketError]) -> None:
    with pytest.raises(kind, match="down"):
        cluster.placement.write(VERSION, ["LOW:A"], failing_first([kind("down")]))


def test_contention_is_repeated_for_a_limited_time(cluster: Cluster) -> None:
    assert cluster.placement.write(VERSION, ["LOW:A"], failing_first([Contended("busy")] * 3)) == HERE
    with pytest.raises(Contended):
        cluster.placement.write(VERSION, ["LOW:A"], failing_first([Contended("busy")] * 1000))


def test_names_are_grouped_by_shard_and_read_there(cluster: Cluster) -> None:
    names = ["HIGH:A", "LOW:A", "LOW:B", "HIGH:0"]
    assert sorted(cluster.placement.grouped(VERSION, names)) == [["HIGH:A", "HIGH:0"], ["LOW:A", "LOW:B"]]
    found = cluster.placement.read_each(VERSION, names, lambda connection, shard, own: (connection, list(own)))
    assert sorted(found) == [(HERE, ["LOW:A", "LOW:B"]), (THERE, ["HIGH:A", "HIGH:0"])]


def test_the_first_error_of_several_shards_is_raised_after_all_have_ended(cluster: Cluster) -> None:
    ended = []

    def read(connection: Any, shard: Version, _names: object) -> None:
        if shard == LOW:
            raise DatabaseUnavailable("down")
        ended.append(shard)

    with pytest.raises(DatabaseUnavailable):
        cluster.placement.read_each(VERSION, None, read)
    assert ended == [HIGH]


def test_a_limited_number_of_writers_use_a_node_at_the_same_time(cluster: Cluster) -> None:
    """Otherwise the writers of many shards would wait in vain for the few connections to their node."""
    may_end = Event()
    begun: list[None] = []

    def write(connection: Any, version: Version) -> None:
        begun.append(None)
        assert may_end.wait(30)

    count = 2 * placement.WRITERS
    writers = [Thread(target=cluster.placement.write, args=(VERSION, ["LOW:A"], write)) for _ in range(count)]
    for each in writers:
        each.start()
    until(lambda: len(begun) == placement.WRITERS)
    assert cluster.placement.write(VERSION, ["HIGH:A"], where) == (THERE, HIGH)
    assert cluster.asked.count(HERE) == placement.WRITERS, "the others take no connection"
    may_end.set()
    for each in writers:
        each.join(30)
    assert len(begun) == count


def test_a_table_that_is_dropped_during_a_read_has_moved(cluster: Cluster) -> None:
    read = failing_first([DatabaseDefect("could not open relation")], lambda: cluster.at.update({LOW: THERE}))
    assert cluster.placement.read(VERSION, ["LOW:A"], read) == THERE
    with pytest.raises(DatabaseDefect):
        cluster.placement.read(VERSION, ["LOW:A"], failing_first([DatabaseDefect("could not open relation")]))


def test_the_connections_to_a_node_without_shards_are_closed(cluster: Cluster) -> None:
    other = replace(VERSION, n=2)
    for version in (VERSION, other):
        cluster.placement.read_each(version, None, lambda *_: None)
    assert cluster.placement.pools().keys() == {HERE, THERE}
    cluster.at[LOW] = THERE
    cluster.placement.read(VERSION, ["LOW:A"], where)
    assert cluster.placement.pools().keys() == {HERE, THERE}, "the other version was read there, too"
    cluster.placement.read(other, ["LOW:A"], where)
    assert cluster.placement.pools().keys() == {THERE}
    until(lambda: cluster.closed == [HERE])


def test_a_refresh_follows_moves_and_forgets_the_versions_that_are_not_served(cluster: Cluster) -> None:
    other = replace(VERSION, n=2)
    for version in (VERSION, other):
        cluster.placement.read_each(version, None, lambda *_: None)
    cluster.at[LOW] = THERE
    assert [each.node for each in cluster.placement.refresh(VERSION)] == [THERE, THERE]
    assert cluster.placement.pools().keys() == {THERE}, "only the other version was read elsewhere"
    assert cluster.placement.read(VERSION, ["LOW:A"], where) == (THERE, LOW)
    assert cluster.asked[-1:] == [THERE]
