"""The session's replay tool, as its callers use it: what is asked of it, and what of its report is kept."""

from __future__ import annotations

from typing import Any

from cardapp.card import proof
from cardapp.card.model import AllocatorRecipe, Snapshot

TOOL = "checkpoint_replay"


def arguments(
    binding: dict[str, str],
    generation: int,
    key: str,
    snapshot: Snapshot,
    allocator: AllocatorRecipe | None,
    *,
    seconds: float,
    fresh: bool = False,
) -> dict[str, Any]:
    """What the tool takes to bring the program to ``snapshot`` within ``seconds``, started anew if ``fresh``."""
    return {
        **binding,
        "generation": generation,
        "snapshot_ref": key,
        "stop": snapshot.stop.as_json(),
        "expressions": proof.expressions(snapshot),
        "allocator": allocator.as_json() if allocator is not None else None,
        "timeout_ms": max(int(1000 * seconds), 1),
        "fresh": fresh,
    }


def observed(reading: dict[str, Any], found: list[proof.Check]) -> dict[str, Any]:
    """``observed`` of an operation: the place, every comparison, the values and the allocator."""
    return {
        "file": reading["file"],
        "line": reading["line"],
        "function": reading["function"],
        "checks": [check.as_json() for check in found],
        "values": reading["values"],
        "allocator": reading["allocator"],
        "method": reading["method"],
    }
