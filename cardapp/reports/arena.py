"""A picture of an arena at one checkpoint, as inline SVG: blocks to scale, the gaps between them, what is free.

Geometry stands in attributes and colours in the report's style sheet, so that no inline style is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cardapp.card.allocator import describe
from cardapp.layout.escape import html

_WIDTH, _HEIGHT = 1000, 56
_LABEL_ROOM = 11
"""Width of a character of a label in the picture's units; a label that does not fit is left to the tooltip."""


def svg(reading: Mapping[str, Any]) -> str:
    """The picture and caption of a reading {base, size, used, high_water, blocks}; "" for one that cannot be drawn."""
    try:
        model = describe(dict(reading))
        size, used = int(model["size"]), int(model["used"])
        if size <= 0:
            return ""
        shapes = "".join(_shapes(model, _WIDTH / max(size, used)))
    except (KeyError, TypeError, ValueError):
        return ""
    count = len(model["blocks"])
    caption = f"{used} of {size} bytes used ({used / size:.0%}), {count} {'block' if count == 1 else 'blocks'}"
    if model["high_water"] is not None:
        caption += f", high water {model['high_water']}"
    return (
        f'<figure class="arena"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{html(caption)}">'
        f'<rect class="free" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>{shapes}</svg>'
        f"<figcaption>{html(caption)}</figcaption></figure>\n"
    )


def _shapes(model: Mapping[str, Any], scale: float) -> Iterator[str]:
    for number, block in enumerate(model["blocks"]):
        offset, size = int(block["offset"]), int(block["size"])
        if block["padding"]:
            yield _rect(
                "gap", offset - block["padding"], block["padding"], scale, f"{block['padding']} bytes of padding"
            )
        label = block.get("label") or f"block {number}"
        yield _rect("block", offset, size, scale, f"{label}: {size} bytes at offset {offset}")
        if size * scale > len(label) * _LABEL_ROOM:
            yield f'<text x="{(offset + size / 2) * scale:.1f}" y="{_HEIGHT / 2 + 6:.0f}">{html(label)}</text>'
    yield _mark("pointer", int(model["used"]), scale, "allocation pointer")
    if model["high_water"] is not None:
        yield _mark("water", int(model["high_water"]), scale, "high water")


def _rect(name: str, offset: int, size: int, scale: float, title: str) -> str:
    x, width = offset * scale, max(size * scale - 2, 1)
    return (
        f'<rect class="{name}" x="{x:.1f}" y="4" width="{width:.1f}" height="{_HEIGHT - 8}" rx="4">'
        f"<title>{html(title)}</title></rect>"
    )


def _mark(name: str, offset: int, scale: float, title: str) -> str:
    x = offset * scale
    return f'<path class="{name}" d="M{x:.1f} 0v{_HEIGHT}"><title>{html(f"{title} at offset {offset}")}</title></path>'
