"""The stored results of checkpoints: the greatest generation, and for each card the last operation, the last result of
each step, and the publication. The generation is a number that increases with each checkpoint operation.

The publication is the snapshot that the program reached last, and whether SYNC is on. Only a checkpoint that ends as
``ready`` publishes its snapshot. When SYNC is switched off, the publication stays stored with the reason, because the
page shows both. The last results belong to the current learner, everything else to the session.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from cardapp.card.progress import LastResult
from cardapp.state.database import CURRENT_LEARNER


def load_generation(conn: sqlite3.Connection) -> int:
    """The greatest generation used up to now; 0 in a new database. All cards share this counter."""
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
    """The last result of each replayed step, by step key (``t1/b1/p1/s1``)."""
    rows = conn.execute(
        f"SELECT step_key, state, at, key, code FROM result WHERE learner = {CURRENT_LEARNER} AND card_uuid = ? "
        "ORDER BY step_key",
        (uuid,),
    )
    return {row["step_key"]: _result(row) for row in rows}


def load_result(conn: sqlite3.Connection, uuid: str, step_key: str) -> LastResult | None:
    """One step's last result; None if it was never replayed."""
    row = conn.execute(
        f"SELECT state, at, key, code FROM result WHERE learner = {CURRENT_LEARNER} AND card_uuid = ? AND step_key = ?",
        (uuid, step_key),
    ).fetchone()
    return None if row is None else _result(row)


def save_result(conn: sqlite3.Connection, uuid: str, step_key: str, result: LastResult) -> None:
    conn.execute(
        f"INSERT INTO result VALUES ({CURRENT_LEARNER}, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "state = excluded.state, at = excluded.at, key = excluded.key, code = excluded.code",
        (uuid, step_key, result.state, result.at, result.key, result.code),
    )


def _result(row: sqlite3.Row) -> LastResult:
    return LastResult(row["state"], row["at"], row["key"], row["code"])


# -- the published snapshot ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Publication:
    """The published snapshot of a card.

    ``key`` is the full key of the snapshot. ``reason`` says why SYNC is off; None if it is on. ``observed`` has the
    values that the replay read from the program at the snapshot. ``previous_key`` and ``previous_observed`` belong to
    the last publication of another snapshot; None if there was none. The changes of the allocator are the differences
    between ``previous_observed`` and ``observed``.
    """

    sync: Literal["on", "off"]
    key: str
    page_index: int
    operation_id: str
    generation: int
    stop_id: str
    binding: dict[str, Any]
    instance: str
    socket: str
    source_sha256: str
    observed: dict[str, Any]
    previous_key: str | None
    previous_observed: dict[str, Any] | None
    reason: str | None
    updated_at: str
    revision: int


def load_publication(conn: sqlite3.Connection, uuid: str) -> Publication | None:
    """The card's publication; None before its first ready checkpoint."""
    row = conn.execute("SELECT * FROM publication WHERE card_uuid = ?", (uuid,)).fetchone()
    if row is None:
        return None
    return Publication(
        sync=row["sync"],
        key=row["key"],
        page_index=row["page_index"],
        operation_id=row["operation_id"],
        generation=row["generation"],
        stop_id=row["stop_id"],
        binding=json.loads(row["binding"]),
        instance=row["instance"],
        socket=row["socket"],
        source_sha256=row["source_sha256"],
        observed=json.loads(row["observed"]),
        previous_key=row["previous_key"],
        previous_observed=row["previous_observed"] and json.loads(row["previous_observed"]),
        reason=row["reason"],
        updated_at=row["updated_at"],
        revision=row["revision"],
    )


_PUBLISH = """
INSERT INTO publication (card_uuid, sync, key, page_index, operation_id, generation, stop_id, binding, instance,
                         socket, source_sha256, observed, reason, updated_at, revision)
VALUES (?, 'on', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, 1)
ON CONFLICT (card_uuid) DO UPDATE SET
  sync = 'on', key = excluded.key, page_index = excluded.page_index, operation_id = excluded.operation_id,
  generation = excluded.generation, stop_id = excluded.stop_id, binding = excluded.binding,
  instance = excluded.instance, socket = excluded.socket, source_sha256 = excluded.source_sha256,
  -- If the same snapshot is published again, keep the previous snapshot: a snapshot does not differ from itself.
  previous_key = CASE WHEN key = excluded.key THEN previous_key ELSE key END,
  previous_observed = CASE WHEN key = excluded.key THEN previous_observed ELSE observed END,
  observed = excluded.observed,
  reason = NULL, updated_at = excluded.updated_at,
  revision = revision + 1
RETURNING revision
"""


def publish(
    conn: sqlite3.Connection,
    uuid: str,
    *,
    key: str,
    page_index: int,
    operation_id: str,
    generation: int,
    stop_id: str,
    binding: dict[str, Any],
    instance: str,
    socket: str,
    source_sha256: str,
    observed: dict[str, Any],
    at: str,
) -> int:
    """Publish a snapshot with SYNC on; returns the publication's revision."""
    row = conn.execute(
        _PUBLISH,
        (
            uuid,
            key,
            page_index,
            operation_id,
            generation,
            stop_id,
            json.dumps(binding, ensure_ascii=False),
            instance,
            socket,
            source_sha256,
            json.dumps(observed, ensure_ascii=False),
            at,
        ),
    ).fetchone()
    return int(row["revision"])


def switch_off(conn: sqlite3.Connection, uuid: str, reason: str, at: str, *, replacing: str | None = None) -> bool:
    """Switch SYNC off for a reason. If it is off already, return False and keep the first reason, unless the first
    reason is ``replacing``."""
    changed = conn.execute(
        "UPDATE publication SET sync = 'off', reason = ?, updated_at = ?, revision = revision + 1 "
        "WHERE card_uuid = ? AND (sync = 'on' OR reason = ?)",
        (reason, at, uuid, replacing),
    )
    return changed.rowcount == 1
