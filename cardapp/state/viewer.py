"""The stored viewer state of each card, as a JSON object; ``card/viewer.py`` has its rules."""

from __future__ import annotations

import json
import sqlite3
from typing import Any


def load(conn: sqlite3.Connection, uuid: str) -> tuple[dict[str, Any] | None, int]:
    """The state and its revision; (None, 0) before the first save."""
    row = conn.execute("SELECT state, revision FROM viewer WHERE card_uuid = ?", (uuid,)).fetchone()
    if row is None:
        return None, 0
    return json.loads(row["state"]), row["revision"]


def save(conn: sqlite3.Connection, uuid: str, state: dict[str, Any], at: str) -> int:
    """Replace the card's state and return its revision, which is incremented."""
    row = conn.execute(
        """
        INSERT INTO viewer (card_uuid, state, updated_at, revision) VALUES (?, ?, ?, 1)
        ON CONFLICT (card_uuid) DO UPDATE SET
          state = excluded.state, updated_at = excluded.updated_at, revision = revision + 1
        RETURNING revision
        """,
        (uuid, json.dumps(state, ensure_ascii=False), at),
    ).fetchone()
    return int(row["revision"])
