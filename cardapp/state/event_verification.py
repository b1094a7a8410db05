"""Verifies the record of events by recomputing all hashes.

It detects: an event that was changed, removed, inserted or moved; events removed at the end (SQLite's own counter has a
greater ``seq``); evidence rows that differ from their ``evidence.added`` event; and, given the evidence directory,
images that are missing or changed.

It cannot detect a record whose end was removed together with that counter, or that was rewritten up to its end with new
hashes: whoever can write the file can do that, because no secret is involved. To detect it, compare the last hash with
one that was noted elsewhere, for example in a printed report.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from cardapp.state import evidence
from cardapp.state.database import read_only
from cardapp.state.events import record
from cardapp.state.hash_chain import GENESIS, event_hash


@dataclass(frozen=True)
class Report:
    """``count`` events are intact, ``head`` is the last one's hash; ``broken_seq`` is the first faulty one or None."""

    count: int
    head: str
    broken_seq: int | None
    reason: str | None

    @property
    def intact(self) -> bool:
        return self.broken_seq is None


def verify(conn: sqlite3.Connection, *, evidence_root: Path | None = None) -> Report:
    """Verify the whole record in constant memory; stops at the first fault."""
    count, head = 0, GENESIS
    for row in conn.execute("SELECT * FROM event ORDER BY seq"):
        reason = _fault(row, count + 1, head)
        if reason is not None:
            return Report(count, head, min(row["seq"], count + 1), reason)
        count, head = count + 1, row["hash"]
    counter = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    if counter is not None and counter["seq"] > count:
        removed = counter["seq"] - count
        reason = "the last event was removed" if removed == 1 else f"the last {removed} events were removed"
        return Report(count, head, count + 1, reason)
    for seq, reason in evidence.faults(conn, evidence_root):
        return Report(count, head, seq, reason)
    return Report(count, head, None, None)


def verify_file(path: Path, *, evidence_root: Path | None = None) -> Report:
    """``verify`` for a database file that a running server may be using."""
    with read_only(path) as conn:
        return verify(conn, evidence_root=evidence_root)


def _fault(row: sqlite3.Row, expected_seq: int, previous: str) -> str | None:
    if row["seq"] != expected_seq:
        return f"event {expected_seq} was removed"
    try:
        event = record(row)
    except ValueError:
        return f"event {expected_seq} is no longer valid JSON"
    if event_hash(previous, event) != row["hash"]:
        return f"the hash of event {expected_seq} does not match its content and the previous event"
    return None
