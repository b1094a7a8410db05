"""The arena model: the known values of an arena at a snapshot, and its division into regions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from cardapp.card.model import AllocatorRecipe, BlockRecipe, Snapshot

_ADDRESSES = 2**64
"""The size of the address space. No value of an arena can be greater."""

Use = Literal["used", "padding", "free", "folded"]


@dataclass(frozen=True)
class ArenaBlock:
    """An allocated block. ``offset`` (from the arena's base) and ``size`` are in bytes. ``label`` is "" if the program
    stores no label. ``index`` is the block's index in the program's list of blocks."""

    offset: int
    size: int
    label: str
    index: int


@dataclass(frozen=True)
class Arena:
    """The known values of an arena at a snapshot, in bytes; None means unknown. ``blocks`` are ordered by offset and
    may be incomplete. ``count`` is their actual number, 0 if unknown."""

    base: int | None
    size: int | None
    used: int | None
    high_water: int | None
    blocks: tuple[ArenaBlock, ...]
    count: int


class Region(NamedTuple):
    """A range of bytes with one use, from ``start`` up to ``end``. ``end`` is None if the arena's size is unknown."""

    use: Use
    start: int
    end: int | None
    name: str

    @property
    def size(self) -> int:
        return (self.end or self.start) - self.start

    @property
    def amount(self) -> str:
        if self.end is None:
            return ""
        return "1 byte" if self.size == 1 else f"{self.size} bytes"


def arena_from_reading(reading: Mapping[str, Any]) -> Arena | None:
    """Return the arena of a debugger's reading ``{base, size, used, high_water, blocks: [{offset, size, label}]}``, or
    None if the reading is invalid."""
    try:
        blocks = [
            ArenaBlock(int(block["offset"]), int(block["size"]), str(block.get("label") or ""), index)
            for index, block in enumerate(reading["blocks"])
        ]
        water = reading["high_water"]
        arena = Arena(
            int(reading["base"]),
            int(reading["size"]),
            int(reading["used"]),
            None if water is None else int(water),
            _by_offset(blocks),
            len(blocks),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    extent = max([arena.size or 0, arena.used or 0, *(block.offset + block.size for block in arena.blocks)])
    return arena if (arena.size or 0) > 0 and (arena.used or 0) >= 0 and extent <= _ADDRESSES else None


def arena_from_card(recipe: AllocatorRecipe, snapshot: Snapshot) -> Arena | None:
    """Return the arena from the values that a snapshot expects of the allocator's expressions, or None if it expects no
    value of ``used``."""
    values = {each.expression: found for each in snapshot.expect if (found := _number(each.value)) is not None}
    texts = {each.expression: each.value for each in snapshot.expect}
    used = values.get(recipe.used)
    if used is None:
        return None
    water = values.get(recipe.high_water) if recipe.high_water else None
    blocks = _by_offset(_expected_blocks(recipe.blocks, values, texts)) if recipe.blocks else ()
    count = values.get(recipe.blocks.count, 0) if recipe.blocks else 0
    return Arena(values.get(recipe.base), values.get(recipe.size), used, water, blocks, count)


def _by_offset(blocks: Iterable[ArenaBlock]) -> tuple[ArenaBlock, ...]:
    return tuple(sorted(blocks, key=lambda block: block.offset))


def _expected_blocks(
    recipe: BlockRecipe, values: Mapping[str, int], texts: Mapping[str, str]
) -> Iterator[ArenaBlock]:  # fmt: skip
    for index in range(max(0, min(values.get(recipe.count, 0), len(values)))):
        offset, size = (values.get(expression.replace("$i", str(index))) for expression in (recipe.offset, recipe.size))
        if offset is not None and size is not None:
            label = texts.get((recipe.label or "").replace("$i", str(index)), "")
            yield ArenaBlock(offset, size, label.strip('"'), index)


def _number(value: str) -> int | None:
    try:
        number = int(value, 0)
    except ValueError:
        return None
    return number if 0 <= number <= _ADDRESSES else None


def regions(arena: Arena) -> list[Region]:
    """Return the regions of an arena from its base to its end without gaps; at least one. If a block overlaps the next
    block, it ends where the next block begins. A gap between two blocks is padding only if no unknown block can be
    there."""
    found: list[Region] = []
    end, index = 0, -1
    for number, block in enumerate(arena.blocks):
        if block.offset > end:
            is_sure = block.index == index + 1 or len(arena.blocks) >= arena.count
            found.append(_between(end, block.offset, is_sure))
        following = arena.blocks[number + 1].offset if number + 1 < len(arena.blocks) else block.offset + block.size
        start = max(end, block.offset)
        end, index = max(start, min(block.offset + block.size, following)), block.index
        found.append(Region("used", start, end, block.label or f"block {index}"))
    used = max(end, arena.used or 0)
    if used > end:
        found.append(Region("used", end, used, "in use"))
    return [*found, *_free(arena, used)] or [Region("free", 0, 0, "free")]


def _between(start: int, end: int, is_padding: bool) -> Region:
    return Region("padding", start, end, "padding") if is_padding else Region("used", start, end, "in use")


def _free(arena: Arena, used: int) -> Iterator[Region]:
    water = max(arena.high_water or 0, used)
    if arena.size is not None:
        water = min(water, max(arena.size, used))
    if water > used:
        yield Region("free", used, water, "free again")
    if arena.size is None or arena.size > water:
        yield Region("free", water, arena.size, "free")
