"""Stored results of checkpoints: the greatest generation, each card's last operation, each step's last result."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from cardapp.card.progress import LastResult


def load_generation(conn: sqlite3.Connection) -> int:
    """The greatest generation used so far, 0 in a new database; all cards share the counter."""
    return int(conn.execute("SELECT value FROM generation").fetchone()["value"])


def save_generation(conn: sqlite3.Connection, generation: int) -> int:
    """Raise the counter to at least ``generation`` and return its value; a smaller value does not lower it."""
    row = conn.execute("UPDATE generation SET value = max(value, ?) RETURNING value", (generation,)).fetchone()
    return int(row["value"])


def load_operation(conn: sqlite3.Connection, uuid: str) -> dict[str, Any] | None:
    """The card's last finished operation, as ``GET /api/checkpoint/status`` shows it; None before the first."""
    row = conn.execute("SELECT operation FROM operation WHERE card_uuid = ?", (uuid,)).fetchone()
    return None if row is None else json.loads(row["operation"])


def save_operation(conn: sqlite3.Connection, uuid: str, operation: dict[str, Any]) -> None:
    conn.execute(
        "INSERT INTO operation VALUES (?, ?) ON CONFLICT (card_uuid) DO UPDATE SET operation = excluded.operation",
        (uuid, json.dumps(operation, ensure_ascii=False)),
    )


def load_results(conn: sqlite3.Connection, uuid: str) -> dict[str, LastResult]:
    """The last results by step key (``t1/b1/p1/s1``); steps that were never replayed are absent."""
    rows = conn.execute(
        "SELECT step_key, state, at, key, code FROM result WHERE card_uuid = ? ORDER BY step_key", (uuid,)
    )
    return {row["step_key"]: _result(row) for row in rows}


def load_result(conn: sqlite3.Connection, uuid: str, step_key: str) -> LastResult | None:
    """One step's last result; None if it was never replayed."""
    row = conn.execute(
        "SELECT state, at, key, code FROM result WHERE card_uuid = ? AND step_key = ?", (uuid, step_key)
    ).fetchone()
    return None if row is None else _result(row)


def save_result(conn: sqlite3.Connection, uuid: str, step_key: str, result: LastResult) -> None:
    conn.execute(
        "INSERT INTO result VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "state = excluded.state, at = excluded.at, key = excluded.key, code = excluded.code",
        (uuid, step_key, result.state, result.at, result.key, result.code),
    )


def _result(row: sqlite3.Row) -> LastResult:
    return LastResult(row["state"], row["at"], row["key"], row["code"])
