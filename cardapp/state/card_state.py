"""The stored state of each card: its position, its viewer state, and the status of its steps. All of it belongs to the
current learner.

The rules are in ``card/navigation.py``, ``card/viewer.py`` and ``card/progress.py``. The parameter ``uuid`` is the
card's UUID.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from cardapp.card.navigation import FRESH, Position
from cardapp.card.progress import Status
from cardapp.state.database import CURRENT_LEARNER

_OF_CARD = f"learner = {CURRENT_LEARNER} AND card_uuid = ?"

# -- position --------------------------------------------------------------------------------------------------------

_SAVE_POSITION = f"""
INSERT INTO navigation (learner, card_uuid, task_id, block_id, phase_id, step_id, snapshot_ref, focus_level,
                        sync_requested, actor, updated_at, revision)
VALUES ({CURRENT_LEARNER}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (learner, card_uuid) DO UPDATE SET
  task_id = excluded.task_id, block_id = excluded.block_id, phase_id = excluded.phase_id, step_id = excluded.step_id,
  snapshot_ref = excluded.snapshot_ref, focus_level = excluded.focus_level, sync_requested = excluded.sync_requested,
  actor = excluded.actor, updated_at = excluded.updated_at, revision = revision + 1
RETURNING revision
"""


@dataclass(frozen=True)
class SavedPosition:
    """A stored position. Its ids may be missing in the card, if the card has changed since. Before the first save,
    ``revision`` is 0 and ``updated_at`` is None."""

    position: Position
    revision: int
    updated_at: str | None


def load_position(conn: sqlite3.Connection, uuid: str) -> SavedPosition:
    row = conn.execute(f"SELECT * FROM navigation WHERE {_OF_CARD}", (uuid,)).fetchone()
    if row is None:
        return SavedPosition(FRESH, 0, None)
    position = Position(
        task_id=row["task_id"],
        block_id=row["block_id"],
        phase_id=row["phase_id"],
        step_id=row["step_id"],
        snapshot_ref=row["snapshot_ref"],
        focus_level=row["focus_level"],
        sync_requested=bool(row["sync_requested"]),
        actor=row["actor"],
    )
    return SavedPosition(position, row["revision"], row["updated_at"])


def save_position(conn: sqlite3.Connection, uuid: str, position: Position, at: str) -> SavedPosition:
    """Replace the card's position and increment its revision."""
    row = conn.execute(
        _SAVE_POSITION,
        (
            uuid,
            position.task_id,
            position.block_id,
            position.phase_id,
            position.step_id,
            position.snapshot_ref,
            position.focus_level,
            int(position.sync_requested),
            position.actor,
            at,
        ),
    ).fetchone()
    return SavedPosition(position, row["revision"], at)


# -- viewer state, a JSON object -------------------------------------------------------------------------------------


def load_viewer(conn: sqlite3.Connection, uuid: str) -> tuple[dict[str, Any] | None, int]:
    """The viewer state and its revision; (None, 0) before the first save."""
    row = conn.execute(f"SELECT state, revision FROM viewer WHERE {_OF_CARD}", (uuid,)).fetchone()
    if row is None:
        return None, 0
    return json.loads(row["state"]), row["revision"]


def save_viewer(conn: sqlite3.Connection, uuid: str, state: dict[str, Any], at: str) -> int:
    """Replace the viewer state of the card; returns the incremented revision."""
    row = conn.execute(
        f"""
        INSERT INTO viewer (learner, card_uuid, state, updated_at, revision)
        VALUES ({CURRENT_LEARNER}, ?, ?, ?, 1)
        ON CONFLICT (learner, card_uuid) DO UPDATE SET
          state = excluded.state, updated_at = excluded.updated_at, revision = revision + 1
        RETURNING revision
        """,
        (uuid, json.dumps(state, ensure_ascii=False), at),
    ).fetchone()
    return int(row["revision"])


# -- status of the steps; a step without a row is pending and has no note --------------------------------------------


def load_statuses(conn: sqlite3.Connection, uuid: str) -> dict[str, Status]:
    """The statuses by item id (``t1.b1.p1.s1``). Items that the card no longer has are included."""
    rows = conn.execute(f"SELECT * FROM progress WHERE {_OF_CARD} ORDER BY item_id", (uuid,))
    return {row["item_id"]: _status(row) for row in rows}


def load_status(conn: sqlite3.Connection, uuid: str, item_id: str) -> Status | None:
    """The status of one item; None if it was never set."""
    row = conn.execute(f"SELECT * FROM progress WHERE {_OF_CARD} AND item_id = ?", (uuid, item_id)).fetchone()
    return None if row is None else _status(row)


def set_status(
    conn: sqlite3.Connection, uuid: str, item_id: str, status: str, note: str, actor: str, at: str
) -> Status:
    """Replace the status of an item and increment its revision."""
    row = conn.execute(
        f"""
        INSERT INTO progress VALUES ({CURRENT_LEARNER}, ?, ?, ?, ?, ?, ?, 1)
        ON CONFLICT DO UPDATE SET
          status = excluded.status, note = excluded.note, actor = excluded.actor, updated_at = excluded.updated_at,
          revision = revision + 1
        RETURNING revision
        """,
        (uuid, item_id, status, note, actor, at),
    ).fetchone()
    return Status(status, note, actor, at, row["revision"])


def _status(row: sqlite3.Row) -> Status:
    return Status(row["status"], row["note"], row["actor"], row["updated_at"], row["revision"])
