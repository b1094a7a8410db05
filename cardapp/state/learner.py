"""Reads the events of a learner's predictions and answers, and appends the judgements of predictions.

Each query uses an index by kind, so that its time depends on the learner's events, not on the length of the record.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from cardapp.card.answers import JUDGED, KINDS, PREDICTION, PROVED, Entry, is_usable
from cardapp.card.constant import Language
from cardapp.card.literal import Constants
from cardapp.card.model import Identity, Snapshot
from cardapp.card.prediction import judged
from cardapp.state import events
from cardapp.state.database import CURRENT_LEARNER

_OF_LEARNER = f"learner = {CURRENT_LEARNER}"


def entries(conn: sqlite3.Connection, card_id: str) -> list[Entry]:
    """The events of the card from which its answers are made, in order."""
    rows = conn.execute(
        f"SELECT seq, at, kind, key, data FROM event WHERE {_OF_LEARNER} AND card_id = ? AND kind IN ({_marks(KINDS)})",
        (card_id, *KINDS),
    )
    first = conn.execute(
        "SELECT min(seq) AS seq, at, kind, key, '{}' AS data FROM event "
        f"WHERE {_OF_LEARNER} AND card_id = ? AND kind = ? GROUP BY key",
        (card_id, PROVED),
    )
    return _in_order([*rows, *first])


def entries_at(conn: sqlite3.Connection, card_id: str, keys: Iterable[str]) -> list[Entry]:
    """The same for the events at the positions ``keys``."""
    found: list[sqlite3.Row] = []
    for key in keys:
        found += _at(conn, card_id, key, KINDS)
        found += _first_proof(conn, card_id, key)
    return _in_order(found)


def judge(
    tx: sqlite3.Connection,
    key: str,
    snapshot: Snapshot,
    values: Mapping[str, Any] | None,
    *,
    language: Language = "c",
    constants: Constants | None = None,
    actor: str,
    card: Identity,
    at: str,
) -> None:
    """Judge each prediction at the stop ``key`` that was not judged yet, in the write transaction ``tx``.

    ``values`` are the program's values at the stop. If it is None, the card judges. What was typed is read as
    ``language`` reads it; ``constants`` are the values of the texts that gdb evaluated.
    """
    for made in unjudged(tx, key, card.id):
        data = judged(made.seq, made.data["values"], snapshot, values, language, constants)
        events.append(tx, kind=events.PREDICTION_JUDGED, actor=actor, key=key, card=card, data=data, at=at)


def unjudged(conn: sqlite3.Connection, key: str, card_id: str) -> list[Entry]:
    """The predictions at the stop ``key`` that were not judged yet, in order."""
    found = _in_order(_at(conn, card_id, key, (PREDICTION, JUDGED)))
    done = {entry.data["prediction"] for entry in found if entry.kind == JUDGED}
    return [entry for entry in found if entry.kind == PREDICTION and entry.seq not in done]


def _at(conn: sqlite3.Connection, card_id: str, key: str, kinds: tuple[str, ...]) -> list[sqlite3.Row]:
    # The plus prevents SQLite from using the index by card and kind, in which it would have to look at every position.
    return conn.execute(
        f"SELECT seq, at, kind, key, data FROM event "
        f"WHERE {_OF_LEARNER} AND kind IN ({_marks(kinds)}) AND key = ? AND +card_id = ?",
        (*kinds, key, card_id),
    ).fetchall()


def _first_proof(conn: sqlite3.Connection, card_id: str, key: str) -> list[sqlite3.Row]:
    return conn.execute(
        "SELECT seq, at, kind, key, '{}' AS data FROM event "
        f"WHERE {_OF_LEARNER} AND kind = ? AND key = ? AND +card_id = ? ORDER BY seq LIMIT 1",
        (PROVED, key, card_id),
    ).fetchall()


def _marks(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))


def _in_order(rows: Iterable[sqlite3.Row]) -> list[Entry]:
    ordered = sorted(rows, key=lambda row: row["seq"])
    found = (Entry(row["seq"], row["at"], row["kind"], row["key"], json.loads(row["data"])) for row in ordered)
    return [entry for entry in found if is_usable(entry)]
