"""The record of events. Events are only appended, in chronological order.

Every learner has a chain of events. All chains are numbered together, so the numbers of one chain may have gaps. Every
function that reads or appends events uses the chain of the current learner, except the verification, which checks all.

An event's hash is the SHA-256 of the event's canonical JSON (sorted keys, no spaces, UTF-8), which includes the hash of
the previous event of the chain. The hash does not cover the images that are pinned to the event (its evidence), because
an image may be pinned later. When an image is pinned, an ``evidence.added`` event records the image's SHA-256.

The ``text`` of a client's event is stored as ``data.text``, beside the members of its ``data``.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cardapp.card import answers
from cardapp.card.model import Identity
from cardapp.errors import Conflict, FieldError, InvalidValue, NotFound
from cardapp.state import evidence
from cardapp.state.database import CURRENT_LEARNER, read_only

# -- kinds (source: "Progress, events, evidence, reports" in the card contract) --------------------------------------

NAVIGATION_SET = "navigation.set"
NAVIGATION_MOVED = "navigation.moved"
NAVIGATION_SYNCED = "navigation.synced"
CHECKPOINT_READY = answers.PROVED
CHECKPOINT_REJECTED = "checkpoint.rejected"
CHECKPOINT_FAILED = "checkpoint.failed"
CHECKPOINT_CANCELLED = "checkpoint.cancelled"
CHECKPOINT_TIMEOUT = "checkpoint.timeout"
SYNC_OFF = "sync.off"
EDITOR_RESET = "editor.reset"
EDITOR_REDRAW = "editor.redraw"
PROGRAM_MOVED = "program.moved"
SESSION_RESTORED = "session.restored"
VIEWER_CHANGED = "viewer.changed"
PROGRESS_CHANGED = "progress.changed"
PREDICTION_JUDGED = answers.JUDGED
EVIDENCE_ADDED = "evidence.added"
EVENT_WITHDRAWN = "event.withdrawn"
CARD_CHOSEN = "card.chosen"
LEARNER_NAMED = "learner.named"
LEARNER_CHOSEN = "learner.chosen"
STRATEGY_ADDED = "strategy.added"
STRATEGY_REMOVED = "strategy.removed"
ANNOTATION_ADDED = "annotation.added"
ANNOTATION_REMOVED = "annotation.removed"
ANNOTATION_SHOWN = "annotation.shown"
ANNOTATION_HIDDEN = "annotation.hidden"
NOTE = "note"
"""A learner's note, which a client appends."""

BACKEND_KINDS = frozenset(
    {
        NAVIGATION_SET,
        NAVIGATION_MOVED,
        NAVIGATION_SYNCED,
        CHECKPOINT_READY,
        CHECKPOINT_REJECTED,
        CHECKPOINT_FAILED,
        CHECKPOINT_CANCELLED,
        CHECKPOINT_TIMEOUT,
        SYNC_OFF,
        EDITOR_RESET,
        EDITOR_REDRAW,
        PROGRAM_MOVED,
        SESSION_RESTORED,
        VIEWER_CHANGED,
        PROGRESS_CHANGED,
        PREDICTION_JUDGED,
        EVIDENCE_ADDED,
        EVENT_WITHDRAWN,
        CARD_CHOSEN,
        LEARNER_NAMED,
        LEARNER_CHOSEN,
        STRATEGY_ADDED,
        STRATEGY_REMOVED,
        ANNOTATION_ADDED,
        ANNOTATION_REMOVED,
        ANNOTATION_SHOWN,
        ANNOTATION_HIDDEN,
    }
)
"""The kinds that the service appends. All other kinds come from clients."""
WITHDRAWABLE = frozenset({NOTE, EVIDENCE_ADDED})
"""The kinds that can be withdrawn. Predictions and answers cannot be withdrawn, because reports depend on them."""

# -- the record ------------------------------------------------------------------------------------------------------

