"""The stored strategies and annotations of each card. Both are pinned to a snapshot.

An id is a letter and a number: ``s3`` is a strategy, ``a12`` an annotation. A number is never used again. Every change
increments one ``revision`` for both. The parameter ``uuid`` is the card's UUID.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from cardapp.card.strategy import Strategy
from cardapp.state.events import canonical

STRATEGY, ANNOTATION = "s", "a"
"""The first letter of an id."""

Annotation = dict[str, Any]
"""``{id, key, strategy_id, target, geometry, style, text, visible}``, as the API shows it."""


def revision(conn: sqlite3.Connection, uuid: str) -> int:
    """The revision of the card's strategies and annotations; 0 before the first change."""
    row = conn.execute("SELECT revision FROM explanation_revision WHERE card_uuid = ?", (uuid,)).fetchone()
    return row["revision"] if row is not None else 0


def _changed(tx: sqlite3.Connection, uuid: str) -> None:
    tx.execute(
        "INSERT INTO explanation_revision VALUES (?, 1) ON CONFLICT DO UPDATE SET revision = revision + 1", (uuid,)
    )


def _number(identifier: str) -> int:
    return int(identifier[1:])


# -- strategies ------------------------------------------------------------------------------------------------------


def all_strategies(conn: sqlite3.Connection, uuid: str) -> list[Strategy]:
    """The card's strategies, in the order in which they were added."""
    rows = conn.execute("SELECT * FROM strategy WHERE card_uuid = ? ORDER BY number", (uuid,))
    return [_strategy(row) for row in rows]


def strategy(conn: sqlite3.Connection, uuid: str, identifier: str) -> Strategy | None:
    """The strategy with this id; None if the card has none."""
    row = conn.execute(
        "SELECT * FROM strategy WHERE card_uuid = ? AND number = ?", (uuid, _number(identifier))
    ).fetchone()
    return _strategy(row) if row is not None else None


def add_strategy(tx: sqlite3.Connection, uuid: str, key: str, given: dict[str, Any]) -> Strategy:
    """Store ``{label, commands, expected_observations}``, pinned to the snapshot ``key``."""
    row = tx.execute(
        "INSERT INTO strategy (card_uuid, key, label, commands, expected_observations) VALUES (?, ?, ?, ?, ?) "
        "RETURNING *",
        (uuid, key, given["label"], canonical(given["commands"]), canonical(given["expected_observations"])),
    ).fetchone()
    _changed(tx, uuid)
    return _strategy(row)


def remove_strategy(tx: sqlite3.Connection, uuid: str, identifier: str) -> None:
    """Remove the strategy, which must have no annotations left."""
    tx.execute("DELETE FROM strategy WHERE card_uuid = ? AND number = ?", (uuid, _number(identifier)))
    _changed(tx, uuid)


def _strategy(row: sqlite3.Row) -> Strategy:
    return Strategy(
        f"{STRATEGY}{row['number']}",
        row["key"],
        row["label"],
        tuple(json.loads(row["commands"])),
        tuple(json.loads(row["expected_observations"])),
    )


# -- annotations -----------------------------------------------------------------------------------------------------


def all_annotations(conn: sqlite3.Connection, uuid: str) -> list[Annotation]:
    """The card's annotations, in the order in which they were added."""
    rows = conn.execute("SELECT * FROM annotation WHERE card_uuid = ? ORDER BY number", (uuid,))
    return [_annotation(row) for row in rows]


def annotation(conn: sqlite3.Connection, uuid: str, identifier: str) -> Annotation | None:
    """The annotation with this id; None if the card has none."""
    row = conn.execute(
        "SELECT * FROM annotation WHERE card_uuid = ? AND number = ?", (uuid, _number(identifier))
    ).fetchone()
    return _annotation(row) if row is not None else None


def annotations_of(conn: sqlite3.Connection, identifier: str) -> list[Annotation]:
    """The annotations of the strategy with this id."""
    rows = conn.execute("SELECT * FROM annotation WHERE strategy = ? ORDER BY number", (_number(identifier),))
    return [_annotation(row) for row in rows]


def add_annotation(tx: sqlite3.Connection, uuid: str, key: str, given: dict[str, Any]) -> Annotation:
    """Store ``{strategy_id, target, geometry, style, text, visible}``, pinned to the snapshot ``key``."""
    of = given["strategy_id"]
    row = tx.execute(
        "INSERT INTO annotation (card_uuid, key, strategy, target, geometry, style, text, visible) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING *",
        (
            uuid,
            key,
            _number(of) if of is not None else None,
            canonical(given["target"]),
            canonical(given["geometry"]),
            canonical(given["style"]),
            given["text"],
            int(given["visible"]),
        ),
    ).fetchone()
    _changed(tx, uuid)
    return _annotation(row)


def remove_annotation(tx: sqlite3.Connection, uuid: str, identifier: str) -> None:
    tx.execute("DELETE FROM annotation WHERE card_uuid = ? AND number = ?", (uuid, _number(identifier)))
    _changed(tx, uuid)


def set_visible(tx: sqlite3.Connection, uuid: str, identifiers: Iterable[str], visible: bool) -> None:
    """Change ``visible`` of these annotations, and nothing else."""
    tx.executemany(
        "UPDATE annotation SET visible = ? WHERE card_uuid = ? AND number = ?",
        [(int(visible), uuid, _number(each)) for each in identifiers],
    )
    _changed(tx, uuid)


def _annotation(row: sqlite3.Row) -> Annotation:
    return {
        "id": f"{ANNOTATION}{row['number']}",
        "key": row["key"],
        "strategy_id": f"{STRATEGY}{row['strategy']}" if row["strategy"] is not None else None,
        "target": json.loads(row["target"]),
        "geometry": json.loads(row["geometry"]),
        "style": json.loads(row["style"]),
        "text": row["text"],
        "visible": bool(row["visible"]),
    }
