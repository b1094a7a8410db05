from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from cardapp.errors import InvalidValue
from cardapp.state import event_kinds, events
from cardapp.state.database import Database
from cardapp.state.hash_chain import GENESIS

Add = Callable[..., dict[str, Any]]
CARD = {"id": "arena", "version": "1.0.0", "source_sha256": "ab" * 32}


def test_an_event_has_the_members_of_the_contract(add: Add) -> None:
    event = add(kind="progress.changed", actor="zoë", key="t1/b1", data={"status": "approved"})
    assert list(event) == ["seq", "at", "kind", "actor", "key", "card", "data", "evidence", "hash"]
    assert event["card"] == CARD
    assert (event["seq"], event["key"], event["actor"], event["evidence"]) == (1, "t1/b1", "zoë", [])


def test_the_hash_is_the_documented_one(add: Add) -> None:
    first, second = add(data={"z": 1, "a": "é"}), add()
    text = (
        '{"actor":"api","at":"2025-03-01T10:00:00.000Z","card":{"id":"arena","source_sha256":"'
        + "ab" * 32
        + '","version":"1.0.0"},"data":{"a":"é","z":1},"key":"t1","kind":"note","previous":"'
        + "0" * 64
        + '","seq":1}'
    )
    assert first["hash"] == hashlib.sha256(text.encode("utf-8")).hexdigest()
    members = {name: second[name] for name in ("seq", "at", "kind", "actor", "key", "card", "data")}
    again = json.dumps(members | {"previous": first["hash"]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert second["hash"] == hashlib.sha256(again.encode()).hexdigest()


def test_a_clients_text_lives_in_its_data(add: Add) -> None:
    assert add(text="Found it", data={"minutes": 3})["data"] == {"text": "Found it", "minutes": 3}
    assert add(data={"text": "alone"})["data"] == {"text": "alone"}
    with pytest.raises(InvalidValue) as refused:
        add(text="Found it", data={"text": "twice"})
    assert refused.value.errors[0].pointer == "/data/text"


def test_what_json_cannot_hold_is_refused(add: Add) -> None:
    with pytest.raises(InvalidValue, match="surrogate"):
        add(data={"a": "\udc00"})
    with pytest.raises(ValueError, match="Out of range float"):
        add(data={"a": float("nan")})
    assert add()["seq"] == 1


def test_a_write_that_fails_leaves_no_gap(db: Database, add: Add) -> None:
    add()

    def fail() -> None:
        with db.write() as conn:
            events.append(conn, kind="note", actor="a", key="", card=CARD, data={}, at="x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert add()["seq"] == 2


def test_paging_visits_every_event_once(db: Database, add: Add) -> None:
    added = [add(data={"n": number}) for number in range(7)]
    with db.read() as conn:
        seen, after = [], 0
        while page := events.page(conn, after=after, limit=3):
            assert len(page) <= 3
            seen += page
            after = page[-1]["seq"]
        assert seen == added == list(events.stream(conn))
        assert events.head(conn).seq == 7
        assert events.head(conn) == (7, added[6]["hash"])
        assert events.page(conn, after=7) == []


def test_large_events_end_a_page(db: Database, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_PAGE_BYTES", 1000)
    added = [add(data={"text": "é" * size}) for size in (200, 2000, 200, 200, 200, 200)]
    with db.read() as conn:
        assert [len(events.page(conn, after=after)) for after in range(7)] == [2, 1, 3, 3, 2, 1, 0]
        assert events.page(conn, limit=1) == added[:1]
        assert list(events.stream(conn)) == added


def test_an_empty_record(db: Database) -> None:
    with db.read() as conn:
        assert events.head(conn).seq == 0
        assert events.head(conn) == (0, GENESIS)
        assert events.page(conn) == []
        assert list(events.stream(conn)) == []


def test_paging_by_kind_and_key(db: Database, add: Add) -> None:
    for kind, key in [("note", "t1"), ("x-quiz", "t1"), ("note", "t1/b1"), ("note", "t1")]:
        add(kind=kind, key=key)
    with db.read() as conn:
        assert [event["seq"] for event in events.page(conn, kind="note")] == [1, 3, 4]
        assert [event["seq"] for event in events.page(conn, key="t1")] == [1, 2, 4]
        assert [event["seq"] for event in events.page(conn, kind="note", key="t1", after=1)] == [4]
        assert events.page(conn, key="t") == []


def test_the_latest_of_a_kind_and_a_card(db: Database, add: Add) -> None:
    added = [add(kind=kind) for kind in ("note", "x-quiz", "note", "note")]
    for _ in range(3):
        add(card=CARD | {"id": "calc"})
    with db.read() as conn:
        assert events.latest(conn, limit=2, kind="note", card_id="arena") == added[2:]
        assert events.latest(conn, limit=9, kind="x-quiz", card_id="arena") == [added[1]]
        assert events.latest(conn, limit=9, kind="x-quiz", card_id="calc") == []
        assert events.latest(conn, limit=9, kind="sync.off", card_id="arena") == []


def test_a_stream_is_longer_than_its_chunks(db: Database, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_CHUNK", 2)
    added = [add() for _ in range(5)]
    with db.read() as conn:
        assert list(events.stream(conn)) == added


def test_a_stream_of_one_card(db: Database, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_CHUNK", 2)
    added = [add(card=CARD | {"id": name}) for name in ("arena", "calc", "calc", "are", "arena", "calc", "arena")]
    with db.read() as conn:
        assert list(events.stream(conn, "arena")) == [added[0], added[4], added[6]]
        assert list(events.stream(conn, 'arena" OR 1')) == []


Reading = Callable[[sqlite3.Connection], Any]


@pytest.mark.parametrize(
    ("read", "equal"),
    [
        (lambda conn: events.page(conn, after=5), []),
        (lambda conn: events.page(conn, after=5, kind="note"), ["kind"]),
        (lambda conn: events.page(conn, after=5, key="t1"), ["key"]),
        (lambda conn: events.page(conn, after=5, kind="note", key="t1"), ["kind", "key"]),
        (lambda conn: list(events.stream(conn, "arena")), ["card_id"]),
    ],
)
def test_a_page_is_found_by_an_index(db: Database, read: Reading, equal: list[str]) -> None:
    """A million entries must not be walked for the next two hundred."""
    (step,) = plan(db, read)
    assert step.startswith("SEARCH event USING")
    assert step.endswith(f"({' AND '.join([*(f'{column}=?' for column in equal), 'seq>?'])})")


def test_the_latest_are_found_by_an_index(db: Database) -> None:
    (step,) = plan(db, lambda conn: events.latest(conn, limit=10, kind="note", card_id="arena"))
    assert step == "SEARCH event USING INDEX event_by_card_and_kind (card_id=? AND kind=?)"


def plan(db: Database, read: Reading) -> list[str]:
    """How SQLite goes about the first statement of ``read``; a second step would sort what the first one found."""
    statements: list[str] = []
    with db.read() as conn:
        conn.set_trace_callback(statements.append)
        read(conn)
        conn.set_trace_callback(None)
        steps = conn.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    return [step["detail"].replace("rowid", "seq") for step in steps]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET actor = 'somebody else'",
        "DELETE FROM event WHERE seq = 2",
        "DELETE FROM event",
        "INSERT OR REPLACE INTO event SELECT seq, at, kind, 'me', key, card, data, hash FROM event WHERE seq = 1",
        "INSERT INTO event SELECT 9, at, kind, actor, key, card, data, hash FROM event WHERE seq = 1",
    ],
)
def test_the_database_itself_refuses_to_change_the_record(db: Database, add: Add, statement: str) -> None:
    before = [add(), add()]
    with pytest.raises(sqlite3.IntegrityError, match="events are"), db.write() as conn:
        conn.execute(statement)
    with db.read() as conn:
        assert events.page(conn) == before


def test_the_backends_kinds_are_those_of_the_contract() -> None:
    groups = {
        "navigation": {"set", "moved", "synced"},
        "checkpoint": {"ready", "rejected", "failed", "cancelled", "timeout"},
        "sync": {"off"},
        "editor": {"reset", "redraw"},
        "viewer": {"changed"},
        "progress": {"changed"},
        "evidence": {"added"},
        "strategy": {"added", "removed"},
        "annotation": {"added", "removed", "shown", "hidden"},
    }
    assert {f"{group}.{name}" for group, names in groups.items() for name in names} == event_kinds.BACKEND_KINDS
