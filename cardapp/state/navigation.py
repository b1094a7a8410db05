"""The stored position of each card."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from cardapp.card.navigation import FRESH, Position

_SAVE = """
INSERT INTO navigation (card_uuid, task_id, block_id, phase_id, step_id, snapshot_ref, focus_level, sync_requested,
                        actor, updated_at, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (card_uuid) DO UPDATE SET
  task_id = excluded.task_id, block_id = excluded.block_id, phase_id = excluded.phase_id, step_id = excluded.step_id,
  snapshot_ref = excluded.snapshot_ref, focus_level = excluded.focus_level, sync_requested = excluded.sync_requested,
  actor = excluded.actor, updated_at = excluded.updated_at, revision = revision + 1
RETURNING revision
"""


@dataclass(frozen=True)
class Saved:
    """A stored position; the card may no longer have its ids. Before the first save: revision 0, no time."""

    position: Position
    revision: int
    updated_at: str | None


def load(conn: sqlite3.Connection, uuid: str) -> Saved:
    row = conn.execute("SELECT * FROM navigation WHERE card_uuid = ?", (uuid,)).fetchone()
    if row is None:
        return Saved(FRESH, 0, None)
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
    return Saved(position, row["revision"], row["updated_at"])


def save(conn: sqlite3.Connection, uuid: str, position: Position, at: str) -> Saved:
    """Replace the card's position; its revision is incremented."""
    row = conn.execute(
        _SAVE,
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
    return Saved(position, row["revision"], at)
