"""Describes the allocator's state that the debugger read at a checkpoint, and what changed since the previous one."""

from __future__ import annotations

from typing import Any

Reading = dict[str, Any]


def describe(reading: Reading) -> dict[str, Any]:
    """Add derived values to a reading ``{base, size, used, high_water, blocks: [{offset, size, label}]}`` (bytes).

    The values are the allocation pointer (the address of the next free byte), the free bytes, the occupancy (0 to 1),
    and the padding of each block: the bytes between the end of the previous block and the start of this block. Linked
    nodes have no arena, so all of these are None or 0; the offset of a block is the node's address.
    """
    if reading["base"] is None:
        nothing = dict.fromkeys(["base", "size", "used", "free", "high_water", "allocation_pointer", "occupancy"])
        return {**nothing, "blocks": [{**block, "padding": 0} for block in reading["blocks"]]}
    size, used = reading["size"], reading["used"]
    return {
        "base": reading["base"],
        "size": size,
        "used": used,
        "free": size - used,
        "high_water": reading["high_water"],
        "allocation_pointer": reading["base"] + used,
        "occupancy": round(used / size, 6) if size else 0.0,
        "blocks": _with_padding(reading["blocks"]),
    }


def _with_padding(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    described, end = [], 0
    for block in blocks:
        padding = max(block["offset"] - end, 0)
        described.append({**block, "padding": padding})
        end = block["offset"] + block["size"]
    return described


def difference(previous: Reading | None, current: Reading) -> dict[str, Any] | None:
    """Return the changes from ``previous`` to ``current``, or None if there is no previous reading.

    The changes of an arena's figures are None for linked nodes.

    Two blocks are the same if offset, size and label are equal. A changed block counts as one removed and one added.
    """
    if previous is None:
        return None
    before, after = _identities(previous), _identities(current)
    return {
        "used": _change(previous["used"], current["used"]),
        "size": _change(previous["size"], current["size"]),
        "high_water": _change(previous["high_water"], current["high_water"]),
        "added": [dict(block) for block in current["blocks"] if _identity(block) not in before],
        "removed": [dict(block) for block in previous["blocks"] if _identity(block) not in after],
    }


def _change(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _identity(block: dict[str, Any]) -> tuple[int, int, str | None]:
    return block["offset"], block["size"], block["label"]


def _identities(reading: Reading) -> set[tuple[int, int, str | None]]:
    return {_identity(block) for block in reading["blocks"]}