GENESIS = "0" * 64
"""The previous hash of the first event of a chain."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
PAGE_BYTES = 4 << 20
"""A page ends when its data reaches this size. A limit on the number of events alone would not be enough, because each
event may have 64 KiB of data."""
_COLUMNS = "seq, at, kind, actor, key, card, data, hash"
_CHAIN = f"FROM event WHERE learner = {CURRENT_LEARNER}"


class Head(NamedTuple):
    """The number ``seq`` and the ``hash`` of the last event of the chain, whatever its card."""

    seq: int
    hash: str


def append(
    conn: sqlite3.Connection,
    *,
    kind: str,
    actor: str,
    key: str,
    card: Identity,
    data: Mapping[str, Any],
    at: str,
    text: str | None = None,
) -> dict[str, Any]:
    """Append an event in the write transaction ``conn``. Returns the event as the API shows it.

    :param key: the key of the position; "" if the event belongs to the whole card.
    :param at: RFC 3339, UTC, with milliseconds.
    :raises InvalidValue: both ``text`` and ``data["text"]`` are given.
    """
    seq = _last_seq(conn) + 1
    event = {
        "seq": seq,
        "at": at,
        "kind": kind,
        "actor": actor,
        "key": key,
        "card": {"id": card.id, "version": card.version, "source_sha256": card.source_sha256},
        "data": _with_text(data, text),
    }
    digest = event_hash(head(conn).hash, event)
    conn.execute(
        f"INSERT INTO event ({_COLUMNS}, learner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, {CURRENT_LEARNER})",
        (seq, at, kind, actor, key, canonical(event["card"]), canonical(event["data"]), digest),
    )
    return {**event, "evidence": [], "withdrawn": False, "hash": digest}


def pin(
    conn: sqlite3.Connection,
    stored: evidence.Stored,
    *,
    event_seq: int | None,
    caption: str,
    actor: str,
    key: str,
    card: Identity,
    at: str,
) -> dict[str, Any]:
    """Pin a stored image to an event, in the write transaction ``conn``. Returns the ``evidence.added`` event.

    If ``event_seq`` is None, the image is pinned to the ``evidence.added`` event.

    :raises InvalidValue: there is no event with this ``event_seq``.
    """
    if event_seq is not None and conn.execute(f"SELECT 1 {_CHAIN} AND seq = ?", (event_seq,)).fetchone() is None:
        message = f"there is no event {event_seq}; the last event is {head(conn).seq}"
        raise InvalidValue(f"event_seq: {message}", errors=(FieldError("/event_seq", message),))
    data = {"name": stored.name, "sha256": stored.sha256, "event_seq": event_seq, "caption": caption}
    event = append(conn, kind=EVIDENCE_ADDED, actor=actor, key=key, card=card, data=data, at=at)
    seq = event["seq"]
    evidence.add(conn, stored, seq=seq, event_seq=event_seq or seq, caption=caption, at=at)
    pinned = [{**picture, "withdrawn": False} for picture in evidence.for_events(conn, [seq]).get(seq, [])]
    return {**event, "evidence": pinned}


def withdraw(conn: sqlite3.Connection, seq: int, *, reason: str, actor: str, card: Identity, at: str) -> dict[str, Any]:
    """Withdraw a note or an image, in the write transaction ``conn``. This appends an event, and reports leave out the
    withdrawn one. Nothing is deleted. A note is withdrawn with the images that are pinned to it.

    :raises NotFound: there is no event with this ``seq``.
    :raises Conflict: the event is of another kind, or it is already withdrawn.
    """
    row = conn.execute(f"SELECT {_COLUMNS} {_CHAIN} AND seq = ?", (seq,)).fetchone()
    if row is None:
        raise NotFound(f"there is no event {seq}; the last event is {head(conn).seq}")
    if row["kind"] not in WITHDRAWABLE:
        kinds = " or ".join(sorted(WITHDRAWABLE))
        raise Conflict(f"event {seq} is of the kind {row['kind']}; only {kinds} is withdrawn", code="not_withdrawable")
    if _all_shown(conn, [row])[0]["withdrawn"]:
        raise Conflict(f"event {seq} is already withdrawn", code="already_withdrawn")
    data = {"event_seq": seq, "reason": reason}
    return append(conn, kind=EVENT_WITHDRAWN, actor=actor, key=row["key"], card=card, data=data, at=at)


def page(
    conn: sqlite3.Connection,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = 200,
    kind: str | None = None,
    key: str | None = None,
    actor: str | None = None,
    page_bytes: int = PAGE_BYTES,
) -> list[dict[str, Any]]:
    """Events with ``seq > after`` in order, with their evidence; at most ``limit`` events and about ``page_bytes``
    bytes. With ``before``, only the events with ``seq < before``, the newest first.

    ``kind``, ``key`` and ``actor`` select the events with these values; None selects all. For the next page, pass the
    last ``seq`` as ``after`` or ``before``. An empty page means that there are no further events.
    """
    return _page(conn, {"kind": kind, "key": key, "actor": actor}, after, limit, before, page_bytes)


def latest(conn: sqlite3.Connection, *, limit: int, kind: str, card_id: str) -> list[dict[str, Any]]:
    """The last ``limit`` events of a kind and a card that are not withdrawn, in order, with their evidence."""
    rows = conn.execute(
        f"SELECT {_COLUMNS} {_CHAIN} AND card_id = ? AND kind = ? ORDER BY seq DESC LIMIT ?",
        (card_id, kind, limit + len(_withdrawn(conn))),
    ).fetchall()
    return [event for event in _all_shown(conn, rows[::-1]) if not event["withdrawn"]][-limit:]


def head(conn: sqlite3.Connection) -> Head:
    """The last event of the chain; ``Head(0, GENESIS)`` if there is none."""
    row = conn.execute(f"SELECT seq, hash {_CHAIN} ORDER BY seq DESC LIMIT 1").fetchone()
    return Head(0, GENESIS) if row is None else Head(row["seq"], row["hash"])


def count(conn: sqlite3.Connection) -> int:
    """The number of events in the chain."""
    return int(conn.execute(f"SELECT count(*) {_CHAIN}").fetchone()[0])


def _last_seq(conn: sqlite3.Connection) -> int:
    """The number of the last event of all chains; 0 if there is none."""
    return int(conn.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])


def stream(conn: sqlite3.Connection, card_id: str | None = None, *, chunk_size: int = 500) -> Iterator[dict[str, Any]]:
    """Yield the events of all cards, or of one card, in order. They are read in chunks of ``chunk_size``, because the
    whole record may not fit into memory."""
    after = 0
    while chunk := _page(conn, {"card_id": card_id}, after, chunk_size):
        yield from chunk
        after = chunk[-1]["seq"]


def _with_text(data: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    if text is None:
        return dict(data)
    if "text" in data:
        message = "must not be given together with text: the event's text is stored there"
        raise InvalidValue(f"data.text {message}", errors=(FieldError("/data/text", message),))
    return {"text": text, **data}


def _page(
    conn: sqlite3.Connection,
    wanted: Mapping[str, str | None],
    after: int,
    limit: int,
    before: int | None = None,
    page_bytes: int = PAGE_BYTES,
) -> list[dict[str, Any]]:
    """The events whose columns have the values in ``wanted``; None allows any value. Each of these columns has an
    index, and so have kind and key together."""
    filters = {column: value for column, value in wanted.items() if value is not None}
    limits = {"seq > ?": after} if before is None else {"seq > ?": after, "seq < ?": before}
    conditions = " AND ".join([*(f"{column} = ?" for column in filters), *limits])
    rows = conn.execute(
        f"SELECT {_COLUMNS} {_CHAIN} AND {conditions} ORDER BY seq {'' if before is None else 'DESC'} LIMIT ?",
        (*filters.values(), *limits.values(), limit),
    )
    return _all_shown(conn, _up_to_page_size(rows, page_bytes))


def _up_to_page_size(rows: Iterable[sqlite3.Row], page_bytes: int) -> list[sqlite3.Row]:
    """The first rows, up to and including the row at which their data reaches ``page_bytes``."""
    taken, size = [], 0
    for row in rows:
        taken.append(row)
        size += len(row["data"].encode())
        if size >= page_bytes:
            break
    return taken


def _all_shown(conn: sqlite3.Connection, rows: Sequence[sqlite3.Row]) -> list[dict[str, Any]]:
    pinned = evidence.for_events(conn, [row["seq"] for row in rows])
    gone = _withdrawn(conn)
    return [_shown(row, pinned.get(row["seq"], []), gone) for row in rows]


def _shown(row: sqlite3.Row, pinned: list[dict[str, Any]], gone: Collection[int]) -> dict[str, Any]:
    event = record(row)
    seqs = {event["seq"], event["data"].get("event_seq") if event["kind"] == EVIDENCE_ADDED else None}
    withdrawn = not seqs.isdisjoint(gone)
    pictures = [{**picture, "withdrawn": withdrawn or picture["seq"] in gone} for picture in pinned]
    return {**event, "evidence": pictures, "withdrawn": withdrawn, "hash": row["hash"]}


def _withdrawn(conn: sqlite3.Connection) -> set[int]:
    """The numbers of the withdrawn events."""
    rows = conn.execute(f"SELECT data {_CHAIN} AND kind = ?", (EVENT_WITHDRAWN,))
    return {json.loads(row["data"])["event_seq"] for row in rows}


def record(row: sqlite3.Row) -> dict[str, Any]:
    """The members of a stored event that its hash covers."""
    return {
        "seq": row["seq"],
        "at": row["at"],
        "kind": row["kind"],
        "actor": row["actor"],
        "key": row["key"],
        "card": json.loads(row["card"]),
        "data": json.loads(row["data"]),
    }


def covered(event: Mapping[str, Any]) -> dict[str, Any]:
    """The members of an event, as the API shows it, that its hash covers."""
    return {name: event[name] for name in ("seq", "at", "kind", "actor", "key", "card", "data")}


def event_hash(previous: str, event: Mapping[str, Any]) -> str:
    """The hash of an event {seq, at, kind, actor, key, card, data}. ``previous`` is the hash of the event before it in
    its chain."""
    return hashlib.sha256(canonical({**event, "previous": previous}).encode()).hexdigest()


def canonical(value: Any) -> str:
    """``value`` as canonical JSON: equal values have the same text."""
    return _ENCODER.encode(value)


# -- verification ----------------------------------------------------------------------------------------------------

# The verification detects:
# - an event that was changed, removed, inserted or moved;
# - events that were removed at the end, because SQLite's counter of ``seq`` is then greater;
# - evidence rows that differ from their ``evidence.added`` event;
# - given the evidence directory, images that are missing or changed.
#
# It cannot detect that events at the end were removed and the counter was lowered, or that the record was rewritten to
# its end with new hashes. Whoever can write the file can do both, because the hashes need no secret. To detect it,
# compare the last hash with one that was noted elsewhere, for example in a printed report.


@dataclass(frozen=True)
class Verification:
    """The result of a verification. The first ``count`` events are intact; ``head`` is the hash of the last intact
    event. ``broken_seq`` is the number of the first broken event, and ``reason`` is its fault. Both are None if all
    events are intact."""

    count: int
    head: str
    broken_seq: int | None
    reason: str | None

    @property
    def intact(self) -> bool:
        return self.broken_seq is None


def verify(conn: sqlite3.Connection, *, evidence_root: Path | None = None) -> Verification:
    """Verify the chains of all learners in constant memory, up to the first fault."""
    count, head = 0, GENESIS
    heads: dict[int, str] = {}
    rows = conn.execute("SELECT * FROM event ORDER BY seq")
    has_learners = any(column[0] == "learner" for column in rows.description)  # not in an older file
    for row in rows:
        learner = row["learner"] if has_learners else 1
        reason = _row_fault(row, count + 1, heads.get(learner, GENESIS))
        if reason is not None:
            return Verification(count, head, min(row["seq"], count + 1), reason)
        count, head = count + 1, row["hash"]
        heads[learner] = head
    counter = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    if counter is not None and counter["seq"] > count:
        removed = counter["seq"] - count
        reason = "the last event was removed" if removed == 1 else f"the last {removed} events were removed"
        return Verification(count, head, count + 1, reason)
    for seq, reason in evidence.faults(conn, evidence_root):
        return Verification(count, head, seq, reason)
    return Verification(count, head, None, None)


def verify_file(path: Path, *, evidence_root: Path | None = None) -> Verification:
    """``verify`` for a database file that a running server may be using."""
    with read_only(path) as conn:
        return verify(conn, evidence_root=evidence_root)


def _row_fault(row: sqlite3.Row, expected_seq: int, previous: str) -> str | None:
    if row["seq"] != expected_seq:
        return f"event {expected_seq} was removed"
    try:
        event = record(row)
    except ValueError:
        return f"event {expected_seq} is no longer valid JSON"
    if event_hash(previous, event) != row["hash"]:
        return f"the hash of event {expected_seq} does not match its content and the previous event"
    return None
