from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.card.model import Identity
from cardapp.errors import Conflict, InvalidValue, NotFound
from cardapp.state import events, learners
from cardapp.state.database import Database
from cardapp.state.events import GENESIS
from cardapp.state.migrations import migrate

Add = Callable[..., dict[str, Any]]
AT = "2025-03-01T10:00:00.000Z"
CARD = Identity("arena", "u-1", "1.0.0", "ab" * 32)


def test_an_event_has_the_members_of_the_contract(add: Add) -> None:
    event = add(kind="progress.changed", actor="zoë", key="t1/b1", data={"status": "approved"})
    assert list(event) == ["seq", "at", "kind", "actor", "key", "card", "data", "evidence", "withdrawn", "hash"]
    assert event["card"] == {"id": "arena", "version": "1.0.0", "source_sha256": "ab" * 32}
    assert (event["seq"], event["key"], event["actor"], event["evidence"]) == (1, "t1/b1", "zoë", [])


def test_the_hash_is_computed_as_documented(add: Add) -> None:
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


def test_a_clients_text_is_stored_in_its_data(add: Add) -> None:
    assert add(text="Found it", data={"minutes": 3})["data"] == {"text": "Found it", "minutes": 3}
    assert add(data={"text": "alone"})["data"] == {"text": "alone"}
    with pytest.raises(InvalidValue) as refused:
        add(text="Found it", data={"text": "twice"})
    assert refused.value.errors[0].pointer == "/data/text"


def test_data_that_json_cannot_represent_is_refused(add: Add) -> None:
    with pytest.raises(InvalidValue, match="surrogate"):
        add(data={"a": "\udc00"})
    with pytest.raises(ValueError, match="Out of range float"):
        add(data={"a": float("nan")})
    assert add()["seq"] == 1


def test_paging_visits_every_event_once(db: Database, add: Add) -> None:
    with db.read() as conn:
        assert events.head(conn) == (0, GENESIS)
    added = [add(data={"n": number}) for number in range(7)]
    with db.read() as conn:
        seen, after = [], 0
        while page := events.page(conn, after=after, limit=3):
            assert len(page) <= 3
            seen += page
            after = page[-1]["seq"]
        assert seen == added == list(events.stream(conn))
        assert events.head(conn) == (7, added[6]["hash"])
        assert events.page(conn, after=7) == []


def test_large_events_end_a_page(db: Database, add: Add) -> None:
    added = [add(data={"text": "é" * size}) for size in (200, 2000, 200, 200, 200, 200)]
    with db.read() as conn:
        pages = [events.page(conn, after=after, page_bytes=1000) for after in range(7)]
        assert [len(page) for page in pages] == [2, 1, 3, 3, 2, 1, 0]
        assert events.page(conn, limit=1, page_bytes=1000) == added[:1]


def test_a_page_can_be_limited_to_a_kind_and_a_key(db: Database, add: Add) -> None:
    for kind, key in [("note", "t1"), ("x-quiz", "t1"), ("note", "t1/b1"), ("note", "t1")]:
        add(kind=kind, key=key)
    with db.read() as conn:
        assert [event["seq"] for event in events.page(conn, kind="note")] == [1, 3, 4]
        assert [event["seq"] for event in events.page(conn, key="t1")] == [1, 2, 4]
        assert [event["seq"] for event in events.page(conn, kind="note", key="t1", after=1)] == [4]
        assert events.page(conn, key="t") == []


def test_latest_returns_the_last_events_of_a_kind_and_a_card(db: Database, add: Add) -> None:
    added = [add(kind=kind) for kind in ("note", "x-quiz", "note", "note")]
    for _ in range(3):
        add(card=replace(CARD, id="calc"))
    with db.read() as conn:
        assert events.latest(conn, limit=2, kind="note", card_id="arena") == added[2:]
        assert events.latest(conn, limit=9, kind="x-quiz", card_id="arena") == [added[1]]
        assert events.latest(conn, limit=9, kind="x-quiz", card_id="calc") == []
        assert events.latest(conn, limit=9, kind="sync.off", card_id="arena") == []


def test_a_stream_of_one_card_has_more_events_than_one_chunk(db: Database, add: Add) -> None:
    added = [add(card=replace(CARD, id=name)) for name in ("arena", "calc", "calc", "are", "arena", "calc", "arena")]
    with db.read() as conn:
        assert list(events.stream(conn, chunk_size=2)) == added
        assert list(events.stream(conn, "arena", chunk_size=2)) == [added[0], added[4], added[6]]
        assert list(events.stream(conn, 'arena" OR 1')) == []


