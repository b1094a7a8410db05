from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.state import event_verification, events
from cardapp.state.database import Database
from cardapp.state.hash_chain import GENESIS
from cardapp.state.migrations import migrate

Add = Callable[..., dict[str, Any]]
AT = "2025-03-01T10:00:00.000Z"
CARD = {"id": "arena", "version": "1.0.0", "source_sha256": "ab" * 32}

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
    report = event_verification.verify(conn)
    assert report.intact
    assert (report.count, report.head) == (len(added), added[-1]["hash"] if added else GENESIS)
    conn.close()


@pytest.mark.parametrize("seq", [1, 3, 5])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET at = '2025-03-01T10:00:00.001Z' WHERE seq = ?",
        "UPDATE event SET kind = 'x-other' WHERE seq = ?",
        "UPDATE event SET actor = 'somebody else' WHERE seq = ?",
        "UPDATE event SET key = 't2' WHERE seq = ?",
        "UPDATE event SET card = '{}' WHERE seq = ?",
        "UPDATE event SET data = '{\"n\":42}' WHERE seq = ?",
        "UPDATE event SET data = 'no json' WHERE seq = ?",
        "UPDATE event SET hash = replace(hash, substr(hash, 1, 1), 'g') WHERE seq = ?",
        "DELETE FROM event WHERE seq = ?",
    ],
)
def test_a_change_is_found_at_its_place(db: Database, add: Add, change: str, seq: int) -> None:
    for number in range(5):
        add(data={"n": number})
    with db.write() as conn:
        unlock(conn)
        conn.execute(change, (seq,))
    report = event_verification.verify_file(db.path)
    assert (report.broken_seq, report.count) == (seq, seq - 1)
    assert report.reason


@pytest.mark.parametrize("kept", [0, 2])
def test_a_tail_that_was_cut_is_found(db: Database, add: Add, kept: int) -> None:
    for _ in range(5):
        add()
    with db.write() as conn:
        unlock(conn)
        conn.execute("DELETE FROM event WHERE seq > ?", (kept,))
    report = event_verification.verify_file(db.path)
    assert (report.count, report.broken_seq) == (kept, kept + 1)
    assert f"{5 - kept} events" in str(report.reason)


def test_entries_that_changed_places_are_found(db: Database, add: Add) -> None:
    for number in range(4):
        add(data={"n": number})
    with db.write() as conn:
        unlock(conn)
        conn.execute("UPDATE event SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3)")
        conn.execute("UPDATE event SET seq = -seq WHERE seq < 0")
    assert event_verification.verify_file(db.path).broken_seq == 2


def test_a_rewritten_end_is_detected_only_by_a_hash_noted_elsewhere(db: Database, add: Add) -> None:
    """What the docstring says cannot be found, so that nobody relies on it."""
    for number in range(3):
        add(data={"n": number})
    noted = event_verification.verify_file(db.path)
    with db.write() as conn:
        unlock(conn)
        conn.execute("DELETE FROM event WHERE seq = 3")
        conn.execute("UPDATE sqlite_sequence SET seq = 2")
        events.append(conn, kind="note", actor="a", key="", card=CARD, data={"n": "new"}, at=AT)
    report = event_verification.verify_file(db.path)
    assert report.intact
    assert report.head != noted.head


def test_a_database_in_use_is_verified_as_it_stands(db: Database, add: Add) -> None:
    add()
    with db.write() as conn:
        events.append(conn, kind="note", actor="a", key="", card=CARD, data={}, at=AT)
        assert event_verification.verify_file(db.path).count == 1
    assert event_verification.verify_file(db.path) == event_verification.Report(2, events_head(db.path), None, None)


def events_head(path: Path) -> str:
    conn = sqlite3.connect(path)
    head = conn.execute("SELECT hash FROM event ORDER BY seq DESC LIMIT 1").fetchone()[0]
    conn.close()
    return str(head)
