"""Draws etc/rooms.svg from the table of rooms in README.md. Run it after a change of that table.

The picture has one panel for each product and one band for each layer. It follows the reader's light or dark setting.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "etc" / "rooms.svg"

PRODUCTS = {"cardapp": "Card application", "marketdata": "Market data"}
LAYERS = ("interface", "application", "session", "infrastructure", "model")
"""From top to bottom. Imports run downward; nothing imports the session, which is a process of its own."""
NOTES = {
    "interface": "HTTP, pages, command lines",
    "application": "the tasks of the product",
    "session": "a process of its own, reached by MCP",
    "infrastructure": "storage, protocols, other programs",
    "model": "rules without clock, socket or SQL",
}

FOOTNOTE = "Imports run downward.  ⇄  names what a room talks to"

WIDTH, MARGIN, PADDING, GAP = 920, 4, 12, 10
LINE, BAND_HEAD, PANEL_HEAD, FOOT = 15, 26, 42, 30
CHARACTER_WIDTH = 5.9  # on average, of the text of a box

STYLE = """
svg { font-family: -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
.panel { fill: #f6f8fa; stroke: #d0d7de } .box { fill: #ffffff; stroke: #d0d7de }
.title { font-size: 17px; font-weight: 600; fill: #1f2328 } .note { font-size: 12px; fill: #59636e }
.foot { font-size: 12px; fill: #768390 }
.layer { font-size: 12px; font-weight: 600 } .name { font-size: 13.5px; font-weight: 600; fill: #1f2328 }
.text { font-size: 12px; fill: #424a53 } .outside { font-size: 12px; font-weight: 600 }
.interface { fill: #0969da } .application { fill: #1a7f37 } .session { fill: #bc4c00 }
.infrastructure { fill: #8250df } .model { fill: #6e5a00 }
@media (prefers-color-scheme: dark) {
.panel { fill: #151b23; stroke: #3d444d } .box { fill: #0d1117; stroke: #3d444d }
.title, .name { fill: #f0f6fc } .note { fill: #9198a1 } .text { fill: #c4ccd5 }
.interface { fill: #58a6ff } .application { fill: #56d364 } .session { fill: #ffa657 }
.infrastructure { fill: #d2a8ff } .model { fill: #e3b341 }
}
"""


@dataclass(frozen=True)
class Room:
    """One row of the table. ``path`` is a package's folder like ``cardapp/web``, or ``cardapp/*.py``."""

    path: str
    layer: str
    purpose: str
    talks_to: str

    @property
    def product(self) -> str:
        return self.path.partition("/")[0]


def table_of_rooms() -> list[Room]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Rooms\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_/]+(?:\*\.py)?)` \| (\w+) \| (.*?) \| (.*?) ?\|$", section, re.MULTILINE)
    return [Room(path, layer, purpose.replace("`", ""), talks.replace("`", "")) for path, layer, purpose, talks in rows]


def text(x: float, y: float, kind: str, words: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, radius: int) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" class="{kind}"/>'


def box(room: Room, x: float, y: float, width: float, height: float) -> list[str]:
    characters = int((width - 20) / CHARACTER_WIDTH)
    lines = textwrap.wrap(room.purpose, characters)
    if len(lines) > (height - 30) // LINE:
        raise ValueError(f"the purpose of {room.path} needs {len(lines)} lines of {characters} characters: shorten it")
    drawn = [
        rectangle(x, y, width, height, "box", 6),
        rectangle(x, y, 4, height, room.layer, 2),
        text(x + 14, y + 19, "name", room.path.partition("/")[2]),
        *(text(x + 14, y + 37 + LINE * at, "text", line) for at, line in enumerate(lines)),
    ]
    if room.talks_to:
        outside = room.talks_to.replace(f"{room.product}/", "")
        drawn.append(
            f'<text x="{x + width - 10:g}" y="{y + 19:g}" text-anchor="end" class="outside {room.layer}">'
            f"⇄ {escape(outside)}</text>"
        )
    return drawn


def panel(rooms: list[Room], title: str, x: float, width: float) -> tuple[list[str], float]:
    """The drawn bands of one product, and how far down they reach."""
    drawn, y = [text(x + PADDING, MARGIN + 28, "title", title)], MARGIN + PANEL_HEAD
    inner = (width - 2 * PADDING - GAP) / 2
    for layer in LAYERS:
        here = [room for room in rooms if room.layer == layer]
        if here:
            drawn.append(
                f'<text x="{x + PADDING:g}" y="{y + 16:g}" class="layer {layer}">{layer}'
                f'<tspan class="note" font-weight="400" dx="8">{NOTES[layer]}</tspan></text>'
            )
            y += BAND_HEAD
        for at, room in enumerate(here):
            # The last one of an odd number has the row for itself, so that one line is enough.
            alone = at == len(here) - 1 and at % 2 == 0
            height = 3 * LINE + 4 if alone else 4 * LINE + 4
            drawn += box(room, x + PADDING + at % 2 * (inner + GAP), y, 2 * inner + GAP if alone else inner, height)
            y += height + 8 if at % 2 or alone else 0
    return drawn, y


def picture(rooms: list[Room]) -> str:
    width = (WIDTH - 2 * MARGIN - GAP) / 2
    drawn: list[str] = []
    bottoms = []
    for at, (product, title) in enumerate(PRODUCTS.items()):
        here = [room for room in rooms if room.product == product]
        own, bottom = panel(here, title, MARGIN + at * (width + GAP), width)
        drawn += own
        bottoms.append(bottom)
    height = max(bottoms) + 4
    panels = [rectangle(MARGIN + at * (width + GAP), MARGIN, width, height - MARGIN, "panel", 10) for at in range(2)]
    total = height + FOOT
    foot = f'<text x="{WIDTH / 2}" y="{height + 19:g}" text-anchor="middle" class="foot">{FOOTNOTE}</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total:g}" width="{WIDTH}" height="{total:g}"'
    return "\n".join(
        [f'{head} role="img">', "<title>The rooms of both products</title>", f"<style>{STYLE}</style>", *panels, *drawn,
         foot, "</svg>", ""]
    )  # fmt: skip


if __name__ == "__main__":
    PICTURE.write_text(picture(table_of_rooms()), encoding="utf-8")
