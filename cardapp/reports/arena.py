"""The figure of an arena at a checkpoint: its memory as a bar, and a caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cardapp.layout.diagram import memory, svg
from cardapp.layout.diagram.arena import arena_from_reading
from cardapp.layout.escape import html

_LENGTH = 120.0
"""In mm. At the page's width, the diagram's text has the size of the caption."""


def figure(name: str, reading: Mapping[str, Any]) -> str:
    """The figure of a reading ``{base, size, used, high_water, blocks}``; "" if the reading is invalid. ``name`` is
    unique on the page."""
    arena = arena_from_reading(reading)
    if arena is None:
        return ""
    diagram = svg.render(memory.strip(name, "the arena", arena, _LENGTH))
    return f'<figure class="arena">{diagram}<figcaption>{html(memory.occupancy(arena))}</figcaption></figure>\n'
