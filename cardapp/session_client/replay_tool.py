"""The session's tool ``checkpoint_replay``: its arguments, and what is kept of its result."""

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
    """The arguments to replay ``snapshot`` within ``seconds``; ``fresh`` starts the program again."""
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
    """``observed`` of an operation: the place, each comparison with the card, the values and the allocator."""
    return {
        "file": reading["file"],
        "line": reading["line"],
        "function": reading["function"],
        "checks": [check.as_json() for check in found],
        "values": reading["values"],
        "allocator": reading["allocator"],
        "method": reading["method"],
    }
