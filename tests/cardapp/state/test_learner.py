"""The learner's events are found by their kind and position, however long the record is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cardapp.card.answers import ANSWER, HINT, JUDGED, PREDICTION, PROVED, SELF
from cardapp.card.model import Expectation, Snapshot, Stop
from cardapp.state import events, learner
from cardapp.state.database import Connection, Database
from tests.cardapp.state.conftest import AT, CARD

Add = Callable[..., dict[str, Any]]
STEP, STOP, OTHER = "t1/b1/p1/s1", "t1/b1/p1/s1/one", "t1/b1/p1/s1/two"
SNAPSHOT = Snapshot("one", "One", Stop("a.c", 1, "x", None, 1), (Expectation("n", "1"),), (), ask=("n",))


def predicted(add: Add, said: str, key: str = STOP, **members: Any) -> int:
    seq: int = add(kind=PREDICTION, key=key, data={"values": {"n": said}}, **members)["seq"]
    return seq


def judged(db: Database, key: str = STOP, seen: str | None = "1") -> list[dict[str, Any]]:
    """Judge the predictions at ``key``. Returns the data of all judgements of the record."""
    with db.write() as tx:
        learner.judge(tx, key, SNAPSHOT, {"n": {"value": seen, "error": None}}, actor="ada", card=CARD, at=AT)
        return [event["data"] for event in events.page(tx, kind=JUDGED)]


def test_each_prediction_of_the_stop_is_judged_once(db: Database, add: Add) -> None:
    first, second = predicted(add, "1"), predicted(add, "2")
    predicted(add, "3", OTHER)
    predicted(add, "4", card=replace(CARD, id="other"))
    assert [(each["prediction"], each["right"]["n"]) for each in judged(db)] == [(first, True), (second, False)]
    third = predicted(add, "1")
    assert [each["prediction"] for each in judged(db)] == [first, second, third]


def test_only_the_first_proof_of_a_stop_is_an_entry_and_all_are_in_order(db: Database, add: Add) -> None:
    add(kind=PROVED, key=STOP, data={"observed": {}})
    predicted(add, "1")
    add(kind=PROVED, key=STOP, data={"observed": {}})
    add(kind=PROVED, key=OTHER, data={"observed": {}})
    add(kind=ANSWER, key=STEP, data={"text": "one"})
    add(kind=ANSWER, key=STEP, data={"text": "one"}, card=replace(CARD, id="other"))
    with db.read() as conn:
        found = learner.entries(conn, CARD.id)
        here = learner.entries_at(conn, CARD.id, (STOP, STEP))
    assert [(entry.seq, entry.kind) for entry in found] == [(1, PROVED), (2, PREDICTION), (4, PROVED), (5, ANSWER)]
    assert found[0].data == {}
    assert here == [entry for entry in found if entry.key != OTHER]


def test_an_event_without_the_data_of_its_kind_is_ignored(db: Database, add: Add) -> None:
    for kind in (PREDICTION, SELF, HINT):
        for data in ({}, {"values": [], "self": 1, "hint": "1"}):
            add(kind=kind, key=STOP, data=data)
    with db.read() as conn:
        assert learner.entries(conn, CARD.id) == learner.entries_at(conn, CARD.id, (STOP,)) == []
    assert judged(db) == []


def work(db: Database, query: Callable[[Connection], object]) -> int:
    """The number of instructions of SQLite's virtual machine for a query."""
    done = 0

    def count() -> int:
        nonlocal done
        done += 1
        return 0

    with db.read() as conn:
        query(conn)  # the first use of a connection also reads the schema
        conn.set_progress_handler(count, 1)
        query(conn)
        conn.set_progress_handler(None, 1)
    return done


@pytest.mark.parametrize(
    ("query", "others"),
    [
        (lambda conn: learner.entries(conn, CARD.id), ("note", "navigation.moved")),
        (lambda conn: events.page(conn, kind=PREDICTION), ("note", PROVED)),
        (lambda conn: events.page(conn, key=STOP, limit=1), ("note", PROVED)),
        (lambda conn: events.latest(conn, limit=9, kind=PREDICTION, card_id=CARD.id), ("note", PROVED)),
        (lambda conn: learner.entries_at(conn, CARD.id, (STOP, STEP)), ("note", PREDICTION, ANSWER, PROVED, HINT)),
    ],
)
def test_the_work_does_not_grow_with_other_events(
    db: Database, add: Add, query: Callable[[Connection], object], others: tuple[str, ...]
) -> None:
    predicted(add, "1")
    add(kind=PROVED, key=STOP)

    def go_on(count: int) -> None:
        for number in range(count):
            for kind in others:
                add(kind=kind, key=f"{OTHER}{number}")

    go_on(1)
    few = work(db, query)
    go_on(60)
    assert work(db, query) == few > 0
