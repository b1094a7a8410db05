"""Which page holds a position: a page is a block with all its sheets, whatever the layout.

The saved view of a card (``scroll.page_index``) must not lose its place when a sheet more or less comes to a block, so
a page is no sheet. What stands above the blocks is on the page of the first block below it: the card's front opens the
first page, a task's text that of the task's first block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cardapp.card.model import LEVELS, Card


def page_index(card: Card) -> dict[str, int]:
    """The index, from 0, of the page of every position by its key, in document order."""
    pages = {"": 0}
    blocks = 0
    for task in card.tasks:
        pages[task.id] = blocks
        for block in task.blocks:
            for key in _keys(block, f"{task.id}/{block.id}", LEVELS.index("block")):
                pages[key] = blocks
            blocks += 1
    return pages


def _keys(node: Any, key: str, depth: int) -> Iterator[str]:
    yield key
    if depth + 1 < len(LEVELS):
        for child in getattr(node, f"{LEVELS[depth + 1]}s"):
            yield from _keys(child, f"{key}/{child.id}", depth + 1)
