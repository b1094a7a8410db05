"""The catalog lists every valid position of a card, in document order, with its indexes.

A key is the path of ids from the task down, ``task/block/phase/step/snapshot``; the card itself has the key "".
An index counts the items of one level over the whole card, from 0. A page is a block with all its sheets; the card and
a task belong to the page of their first block. A page is not a sheet, because the saved view (``scroll.page_index``)
must stay valid when a block's number of sheets changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cardapp.card.model import LEVELS, Card, Level, Snapshot, Step
from cardapp.errors import InvalidValue

_DEPTH: dict[str, int] = {level: depth for depth, level in enumerate(LEVELS)}
_BLOCK = _DEPTH["block"]


def depth(level: Level) -> int:
    """0 for the card, 5 for a snapshot."""
    return _DEPTH[level]


@dataclass(frozen=True)
class Item:
    """One position.

    ``before[d]`` is the number of items of depth ``d`` that begin before this item in document order. For a deeper
    level this number is also the index of this item's first descendant on that level.
    """

    key: str
    level: Level
    id: str
    title: str
    parent: str | None
    index: int
    page_index: int
    first_step: str
    first_snapshot: str
    before: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "level": self.level,
            "id": self.id,
            "title": self.title,
            "parent": self.parent,
            "index": self.index,
            "page_index": self.page_index,
            "first_step": self.first_step,
            "first_snapshot": self.first_snapshot,
        }


class Catalog:
    """All items of a card, by key, by level and in document order. ``steps`` and ``snapshots`` map keys to models."""

    def __init__(self, card: Card) -> None:
        self.steps: dict[str, Step] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.items: tuple[Item, ...] = tuple(self._walk(card))
        self._by_key = {item.key: item for item in self.items}
        self._by_level: dict[str, list[Item]] = {level: [] for level in LEVELS}
        for item in self.items:
            self._by_level[item.level].append(item)

    @property
    def counts(self) -> dict[str, int]:
        return {level: len(items) for level, items in self._by_level.items()}

    @property
    def page_count(self) -> int:
        return len(self._by_level["block"])

    def at(self, level: Level) -> list[Item]:
        """The items of one level in document order."""
        return self._by_level[level]

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def find(self, key: str) -> Item | None:
        return self._by_key.get(key)

    def title(self, key: str) -> str:
        """The title of a position; the key itself if the card has no such position."""
        found = self._by_key.get(key)
        return key if found is None else found.title

    def item(self, key: str) -> Item:
        """The item with this key; :class:`InvalidValue` if the card has none."""
        found = self._by_key.get(key)
        if found is None:
            raise InvalidValue(f"this card has no position {key!r}; GET /api/navigation/catalog lists all positions")
        return found

    def trail(self, key: str) -> list[Item]:
        """The items from the task down to ``key``, for a breadcrumb. Empty for the card."""
        parts = key.split("/") if key else []
        return [self.item("/".join(parts[: end + 1])) for end in range(len(parts))]

    def _walk(self, card: Card) -> Iterator[Item]:
        counts = [0] * len(LEVELS)
        yield from self._visit(card, "card", "", None, counts)

    def _visit(self, node: Any, level: Level, key: str, parent: str | None, counts: list[int]) -> Iterator[Item]:
        own_depth = depth(level)
        before = tuple(counts)
        yield Item(
            key=key,
            level=level,
            id=node.id,
            title=node.title,
            parent=parent,
            index=before[own_depth],
            page_index=before[_BLOCK] - (own_depth > _BLOCK),
            first_step=_first(node, level, key, "step"),
            first_snapshot=_first(node, level, key, "snapshot"),
            before=before,
        )
        counts[own_depth] += 1
        if level == "step":
            self.steps[key] = node
        if level == "snapshot":
            self.snapshots[key] = node
            return
        child_level = LEVELS[own_depth + 1]
        for child in getattr(node, f"{child_level}s"):
            yield from self._visit(child, child_level, f"{key}/{child.id}" if key else child.id, key, counts)


def _first(node: Any, level: Level, key: str, wanted: Level) -> str:
    """The key of the item's first descendant on the level ``wanted``. For an item on that level this is the item's key,
    for a deeper item the key of its ancestor on that level."""
    here, there = depth(level), depth(wanted)
    if here >= there:
        return "/".join(key.split("/")[:there])
    while here < there:
        here += 1
        node = getattr(node, f"{LEVELS[here]}s")[0]
        key = f"{key}/{node.id}" if key else node.id
    return key
