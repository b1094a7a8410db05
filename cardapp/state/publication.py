"""What is published of each card: the snapshot at which program and page stand together, and whether they still do.

Only a checkpoint that ended ``ready`` publishes. Switching off keeps what was published, so that a page can say what
was lost and why.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Publication:
    """``key`` is the full key of the snapshot, ``reason`` why sync is off (None while on).

    ``observed`` is what the replay saw there; ``previous_key`` and ``previous_observed`` are those of the publication
    of another snapshot before it (None at the first), from which the allocator's difference is made.
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


def load(conn: sqlite3.Connection, uuid: str) -> Publication | None:
    """None until the card's first checkpoint was published."""
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
  -- The same snapshot again is no predecessor of itself: what it changed would all be nothing.
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
    """Publish a snapshot with sync on, and return the publication's revision."""
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


def switch_off(conn: sqlite3.Connection, uuid: str, reason: str, at: str) -> bool:
    """Switch sync off and keep the reason; False when it was off already (the first reason stays)."""
    changed = conn.execute(
        "UPDATE publication SET sync = 'off', reason = ?, updated_at = ?, revision = revision + 1 "
        "WHERE card_uuid = ? AND sync = 'on'",
        (reason, at, uuid),
    )
    return changed.rowcount == 1
