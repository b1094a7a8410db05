"""The stored status of each step. A step without a row is pending and has no note."""

from __future__ import annotations

import sqlite3

from cardapp.card.progress import Status


def load_all(conn: sqlite3.Connection, uuid: str) -> dict[str, Status]:
    """The statuses by item id (``t1.b1.p1.s1``), including ids that the card no longer has."""
    rows = conn.execute("SELECT * FROM progress WHERE card_uuid = ? ORDER BY item_id", (uuid,))
    return {row["item_id"]: _status(row) for row in rows}


def load(conn: sqlite3.Connection, uuid: str, item_id: str) -> Status | None:
    """The status of one item; None if it was never set."""
    row = conn.execute("SELECT * FROM progress WHERE card_uuid = ? AND item_id = ?", (uuid, item_id)).fetchone()
    return None if row is None else _status(row)


def set(conn: sqlite3.Connection, uuid: str, item_id: str, status: str, note: str, actor: str, at: str) -> Status:
    """Replace the item's row; its revision is incremented."""
    row = conn.execute(
        """
        INSERT INTO progress VALUES (?, ?, ?, ?, ?, ?, 1)
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