def test_the_database_itself_refuses_to_change_the_record(db: Database, add: Add) -> None:
    before = [add(), add()]
    for statement in (
        "UPDATE event SET actor = 'somebody else'",
        "DELETE FROM event WHERE seq = 2",
        "DELETE FROM event",
        "INSERT OR REPLACE INTO event SELECT seq, at, kind, 'me', key, card, data, hash, 1 FROM event WHERE seq = 1",
        "INSERT INTO event SELECT 9, at, kind, actor, key, card, data, hash, 1 FROM event WHERE seq = 1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="events are"), db.write() as conn:
            conn.execute(statement)
    with db.read() as conn:
        assert events.page(conn) == before


# -- verification ------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def memory() -> sqlite3.Connection:
    conn = sqlite3.connect(":memory:", isolation_level=None)
    conn.row_factory = sqlite3.Row
    migrate(conn, path=":memory:")
    return conn


def unlock(conn: sqlite3.Connection) -> None:
    for name in ("event_follows", "event_stays", "event_unchanged"):
        conn.execute(f"DROP TRIGGER {name}")


@given(st.lists(st.tuples(st.text(), st.text(), st.dictionaries(st.text(), JSON, max_size=3)), max_size=6))
def test_all_appended_events_are_read_back_and_verify(entries: list[tuple[str, str, dict[str, Any]]]) -> None:
    conn = memory()
    added = [
        events.append(conn, kind="note", actor=actor, key=key, card=CARD, data=data, at=AT)
        for actor, key, data in entries
    ]
    assert list(events.stream(conn)) == added
    report = events.verify(conn)
    assert report.intact
    assert (report.count, report.head) == (len(added), added[-1]["hash"] if added else GENESIS)
    conn.close()


class Undone(Exception):
    """Rolls a write back."""


def verified_after(db: Database, *changes: str) -> events.Verification:
    """The verification of the record as it would be after ``changes``, which are rolled back."""
    found: list[events.Verification] = []
    with suppress(Undone), db.write() as conn:
        unlock(conn)
        for change in changes:
            conn.execute(change)
        found.append(events.verify(conn))
        raise Undone
    return found[0]


def test_a_changed_event_is_found(db: Database, add: Add) -> None:
    for number in range(5):
        add(data={"n": number})
    for change in (
        "UPDATE event SET at = '2025-03-01T10:00:00.001Z'",
        "UPDATE event SET kind = 'x-other'",
        "UPDATE event SET actor = 'somebody else'",
        "UPDATE event SET key = 't2'",
        "UPDATE event SET card = '{}'",
        "UPDATE event SET data = '{\"n\":42}'",
        "UPDATE event SET data = 'no json'",
        "UPDATE event SET hash = replace(hash, substr(hash, 1, 1), 'g')",
        "DELETE FROM event",
    ):
        for seq in (1, 3, 5):
            report = verified_after(db, f"{change} WHERE seq = {seq}")
            assert (report.broken_seq, report.count) == (seq, seq - 1), change
            assert report.reason
    swapped = (
        "UPDATE event SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3)",
        "UPDATE event SET seq = -seq WHERE seq < 0",
    )
    assert verified_after(db, *swapped).broken_seq == 2
    for kept in (0, 2):
        report = verified_after(db, f"DELETE FROM event WHERE seq > {kept}")
        assert (report.count, report.broken_seq) == (kept, kept + 1)
        assert f"{5 - kept} events" in str(report.reason)
    assert events.verify_file(db.path).intact


def test_a_database_in_use_can_be_verified(db: Database, add: Add) -> None:
    add()
    with db.write() as conn:
        events.append(conn, kind="note", actor="a", key="", card=CARD, data={}, at=AT)
        assert events.verify_file(db.path).count == 1
    assert events.verify_file(db.path) == events.Verification(2, events_head(db.path), None, None)


def events_head(path: Path) -> str:
    conn = sqlite3.connect(path)
    head = conn.execute("SELECT hash FROM event ORDER BY seq DESC LIMIT 1").fetchone()[0]
    conn.close()
    return str(head)


# -- backwards, and withdrawn ------------------------------------------------------------------------------------------


def test_paging_backwards_visits_every_event_once(db: Database, add: Add) -> None:
    added = [add(data={"n": number}) for number in range(7)]
    found: list[dict[str, Any]] = []
    with db.read() as conn:
        before = 1000
        while page := events.page(conn, before=before, limit=3):
            found += page
            before = page[-1]["seq"]
        assert [event["seq"] for event in events.page(conn, after=2, before=6)] == [5, 4, 3]
        assert events.page(conn, actor="ada") == []
    assert found == added[::-1]


def withdraw(db: Database, seq: int) -> dict[str, Any]:
    with db.write() as tx:
        return events.withdraw(tx, seq, reason="a slip", actor="me", card=CARD, at=AT)


def test_a_withdrawn_note_stays_and_is_marked(db: Database, add: Add) -> None:
    kept, note = add(), add(key="t2")
    event = withdraw(db, note["seq"])
    assert (event["kind"], event["key"]) == ("event.withdrawn", "t2")
    assert event["data"] == {"event_seq": 2, "reason": "a slip"}
    with db.read() as conn:
        assert list(events.stream(conn)) == [kept, {**note, "withdrawn": True}, event]
        assert events.latest(conn, limit=10, kind="note", card_id="arena") == [kept]
        assert events.latest(conn, limit=1, kind="note", card_id="arena") == [kept]
    assert events.verify_file(db.path).intact
    with pytest.raises(Conflict) as refused:
        withdraw(db, note["seq"])
    assert refused.value.code == "already_withdrawn"


def test_only_notes_and_images_are_withdrawn(db: Database, add: Add) -> None:
    for kind in ("x-prediction", "prediction.judged", "checkpoint.ready", "event.withdrawn", "x-a"):
        seq = add(kind=kind, data={"event_seq": 9})["seq"]
        with pytest.raises(Conflict) as refused:
            withdraw(db, seq)
        assert refused.value.code == "not_withdrawable", kind


def test_another_learners_note_cannot_be_withdrawn(db: Database, add: Add) -> None:
    seq = add()["seq"]
    with db.write() as tx:
        learners.create(tx, "Ada", actor="me", card=CARD, at=AT)
    for absent in (seq, 99):
        with pytest.raises(NotFound):
            withdraw(db, absent)
