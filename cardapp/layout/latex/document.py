"""Writes the LaTeX file of a card, for one run of lualatex: preamble, bookmarks, and the sheets with their parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from cardapp.card.catalog import Catalog, depth
from cardapp.layout.annotations import pens
from cardapp.layout.escape import tex_line
from cardapp.layout.latex.annotation_layer import layer
from cardapp.layout.latex.parts import MARK, Parts, fill, numbers
from cardapp.layout.latex.preamble import named_where_missing, preamble
from cardapp.layout.layout_model import Component, Frame
from cardapp.layout.part_names import pieces
from cardapp.layout.sheets import Document, Footer, Header, Sheet, rows_with_rules

CARD = "card"
"""The name of the card's anchor. The card's key is empty, so it cannot be the name."""
_RULE, _RULE_GAP = 0.25, 1.4
"""The rule of header and footer: its thickness in mm, and its distance to the text."""


def render(document: Document) -> str:
    """Return the LaTeX source, to be encoded as UTF-8."""
    body = "\n".join(_body(document))
    characters = sorted({char for char in body if ord(char) > 0x7E})
    head = preamble(document.card, document.identity, document.layout, characters)
    return f"{head}\n\\begin{{document}}\n{named_where_missing(characters)}\n{body}\n\\end{{document}}\n"


def place_of(tex: str, number: int) -> str:
    """Return the kind and key of the part to which a line belongs; "" if the line is before the first part. ``tex`` is
    a result of ``render``, and ``number`` is the number of the line, from 1."""
    above = (each for each in reversed(tex.split("\n")[:number]) if each.startswith(MARK))
    return next(above, MARK).removeprefix(MARK)


def _body(document: Document) -> Iterator[str]:
    catalog = Catalog(document.card)
    parts = Parts(document.layout, {item.key for item in catalog.items})
    owned = {part.key for sheet in document.sheets for part in sheet.parts}
    partless: dict[int, list[str]] = defaultdict(list)
    for item in catalog.items:
        if item.key not in owned:
            partless[document.sheet_of[item.key]].append(item.key)
    drawable, colors = pieces(document), pens(document.layout.colors)
    yield from _bookmarks(catalog)
    for sheet in document.sheets:
        yield r"\begin{CardSheet}"
        yield from _header_and_footer(document, sheet, parts)
        yield from (_anchor(key, document.layout.grid.body) for key in partless[sheet.index])
        for row in rows_with_rules(sheet.parts, document.layout.grid, document.layout.latex):
            yield from (fill("rule", divider) for divider in row.dividers)
            yield from (fill("accent", bar) for bar in row.bars)
            for part in row.parts:
                if part.key in owned:
                    owned.remove(part.key)
                    yield _anchor(part.key, part.frame)
                yield from parts.draw(part)
        for part, piece in zip(sheet.parts, drawable[sheet.index], strict=True):
            if found := [shown for each in document.annotations.get(piece.name, ()) if (shown := piece.shown(each))]:
                yield from layer(part.key, part.frame, piece, found, colors)
        yield r"\end{CardSheet}"


def _anchor(key: str, frame: Frame) -> str:
    return rf"\CardAnchor{{{key or CARD}}}{{{frame.x:.3f}}}{{{frame.y:.3f}}}"


def _bookmarks(catalog: Catalog) -> Iterator[str]:
    """Yield the bookmarks of tasks, blocks, phases and steps, with the numbers of their titles."""
    numbers: list[int] = []
    for item in catalog.items:
        if item.level in ("card", "snapshot"):
            continue
        deep = depth(item.level)
        numbers[deep - 1 :] = [numbers[deep - 1] + 1 if len(numbers) >= deep else 1]
        number = ".".join(map(str, numbers))
        yield rf"\bookmark[level={deep - 1},dest={item.key}]{{{number} {tex_line(item.title)}}}"


# -- header and footer ---------------------------------------------------------------------------------------------


def _header_and_footer(document: Document, sheet: Sheet, parts: Parts) -> Iterator[str]:
    shown, grid = document.layout.components, document.layout.grid
    if header := shown.get("header"):
        yield from _edge_line("header", grid.header, header, parts, _header(sheet.header))
    if footer := shown.get("footer"):
        yield from _edge_line("footer", grid.footer, footer, parts, _footer(sheet.footer))


def _edge_line(kind: str, frame: Frame, component: Component, parts: Parts, text: str) -> Iterator[str]:
    """Yield one line of text at the outer edge of a frame, and the component's rule at its inner edge."""
    yield f"{MARK}{kind}"
    line = parts.line(component.size)
    is_header = kind == "header"
    top = frame.y if is_header else frame.y + frame.height - line
    if component.rule:
        below = top + line + _RULE_GAP if is_header else top - _RULE_GAP - _RULE
        yield fill(component.rule, Frame(frame.x, below, frame.width, _RULE))
    row = Frame(frame.x, top, frame.width, line)
    yield rf"\begin{{CardPart}}{{{kind}}}{numbers(row)}{{{component.color}}}"
    yield parts.type(component.size)
    yield text
    yield r"\end{CardPart}"


def _header(header: Header) -> str:
    trail = r" \CardTrail{} ".join(tex_line(title) for title in (header.task, header.block) if title)
    where = " · ".join(filter(None, [trail, "continued" if header.continued else ""]))
    return rf"\CardHeader{{{tex_line(header.card)}}}{{{where}}}"


def _footer(footer: Footer) -> str:
    return (
        rf"\CardFooter{{{tex_line(f'{footer.id} {footer.version}')}}}{{source \CardCode{{{footer.sha256}}}}}"
        rf"{{{tex_line(footer.proved)}}}{{sheet {footer.number} of {footer.count}}}"
    )
