"""Group commit: which requests share a transaction, and which are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from marketdata.api.group_commit import GroupCommit
from marketdata.errors import DatabaseUnavailable, Saturated
from tests.marketdata.api.conftest import eventually


class Store:
    """Records the stored groups. Each transaction ends only when ``let`` is called."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self._let = threading.Semaphore(0)

    def __call__(self, requests: Sequence[Sequence[int]]) -> list[list[int]]:
        self.groups.append([item for items in requests for item in items])
        self._let.acquire()
        return [[-item for item in items] for items in requests]

    def let(self, count: int = 1) -> None:
        self._let.release(count)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def combining(store: Store) -> Iterator[GroupCommit[int, list[int]]]:
    combining = GroupCommit(store, capacity=20, largest=10)
    combining.start()
    yield combining
    store.let(100)
    combining.stop()


class Clients:
    """Each submits its numbers, one after another."""

    def __init__(self, combining: GroupCommit[int, list[int]], numbers: Sequence[Sequence[int]]) -> None:
        self.outcomes: list[int] = []
        self._combining = combining
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in numbers]
        for thread in self._threads:
            thread.start()

    def _run(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.outcomes += self._combining.submit([number])

    def join(self) -> list[int]:
        for thread in self._threads:
            thread.join(30)
        return sorted(self.outcomes)


def test_requests_during_a_transaction_share_the_next_one(combining: GroupCommit[int, list[int]], store: Store) -> None:
    first = Clients(combining, [[1]])
    eventually(lambda: store.groups == [[1]])
    others = Clients(combining, [[2], [3], [4]])
    eventually(lambda: combining.depth == 3)
    store.let(2)
    assert (first.join(), others.join()) == ([-1], [-4, -3, -2])
    assert [sorted(group) for group in store.groups] == [[1], [2, 3, 4]]


def test_a_transaction_has_at_most_its_maximum_of_items(combining: GroupCommit[int, list[int]], store: Store) -> None:
    first = Clients(combining, [[1]])
    eventually(lambda: store.groups == [[1]])
    others = Clients(combining, [[n] for n in range(2, 20)])
    eventually(lambda: combining.depth == 18)
    store.let(3)
    assert (first.join(), others.join()) == ([-1], [-n for n in range(19, 1, -1)])
    assert [len(group) for group in store.groups] == [1, 10, 8]


def test_a_full_queue_refuses_and_queued_items_are_stored_at_the_stop(store: Store) -> None:
    combining = GroupCommit(store, capacity=3, largest=10)
    combining.start()
    first = Clients(combining, [[1]])
    eventually(lambda: store.groups == [[1]])
    others = Clients(combining, [[2], [3], [4]])
    eventually(lambda: combining.depth == 3)
    with pytest.raises(Saturated):
        combining.submit([5])
    store.let(2)
    combining.stop()
    assert (first.join(), others.join()) == ([-1], [-4, -3, -2])
    with pytest.raises(DatabaseUnavailable):
        combining.submit([6])
