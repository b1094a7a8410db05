"""The learners of this state directory. Each has a separate record: positions, viewer states, statuses, results and a
chain of events. One learner is current; everything that is read and written belongs to that learner.

The first learner has no name until one is given. The chain contains the name, too, so an exported chain says to whom it
belongs. Nothing of a learner is ever deleted.
"""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from typing import Any, Protocol

from cardapp.card.model import Identity
from cardapp.errors import Conflict, InvalidValue, LearnerExists, NotFound
from cardapp.state import events
from cardapp.state.database import CURRENT_LEARNER

MAX_NAME = 80


class Change(Protocol):
    """``create``, ``name_record`` or ``choose``: a change of the learner in a write transaction, with its event."""

    def __call__(self, tx: sqlite3.Connection, name: str, /, *, actor: str, card: Identity, at: str) -> None: ...


def overview(conn: sqlite3.Connection) -> dict[str, Any]:
    """``{learners, current, revision}``, as the API shows it. The learners are in the order of their creation."""
    state = conn.execute("SELECT learner, revision FROM current_learner").fetchone()
    rows = conn.execute(
        "SELECT id, name, named, created_at, "
        "(SELECT at FROM event WHERE learner = learner.id ORDER BY seq DESC LIMIT 1) AS last_at "
        "FROM learner ORDER BY id"
    ).fetchall()
    learners = [
        {
            "name": row["name"],
            "named": bool(row["named"]),
            "current": row["id"] == state["learner"],
            "created_at": row["created_at"],
            "last_at": row["last_at"],
        }
        for row in rows
    ]
    return {
        "learners": learners,
        "current": next(each["name"] for each in learners if each["current"]),
        "revision": state["revision"],
    }


def current(conn: sqlite3.Connection) -> str:
    """The name of the current learner."""
    row = conn.execute(f"SELECT name FROM learner WHERE id = {CURRENT_LEARNER}").fetchone()
    return str(row["name"])


def revision(conn: sqlite3.Connection) -> int:
    """How often a learner was chosen or named."""
    return int(conn.execute("SELECT revision FROM current_learner").fetchone()["revision"])


def last_card(conn: sqlite3.Connection) -> Identity | None:
    """The card of the last event of any learner; None before the first event. An event does not have the UUID of its
    card."""
    row = conn.execute("SELECT card FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    return None if row is None else Identity(uuid="", **json.loads(row["card"]))


def create(tx: sqlite3.Connection, name: str, *, actor: str, card: Identity, at: str) -> None:
    """Begin a new record for a learner, in the write transaction ``tx``, and choose it.

    :raises InvalidValue: the name is empty, too long or not one line.
    :raises LearnerExists: a learner has this name, apart from upper and lower case.
    """
    cleaned = _free_name(tx, name)
    row = tx.execute(
        "INSERT INTO learner (name, folded, named, created_at) VALUES (?, ?, 1, ?) RETURNING id",
        (cleaned, _folded(cleaned), at),
    ).fetchone()
    _set_current(tx, row["id"])
    _append(tx, events.LEARNER_NAMED, cleaned, actor, card, at)


def name_record(tx: sqlite3.Connection, name: str, *, actor: str, card: Identity, at: str) -> None:
    """Give a name to the current record, which has none yet.

    :raises Conflict: the record has a name.
    :raises InvalidValue, LearnerExists: as for ``create``.
    """
    if tx.execute(f"SELECT named FROM learner WHERE id = {CURRENT_LEARNER}").fetchone()["named"]:
        raise Conflict(
            f"the record is already that of {current(tx)}; leave out keep_record to begin a new one",
            code="learner_named",
        )
    cleaned = _free_name(tx, name)
    tx.execute(
        f"UPDATE learner SET name = ?, folded = ?, named = 1 WHERE id = {CURRENT_LEARNER}",
        (cleaned, _folded(cleaned)),
    )
    _set_current(tx, tx.execute("SELECT learner FROM current_learner").fetchone()["learner"])
    _append(tx, events.LEARNER_NAMED, cleaned, actor, card, at)


def choose(tx: sqlite3.Connection, name: str, *, actor: str, card: Identity, at: str) -> None:
    """Continue the record of a learner. If it is current already, nothing changes.

    :raises NotFound: no learner has this name.
    """
    row = tx.execute("SELECT id, name FROM learner WHERE folded = ?", (_folded(name),)).fetchone()
    if row is None:
        known = ", ".join(each["name"] for each in tx.execute("SELECT name FROM learner ORDER BY id LIMIT 20"))
        raise NotFound(
            f"there is no learner {name[:MAX_NAME]!r}; known: {known}; POST /api/learners begins a new record"
        )
    if row["name"] != current(tx):
        _set_current(tx, row["id"])
        _append(tx, events.LEARNER_CHOSEN, row["name"], actor, card, at)


def clean(name: str) -> str:
    """The name as it is stored: with composed characters, with single spaces between words, and without spaces at the
    ends.

    :raises InvalidValue: it is empty, too long or not one line of text.
    """
    cleaned = " ".join(part for part in unicodedata.normalize("NFC", name).split(" ") if part)
    if not cleaned:
        raise InvalidValue.of("/name", "is empty; give a name, for example Ada")
    if len(cleaned) > MAX_NAME:
        raise InvalidValue.of("/name", f"has {len(cleaned)} characters; the maximum is {MAX_NAME}")
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in cleaned):
        raise InvalidValue.of("/name", "has a control character; give one line of text")
    return cleaned


def _free_name(conn: sqlite3.Connection, name: str) -> str:
    cleaned = clean(name)
    row = conn.execute("SELECT name FROM learner WHERE folded = ?", (_folded(cleaned),)).fetchone()
    if row is not None:
        raise LearnerExists(
            f"there is already a learner {row['name']!r}: choose that record in the page's menu, or with "
            "PUT /api/learners/current, or give another name"
        )
    return cleaned


def _folded(name: str) -> str:
    """The form in which names are compared, without regard to case."""
    return unicodedata.normalize("NFC", " ".join(name.split())).casefold()


def _set_current(tx: sqlite3.Connection, learner: int) -> None:
    tx.execute("UPDATE current_learner SET learner = ?, revision = revision + 1", (learner,))


def _append(tx: sqlite3.Connection, kind: str, name: str, actor: str, card: Identity, at: str) -> None:
    events.append(tx, kind=kind, actor=actor, key="", card=card, data={"name": name}, at=at)
