"""The published snapshot of each card: the one that the program reached last, and whether SYNC is on.

Only a checkpoint that ends as ``ready`` publishes. When SYNC goes off, the publication is kept with the reason, so that
the page can show both.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Publication:
    """``key`` is the full key of the snapshot, ``reason`` why SYNC is off (None while on).

    ``observed`` is what the replay observed there. ``previous_key`` and ``previous_observed`` belong to the last
    publication of another snapshot, None if there was none; the allocator's difference is computed from them.
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
  -- If the same snapshot is published again, keep its predecessor: a difference to itself would be empty.
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


def switch_off(conn: sqlite3.Connection, uuid: str, reason: str, at: str) -> bool:
    """Switch SYNC off with a reason; False if it was off already, then the first reason is kept."""
    changed = conn.execute(
        "UPDATE publication SET sync = 'off', reason = ?, updated_at = ?, revision = revision + 1 "
        "WHERE card_uuid = ? AND sync = 'on'",
        (reason, at, uuid),
    )
    return changed.rowcount == 1
