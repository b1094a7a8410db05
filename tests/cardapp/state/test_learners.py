"""Several learners in one state directory: each has a separate record and a separate chain of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cardapp.card.model import Identity
from cardapp.card.navigation import Position
from cardapp.card.progress import LastResult
from cardapp.errors import Conflict, InvalidValue, LearnerExists, NotFound
from cardapp.state import card_state, checkpoint_results, events, learners
from cardapp.state.database import Database
from cardapp.state.evidence import Stored

Add = Callable[..., dict[str, Any]]
AT = "2025-03-01T10:00:00.000Z"
CARD = Identity("arena", "u-1", "1.0.0", "ab" * 32)


def create(db: Database, name: str) -> None:
    with db.write() as tx:
        learners.create(tx, name, actor="api", card=CARD, at=AT)


def choose(db: Database, name: str) -> None:
    with db.write() as tx:
        learners.choose(tx, name, actor="api", card=CARD, at=AT)


def overview(db: Database) -> dict[str, Any]:
    with db.read() as conn:
        return learners.overview(conn)


def test_a_new_learner_begins_with_an_empty_record_and_the_old_one_stays(db: Database, add: Add) -> None:
    result = LastResult("ready", AT, "t1/b1/p1/s1/one", None)
    with db.write() as tx:
        card_state.save_position(tx, "u-1", Position(task_id="t1", focus_level="task"), AT)
        card_state.save_viewer(tx, "u-1", {"scale": 2}, AT)
        card_state.set_status(tx, "u-1", "t1.b1.p1.s1", "approved", "mine", "me", AT)
        checkpoint_results.save_result(tx, "u-1", "t1/b1/p1/s1", result)
    add(key="old")

    def read() -> tuple[Any, ...]:
        with db.read() as conn:
            return (
                card_state.load_position(conn, "u-1").revision,
                card_state.load_viewer(conn, "u-1")[0],
                card_state.load_statuses(conn, "u-1"),
                checkpoint_results.load_results(conn, "u-1"),
                [event["key"] for event in events.stream(conn) if event["kind"] == "note"],
            )

    before = read()
    create(db, "Ada")
    assert read() == (0, None, {}, {}, [])
    add(key="new")
    choose(db, "unnamed")
    assert read() == before
    choose(db, "Ada")
    assert read()[-1] == ["new"]


def test_each_learner_has_an_own_chain(db: Database, add: Add) -> None:
    first = add()
    create(db, "Ada")
    with db.read() as conn:
        (named,) = events.stream(conn)
        assert (named["kind"], named["data"]) == ("learner.named", {"name": "Ada"})
        assert named["hash"] == events.event_hash(events.GENESIS, events.covered(named))
        assert (events.head(conn).seq, events.count(conn)) == (2, 1)
    choose(db, "unnamed")
    second = add()
    with db.read() as conn:
        mine = list(events.stream(conn))
    assert [event["seq"] for event in mine] == [first["seq"], 3, second["seq"]]
    assert mine[1]["hash"] == events.event_hash(first["hash"], events.covered(mine[1]))
    assert events.verify_file(db.path) == events.Verification(4, second["hash"], None, None)


def test_an_event_moved_to_another_learner_breaks_the_chain(db: Database, add: Add) -> None:
    create(db, "Ada")
    add()
    create(db, "Bob")
    with db.write() as tx:
        tx.execute("DROP TRIGGER event_unchanged")
        tx.execute("UPDATE event SET learner = 3 WHERE seq = 2")
    assert events.verify_file(db.path).broken_seq == 2


def test_an_image_is_pinned_only_to_an_event_of_the_learner(db: Database, add: Add) -> None:
    foreign = add()["seq"]
    create(db, "Ada")
    stored = Stored("0" * 64 + ".png", "image/png", 1, 1, 1)
    with pytest.raises(InvalidValue, match=f"no event {foreign}"), db.write() as tx:
        events.pin(tx, stored, event_seq=foreign, caption="", actor="a", key="", card=CARD, at=AT)


def test_a_name_is_used_once(db: Database) -> None:
    create(db, "Ada Lovelace")
    for taken in ("Ada Lovelace", "  ada   LOVELACE ", "unnamed"):
        with pytest.raises(LearnerExists):
            create(db, taken)
    assert [each["name"] for each in overview(db)["learners"]] == ["unnamed", "Ada Lovelace"]


def test_a_composed_and_a_decomposed_name_are_the_same(db: Database) -> None:
    create(db, "Zoe\u0308")
    with pytest.raises(LearnerExists):
        create(db, "Zo\u00eb")
    choose(db, "zo\u00eb")
    assert overview(db)["current"] == "Zo\u00eb"


def test_an_unusable_name_is_refused(db: Database) -> None:
    for name in ("", "   ", "a\nb", "a\tb", "a\u202eb", "a\u2028b", "x" * 81):
        with pytest.raises(InvalidValue) as refused:
            create(db, name)
        assert refused.value.errors[0].pointer == "/name", name
    assert len(overview(db)["learners"]) == 1
    create(db, "x" * 80)


def test_the_unnamed_record_gets_a_name_once(db: Database, add: Add) -> None:
    (only,) = overview(db)["learners"]
    assert (only["name"], only["named"], only["current"], only["last_at"]) == ("unnamed", False, True, None)
    add()
    with db.write() as tx:
        learners.name_record(tx, "Ada", actor="api", card=CARD, at=AT)
    found = overview(db)
    assert [(each["name"], each["named"]) for each in found["learners"]] == [("Ada", True)]
    with db.read() as conn:
        assert [event["kind"] for event in events.stream(conn)] == ["note", "learner.named"]
    with pytest.raises(Conflict) as refused, db.write() as tx:
        learners.name_record(tx, "Bob", actor="api", card=CARD, at=AT)
    assert refused.value.code == "learner_named"
    create(db, "unnamed")
    assert overview(db)["current"] == "unnamed"


def test_an_unknown_learner_cannot_be_chosen(db: Database) -> None:
    create(db, "Ada")
    with pytest.raises(NotFound, match="known: unnamed, Ada"):
        choose(db, "Adda")
    assert overview(db)["current"] == "Ada"


def test_choosing_the_current_learner_changes_nothing(db: Database) -> None:
    create(db, "Ada")
    before = overview(db)
    choose(db, "Ada")
    assert overview(db) == before
