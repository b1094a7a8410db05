"""A picture of an arena at one checkpoint: the strip of the diagrams, with what it shows said below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cardapp.layout.diagram import memory, svg
from cardapp.layout.diagram.arena import arena_from_reading
from cardapp.layout.escape import html

_LENGTH = 120.0
"""Of the strip in mm: as wide as the page, its letters are as large as the caption's."""


def figure(name: str, reading: Mapping[str, Any]) -> str:
    """The picture and caption of a reading {base, size, used, high_water, blocks}, ``name`` telling it from others of
    the page; "" for one that cannot be drawn."""
    arena = arena_from_reading(reading)
    if arena is None:
        return ""
    picture = svg.render(memory.strip(name, "the arena", arena, _LENGTH))
    return f'<figure class="arena">{picture}<figcaption>{html(memory.described(arena))}</figcaption></figure>\n'
