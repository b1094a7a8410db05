"""Group commit for each shard: which requests share a transaction, and which wait for which."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from marketdata.api.group_commit import MAX_SHARED_ITEMS
from marketdata.api.shard_commits import ShardCommits
from marketdata.errors import DatabaseUnavailable, PartlyStored
from marketdata.http.listener import WORKERS
from marketdata.store import ticks
from marketdata.store.placement import Divided, Placement
from marketdata.store.shard_ingest import ShardIngest
from marketdata.store.ticks import Ingested, Outcome
from marketdata.store.version import Version
from marketdata.tick import Tick
from tests.marketdata.api.conftest import eventually
from tests.marketdata.store.conftest import START, tick

VERSION = replace(Version.of("md", 1), shards=2)


class Shards:
    """A placement in which the shard of a symbol is its number: ``S:1`` is in shard 1."""

    def __init__(self) -> None:
        self.transactions: list[list[str]] = []
        self.noted: list[dict[str, int]] = []
        """The counters of each transaction."""
        self.open = {1: threading.Event(), 2: threading.Event()}
        self.moved: dict[str, int] = {}
        """Symbols that have another shard than their number."""
        self.down = 0
        """The shard whose node does not answer."""

    def number(self, _version: Version, name: str) -> int:
        return self.moved.get(name) or int(name.partition(":")[2])

    def grouped(self, version: Version, names: Sequence[str]) -> list[list[str]]:
        found: dict[int, list[str]] = {}
        for name in names:
            found.setdefault(self.number(version, name), []).append(name)
        return list(found.values())

    def begin(self, work: Callable[[], Any]) -> Callable[[], Any]:
        return work

    def note(self, _version: Version, counters: Mapping[str, int]) -> None:
        self.noted.append(dict(counters))

    def write(self, version: Version, names: Sequence[str], work: Callable[[Any, Version], Any]) -> Any:
        (shard, *others) = {self.number(version, name) for name in names}
        if others:
            raise Divided("they are in several shards")
        if shard == self.down:
            raise DatabaseUnavailable("down")
        assert self.open[shard].wait(30)
        return work(None, version)


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shards]:
    made = Shards()

    def stored(_connection: object, _version: Version, items: Sequence[Tick]) -> Ingested:
        made.transactions.append([each.id for each in items])
        return Ingested([Outcome.CREATED] * len(items), dict.fromkeys([each.symbol for each in items], 1))

    monkeypatch.setattr(ticks, "ingest", stored)
    yield made
    for each in made.open.values():
        each.set()


@pytest.fixture
def commits(shards: Shards) -> Iterator[ShardCommits]:
    made = ShardCommits(cast(Placement, shards), shards.note)
    yield made
    for each in shards.open.values():
        each.set()
    made.stop()


def ticks_of(*names: str) -> list[Tick]:
    """A tick for each name, like ``1a``: its symbol is ``S:1``."""
    return [tick(f"S:{name[0]}", name, START) for name in names]


def test_a_shard_that_waits_holds_up_no_other_one(shards: Shards, commits: ShardCommits) -> None:
    waiting = commits.begin(VERSION, ticks_of("1a"))
    shards.open[2].set()
    assert commits.begin(VERSION, ticks_of("2a"))().outcomes == [Outcome.CREATED]
    shards.open[1].set()
    assert waiting().outcomes == [Outcome.CREATED]
    assert shards.transactions == [["2a"], ["1a"]]


def test_requests_for_a_shard_share_a_transaction(shards: Shards, commits: ShardCommits) -> None:
    first = commits.begin(VERSION, ticks_of("1a"))
    eventually(lambda: commits.depth == 0)
    others = [commits.begin(VERSION, ticks_of("1b", "1c")), commits.begin(VERSION, ticks_of("1d"))]
    assert commits.depth == 3
    shards.open[1].set()
    assert [len(each().outcomes) for each in (first, *others)] == [1, 2, 1]
    assert shards.transactions == [["1a"], ["1b", "1c", "1d"]]


@pytest.mark.parametrize("count", [1, MAX_SHARED_ITEMS + 1])
def test_the_counters_are_noted_although_another_part_of_the_request_fails(
    shards: Shards, commits: ShardCommits, count: int
) -> None:
    """A later read by this process must see what is stored, also after ``partly_stored``."""
    shards.down = 2
    for each in shards.open.values():
        each.set()
    ingest = ShardIngest(cast(Placement, shards), cast(Any, None), commits.begin)
    with pytest.raises(PartlyStored):
        ingest.ingest(VERSION, [*ticks_of(*(f"1{n}" for n in range(count))), *ticks_of("2a")])
    assert shards.noted == [{"S:1": 1}]


def test_items_that_belong_to_another_shard_meanwhile_are_stored_there(shards: Shards, commits: ShardCommits) -> None:
    ingest = ShardIngest(cast(Placement, shards), cast(Any, None), commits.begin)
    held = commits.begin(VERSION, ticks_of("1a"))
    eventually(lambda: commits.depth == 0)
    found: list[Ingested] = []
    items = [tick("S:1", "stays", START), tick("X:1", "moves", START)]
    sender = threading.Thread(target=lambda: found.append(ingest.ingest(VERSION, items)))
    sender.start()
    eventually(lambda: commits.depth == 2)
    shards.moved["X:1"] = 2
    for each in shards.open.values():
        each.set()
    sender.join(30)
    held()
    assert found[0].outcomes == [Outcome.CREATED] * 2
    assert sorted(shards.transactions) == [["1a"], ["moves"], ["stays"]]


def test_no_part_of_a_request_is_refused_because_others_wait_for_its_shard(
    shards: Shards, commits: ShardCommits
) -> None:
    """Each worker may have a part of a request in the queue of a shard. The parts of other shards may be stored by
    then, so a full queue would leave the request partly stored."""
    part = ticks_of("1a") * MAX_SHARED_ITEMS
    waits = [commits.begin(VERSION, part) for _ in range(WORKERS)]
    shards.open[1].set()
    assert sum(len(wait().outcomes) for wait in waits) == WORKERS * MAX_SHARED_ITEMS


def test_the_stop_stores_what_is_queued_and_refuses_the_rest(shards: Shards, commits: ShardCommits) -> None:
    waits = [commits.begin(VERSION, ticks_of(name)) for name in ("1a", "2a")]
    for each in shards.open.values():
        each.set()
    commits.stop()
    assert [wait().outcomes for wait in waits] == [[Outcome.CREATED]] * 2
    for version in (VERSION, replace(VERSION, n=2)):
        with pytest.raises(DatabaseUnavailable, match="stopping"):
            commits.begin(version, ticks_of("1b"))
