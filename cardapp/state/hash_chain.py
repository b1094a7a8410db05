"""Proof of the record: walk the events and recompute every hash.

Found: an entry whose content or hash was edited, one taken out of or put into the middle, a changed order, entries
missing at the end (the file's own counter of the greatest ``seq`` stands higher), evidence rows whose own entry says
otherwise, and with the evidence directory at hand pictures that are missing or are not what their name says.

Not found: a record whose tail was cut together with that counter, or which was rewritten from some entry to the end
with new hashes. No secret is involved, so whoever can write the file can do that; only a ``head`` noted elsewhere (a
printed report, say) shows it: compare it with the head of today, or with the hash of that ``seq``.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from cardapp.state import evidence
from cardapp.state.database import read_only
from cardapp.state.events import GENESIS, chained, record


@dataclass(frozen=True)
class Report:
    """``count`` entries hold, ``head`` is the last one's hash; ``broken_seq`` is the first that does not, or None."""

    count: int
    head: str
    broken_seq: int | None
    reason: str | None

    @property
    def intact(self) -> bool:
        return self.broken_seq is None


def verify(conn: sqlite3.Connection, *, evidence_root: Path | None = None) -> Report:
    """Check the whole record; constant memory, stops at the first entry that does not hold."""
    count, head = 0, GENESIS
    for row in conn.execute("SELECT * FROM event ORDER BY seq"):
        reason = _fault(row, count + 1, head)
        if reason is not None:
            return Report(count, head, min(row["seq"], count + 1), reason)
        count, head = count + 1, row["hash"]
    counter = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    if counter is not None and counter["seq"] > count:
        return Report(count, head, count + 1, f"the last {counter['seq'] - count} entries were taken out")
    for seq, reason in evidence.faults(conn, evidence_root):
        return Report(count, head, seq, reason)
    return Report(count, head, None, None)


def verify_file(path: Path, *, evidence_root: Path | None = None) -> Report:
    """``verify`` over a database that a running server may be using; nothing is changed."""
    with read_only(path) as conn:
        return verify(conn, evidence_root=evidence_root)


def _fault(row: sqlite3.Row, expected_seq: int, previous: str) -> str | None:
    if row["seq"] != expected_seq:
        return f"entry {expected_seq} was taken out"
    try:
        event = record(row)
    except ValueError:
        return f"entry {expected_seq} is no longer JSON"
    if chained(previous, event) != row["hash"]:
        return f"the content of entry {expected_seq} does not fit its hash and the entry before it"
    return None
