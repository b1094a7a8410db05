"""Coalesced requests get values as fresh as if each had made its own query."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from marketdata.api.symbol_versions import RequestCoalescing


class Clock:
    """Answers each name with the number of the round. The first round lasts until ``let_go`` is set."""

    def __init__(self) -> None:
        self.rounds: list[set[str]] = []
        self.begun, self.let_go = threading.Event(), threading.Event()

    def ask(self, names: Collection[str]) -> dict[str, int]:
        self.rounds.append(set(names))
        if len(self.rounds) == 1:
            self.begun.set()
            assert self.let_go.wait(10)
        return {name: len(self.rounds) for name in names if name != "unknown"}


def test_callers_during_a_round_are_answered_by_the_next_one() -> None:
    clock = Clock()
    coalescing = RequestCoalescing(clock.ask)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(coalescing.get, "a")
        assert clock.begun.wait(10)
        # "a" is asked for again, because the answer of the running round may be older than this request.
        later = [pool.submit(coalescing.get, name) for name in ["a", "b", "a", "unknown", "c", "b", "a", "c"]]
        while coalescing.waiting < len(later):
            threading.Event().wait(0.001)
        clock.let_go.set()
        assert first.result(10) == 1
        assert [each.result(10) for each in later] == [2, 2, 2, None, 2, 2, 2, 2]
    assert clock.rounds == [{"a"}, {"a", "b", "c", "unknown"}]


def test_answers_are_never_older_than_their_questions() -> None:
    written = 0

    def ask(names: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(names, written)

    coalescing = RequestCoalescing(ask)

    def look() -> bool:
        before = written
        found = coalescing.get("a")
        return found is not None and found >= before

    with ThreadPoolExecutor(6) as pool:
        looks = [pool.submit(look) for _ in range(400)]
        while not all(each.done() for each in looks):
            written += 1
        assert all(each.result() for each in looks)
