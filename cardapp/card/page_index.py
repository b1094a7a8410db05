"""The page of each position. A page is a block with all its sheets.

A page is not a sheet, because the saved view (``scroll.page_index``) must stay valid when a block's number of sheets
changes. The card and a task belong to the page of their first block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cardapp.card.model import LEVELS, Card


def page_index(card: Card) -> dict[str, int]:
    """The page index (from 0) of every position, by key in document order."""
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
