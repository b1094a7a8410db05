"""Builds the style sheet of an HTML file: the layout's tokens as custom properties, ``@page``, and ``sheet.css``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from cardapp.layout import font_metrics, layout_options, sheets
from cardapp.layout.diagram import svg
from cardapp.layout.html import theme
from cardapp.layout.layout_model import Component, Layout, Typography
from cardapp.layout.measure import TICK_BOX

_CONTENTS_PX = 340
"""The width of the table of contents beside the sheets in a wide window."""
_BACKGROUND_PX = 32
"""The minimum width of the background beside a sheet."""
_EDGES = ("header", "footer")
_DISTANCES = {
    "caption-gap": sheets.CAPTION_GAP,
    "paragraph-gap": sheets.PARAGRAPH_GAP,
    "item-gap": sheets.ITEM_GAP,
    "indent": sheets.INDENT,
    "answer": sheets.ANSWER_LINE,
    "fields-gap": sheets.FIELDS_GAP,
    "blank": sheets.BLANK,
    "expressions": sheets.TABLE_SHARE,
    "table-gap": sheets.TABLE_GAP,
    "text-table-gap": sheets.TEXT_TABLE_GAP,
    "tick-box": TICK_BOX,
}
_GENERIC = frozenset({"serif", "sans-serif", "monospace", "system-ui", "ui-serif", "ui-sans-serif", "ui-monospace"})
_FAMILY = re.compile('[^"\\\\\n]+')


def style(layout: Layout) -> str:
    """Return the style sheet, including fonts."""
    return "".join(
        (
            theme.fonts(),
            theme.BACKGROUND,
            *tokens(layout),
            svg.style(layout.colors),
            _file("sheet.css"),
            *components(layout),
            *_media(layout),
        )
    )


@cache
def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def tokens(layout: Layout) -> Iterator[str]:
    """Yield the layout's tokens as custom properties. ``--u`` is the length of a millimetre of the sheet."""
    page, type_ = layout.page, layout.typography
    yield f":root{{--u:{page.width_px / page.width:.5f}px;"
    yield f"--width:{page.width:g};--height:{page.height:g};{theme.properties(layout.colors)}"
    yield f"--text:{_family(type_, 'text')};--code:{_family(type_, 'code')};"
    yield f"--regular:{type_.weights['regular']};--strong:{type_.weights['strong']};"
    for name in type_.sizes_pt:
        yield f"--{name}-size:{_em(type_, name):.4f};--{name}-line:{type_.line_height[name]:g};"
    yield from (f"--{name}:{length:g};" for name, length in _DISTANCES.items())
    grid = layout.grid
    yield f"--body-x:{grid.body.x:.2f};--body-width:{grid.body.width:.2f};--header-y:{grid.header.y:.2f};"
    yield f"--footer-bottom:{grid.footer.y + grid.footer.height:.2f};"
    yield "}\n"


def _family(type_: Typography, name: str) -> str:
    """Return the font families in this order: the families that the layout names; the embedded family, unless the
    layout names a generic family of another kind; the embedded symbols; the generic families."""
    embedded, generic_kind = layout_options.FAMILIES[name]
    named = [family for family in type_.families[name] if family not in _GENERIC and _FAMILY.fullmatch(family)]
    generic = [family for family in type_.families[name] if family in _GENERIC]
    added = [embedded] if embedded not in named and set(generic) <= {generic_kind} else []
    return ",".join((*(f'"{family}"' for family in (*named, *added, "Noto Sans Signs")), *generic))


def _em(type_: Typography, size: str) -> float:
    return type_.sizes_pt[size] * font_metrics.MM_PER_POINT


def components(layout: Layout) -> Iterator[str]:
    """Yield the rules of each component that the layout shows."""
    for name, component in layout.components.items():
        outer = ".sheet>" if name in _EDGES else ".part"
        yield f"{outer}.{name}{{{''.join(_look(name, component))}}}\n"


def _look(name: str, component: Component) -> Iterator[str]:
    size = component.size
    yield f"font-size:calc(var(--{size}-size)*var(--u));line-height:var(--{size}-line);"
    yield f"color:var(--{_css(component.color)});"
    if name in _EDGES:
        yield f"border-color:var(--{_css(component.rule or 'paper')});"
        return
    padding = sheets.PADDING if component.background else 0.0
    rule = sheets.RULE + sheets.RULE_GAP if component.rule else 0.0
    yield f"--inset:{2 * padding + rule:g};padding:calc({padding:g}*var(--u));"
    if component.background:
        yield f"background:var(--{_css(component.background)});"
    if component.rule:
        yield f"border-left:calc({sheets.RULE:g}*var(--u)) solid var(--{_css(component.rule)});"
        yield f"padding-left:calc({padding + sheets.RULE_GAP:g}*var(--u));"


def _css(name: str) -> str:
    return name.replace("_", "-")


def _media(layout: Layout) -> Iterator[str]:
    """Yield the rules for paper, dark screens, and wide and narrow windows."""
    page = layout.page
    # The sheet includes its margins. In page margins, the browser would print its own header and footer.
    yield f"@page{{size:{page.width:g}mm {page.height:g}mm;margin:0}}\n@media print{{:root{{--u:1mm}}}}\n"
    yield f"@media screen{{:root{{--height:{page.height_px * page.width / page.width_px:.5f}}}}}\n"
    yield theme.on_dark_screen(layout.colors)
    yield f"@media screen and (min-width:{page.width_px + _CONTENTS_PX:g}px){{{_file('beside.css')}}}\n"
    yield f"@media screen and (max-width:{page.width_px + _BACKGROUND_PX:g}px){{{_file('narrow.css')}}}\n"
