"""The rules of the saved position: how it is set, moved and repaired, and which checkpoint it selects.

Source of the rules: "Navigation" in the card contract. A position names the ids from the task down to its focus level.
A move goes along one level in document order, also from one parent to the next, and stops at the first and the last
item. Positions on a block, phase, step or snapshot select a checkpoint. Nothing in this module starts a replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from cardapp.card.catalog import Catalog, Item, depth
from cardapp.card.model import LEVELS, Level
from cardapp.errors import FieldError, InvalidValue, LevelNotSyncable

AtEnd = Literal["first", "last"]
ID_FIELDS = ("task_id", "block_id", "phase_id", "step_id", "snapshot_ref")


@dataclass(frozen=True)
class Position:
    """A position. ``snapshot_ref`` is the full key of the snapshot; the other fields are single ids. None means that
    nothing is selected on that level."""

    task_id: str | None = None
    block_id: str | None = None
    phase_id: str | None = None
    step_id: str | None = None
    snapshot_ref: str | None = None
    focus_level: Level = "card"
    sync_requested: bool = False
    actor: str = "api"

    def as_json(self) -> dict[str, Any]:
        return {
            "task_id": self.task_id,
            "block_id": self.block_id,
            "phase_id": self.phase_id,
            "step_id": self.step_id,
            "snapshot_ref": self.snapshot_ref,
            "focus_level": self.focus_level,
            "sync_requested": self.sync_requested,
            "actor": self.actor,
        }


FRESH = Position()


@dataclass(frozen=True)
class Moved:
    """The result of a move: the new position, the number of items moved, and whether the position is the first or the
    last item of its level."""

    position: Position
    moved: int
    at_end: AtEnd | None


def ids(position: Position) -> list[str]:
    """The ids from the task down to the deepest selected item; joined by "/" they are its key."""
    chosen = [position.task_id, position.block_id, position.phase_id, position.step_id]
    if position.snapshot_ref is not None:
        return position.snapshot_ref.split("/")
    return [name for name in chosen if name is not None]


def key_of(position: Position) -> str:
    """The key of the focused item."""
    return "/".join(ids(position)[: depth(position.focus_level)])


def index_of(catalog: Catalog, position: Position) -> dict[str, int | None]:
    """The index on each level from task to snapshot; None for levels below the deepest selected item."""
    parts = ids(position)
    return {
        level: catalog.item("/".join(parts[: depth(level)])).index if len(parts) >= depth(level) else None
        for level in LEVELS[1:]
    }


def at_item(item: Item, *, sync_requested: bool = False, actor: str = "api") -> Position:
    """The position that focuses ``item`` and selects nothing below it."""
    parts = item.key.split("/") if item.key else []
    padded: list[str | None] = [*parts, *[None] * (4 - len(parts))]
    return Position(
        task_id=padded[0],
        block_id=padded[1],
        phase_id=padded[2],
        step_id=padded[3],
        snapshot_ref=item.key if item.level == "snapshot" else None,
        focus_level=item.level,
        sync_requested=sync_requested,
        actor=actor,
    )


# -- setting -------------------------------------------------------------------------------------------------------


def from_request(catalog: Catalog, body: dict[str, Any]) -> Position:
    """Read the position from a request body that meets its schema.

    :raises InvalidValue: names every invalid field.
    """
    focus = body["focus_level"]
    parts = _requested_ids(body, depth(focus))
    _check_path(catalog, parts)
    padded: list[str | None] = [*parts, *[None] * (5 - len(parts))]
    return Position(
        task_id=padded[0],
        block_id=padded[1],
        phase_id=padded[2],
        step_id=padded[3],
        snapshot_ref="/".join(parts) if len(parts) == 5 else None,
        focus_level=focus,
        sync_requested=body.get("sync_requested", False),
        actor=body.get("actor", "api"),
    )


def _requested_ids(body: dict[str, Any], needed: int) -> list[str]:
    """The ids that the body gives, from the task down at least to the focus level.

    :raises InvalidValue: an id in between is missing, or ``snapshot_ref`` is the key of another step's snapshot.
    """
    given = [body.get(field) for field in ID_FIELDS]
    deepest = max([needed, *(place + 1 for place, value in enumerate(given) if value is not None)])
    missing = [field for field, value in zip(ID_FIELDS[:deepest], given, strict=False) if value is None]
    if missing:
        raise InvalidValue(
            f"{', '.join(missing)} must be given: a position needs every id from the task down",
            errors=tuple(FieldError(f"/{field}", "must be given") for field in missing),
        )
    parts = [str(value) for value in given[:deepest]]
    if deepest == 5 and "/" in parts[4]:
        *parents, snapshot_id = parts[4].split("/")
        if parents != parts[:4]:
            raise InvalidValue.of("/snapshot_ref", f"{parts[4]!r} is not in the step {'/'.join(parts[:4])!r}")
        parts[4] = snapshot_id
    return parts


def _check_path(catalog: Catalog, parts: list[str]) -> None:
    for place, name in enumerate(parts):
        if catalog.find("/".join(parts[: place + 1])) is None:
            parent = "/".join(parts[:place]) or "this card"
            raise InvalidValue.of(f"/{ID_FIELDS[place]}", f"{name!r} is not a {LEVELS[place + 1]} of {parent}")


# -- moving --------------------------------------------------------------------------------------------------------


def move(catalog: Catalog, position: Position, level: Level, delta: int) -> Moved:
    """Move by ``delta`` items along ``level``, at most to its first or last item. ``delta`` is not 0.

    If the position has no item on that level, a move by +1 goes to its first descendant on the level, and a move by -1
    to the item before that descendant. A move that reaches no other item changes nothing, not even the focus level.
    """
    items = catalog.at(level)
    origin = _origin(catalog, position, level, delta)
    target = min(max(origin + delta, 0), len(items) - 1)
    moved = target - origin
    if moved == 0:
        return Moved(position, 0, "last" if delta > 0 else "first")
    reached = at_item(items[target], sync_requested=position.sync_requested, actor=position.actor)
    return Moved(reached, moved, _end(target, len(items), delta))


def _origin(catalog: Catalog, position: Position, level: Level, delta: int) -> int:
    """The index to which ``delta`` is added."""
    parts = ids(position)
    wanted = depth(level)
    if len(parts) >= wanted:
        return catalog.item("/".join(parts[:wanted])).index
    first_descendant = catalog.item("/".join(parts)).before[wanted]
    return first_descendant - 1 if delta > 0 else first_descendant


def _end(index: int, count: int, delta: int) -> AtEnd | None:
    at_first, at_last = index == 0, index == count - 1
    if at_first and at_last:
        return "last" if delta > 0 else "first"
    return "first" if at_first else "last" if at_last else None


# -- other rules ---------------------------------------------------------------------------------------------------


def repair(catalog: Catalog, position: Position) -> Position:
    """Return the position if all its ids exist in the card, otherwise its nearest ancestor that exists."""
    parts = ids(position)
    existing = 0
    while existing < len(parts) and catalog.find("/".join(parts[: existing + 1])) is not None:
        existing += 1
    if existing == len(parts):
        return position
    ancestor = catalog.item("/".join(parts[:existing]))
    kept = at_item(ancestor, sync_requested=position.sync_requested, actor=position.actor)
    if depth(position.focus_level) < existing:
        return replace(kept, focus_level=position.focus_level)
    return kept


def sync_target(catalog: Catalog, position: Position) -> str:
    """The key of the snapshot that a sync replays.

    :raises LevelNotSyncable: the focus level is card or task.
    """
    level = position.focus_level
    if level in ("card", "task"):
        raise LevelNotSyncable(
            f"the position is a {level}, which has no checkpoint: move to a block, phase, step or snapshot first"
        )
    if level in ("step", "snapshot") and position.snapshot_ref is not None:
        return position.snapshot_ref
    return catalog.item(key_of(position)).first_snapshot
