"""The memory map of an arena: its blocks in the order of their offsets, the padding between them, and what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cardapp.card.model import AllocatorRecipe, Snapshot
from cardapp.layout.diagram.model import Diagram, Room


@dataclass(frozen=True)
class Stretch:
    """A block that was handed out, in bytes from the arena's base. ``label`` is "" where the program keeps none."""

    offset: int
    size: int
    label: str


@dataclass(frozen=True)
class Arena:
    """What is known of an arena at a snapshot, in bytes; None is not known. ``blocks`` are in the order of their
    offsets, and may be fewer than there are."""

    base: int | None
    size: int | None
    used: int | None
    high_water: int | None
    blocks: tuple[Stretch, ...]


def seen(reading: Mapping[str, Any]) -> Arena | None:
    """The arena of a debugger's reading ``{base, size, used, high_water, blocks: [{offset, size, label}]}``; None for one
    that holds no such values."""
    raise NotImplementedError


def promised(recipe: AllocatorRecipe, snapshot: Snapshot) -> Arena | None:
    """The arena as far as the card says what it must be: the values that the snapshot expects of the recipe's
    expressions; None where it expects none of them."""
    raise NotImplementedError


def memory_map(key: str, title: str, arena: Arena, room: Room) -> tuple[Diagram, ...]:
    """The map of the arena at the snapshot ``key``, in as many diagrams as the room asks for."""
    raise NotImplementedError
