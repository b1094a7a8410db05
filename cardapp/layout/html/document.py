"""Writes the HTML file of a card: head, table of contents, and the sheets with header, parts and footer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice

from cardapp.card.catalog import Catalog
from cardapp.layout.escape import html, percent_encoded
from cardapp.layout.html.parts import Parts
from cardapp.layout.html.sheet_style import style
from cardapp.layout.layout_model import Layout
from cardapp.layout.layout_options import ALL
from cardapp.layout.part_names import pieces
from cardapp.layout.sheets import Document, Footer, Header, Part, Sheet, SheetRow, rows_with_rules

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'"
)
"""This policy allows no script and no other file. Inline styles are needed for the positions of the parts."""


def render(document: Document) -> Iterator[str]:
    """Yield the file in pieces, at least one per sheet."""
    catalog = Catalog(document.card)
    writer = SheetWriter(document)
    yield _head(document)
    yield _contents(document, catalog)
    yield f'<main id="{_MAIN}" tabindex="-1">\n'
    if "card_title" not in document.layout.components:
        yield f'<h1 class="unseen">{html(document.card.title)}</h1>\n'
    for _, page in groupby(document.sheets, lambda sheet: sheet.page_index):
        yield "<article>\n"
        for sheet in page:
            yield writer.sheet(sheet)
        yield "</article>\n"
    yield "</main>\n</body>\n</html>\n"


_MAIN = "sheets."
"""The emitter adds this id. Its full stop prevents a conflict, because no id of a card contains one."""


class SheetWriter:
    """Writes the sheets of one document, in any order. If ``keyed`` is true, each part has attributes for scripts: its
    position, kind and name."""

    def __init__(self, document: Document, *, keyed: bool = False) -> None:
        titles = {item.key: item.title for item in Catalog(document.card).items}
        self._document = document
        self._anchors = _Anchors(document, titles)
        self._pieces = pieces(document)
        self._parts = Parts(document.layout, titles, document.card.language, document.annotations, keyed=keyed)

    def sheet(self, sheet: Sheet) -> str:
        """Render the sheet as a ``<section>``."""
        layout = self._document.layout
        further = self._anchors.further(sheet)
        drawn = [
            self._parts.draw(part, piece, self._anchors.of(sheet, place), further.get(place, ()))
            for place, (part, piece) in enumerate(zip(sheet.parts, self._pieces[sheet.index], strict=True))
        ]
        inner = "".join(drawn if layout.html == "classic" else _in_rows(sheet.parts, drawn, layout))
        header = _header(sheet.header) if "header" in layout.components else ""
        footer = _footer(sheet.footer) if "footer" in layout.components else ""
        return f'<section class="sheet" id="sheet.{sheet.index + 1}">\n{header}{inner}{footer}</section>\n'


class _Anchors:
    """Assigns each position to a part, its anchor. This is the position's first part. A position without a part gets,
    on the sheet where it begins, the first part of a position within it, otherwise the last part of a position that
    contains it."""

    def __init__(self, document: Document, titles: Mapping[str, str]) -> None:
        self._keys: dict[tuple[int, int], str] = {}
        self._further: dict[int, list[str]] = defaultdict(list)
        assigned: set[str] = set()
        for sheet in document.sheets:
            for place, part in enumerate(sheet.parts):
                if part.key and part.key not in assigned:
                    assigned.add(part.key)
                    self._keys[sheet.index, place] = part.key
        for key in titles:
            if key and key not in assigned:
                self._further[document.sheet_of[key]].append(key)

    def of(self, sheet: Sheet, place: int) -> str:
        """Return the position whose first part is at the index ``place`` of the sheet, or "" if there is none."""
        return self._keys.get((sheet.index, place), "")

    def further(self, sheet: Sheet) -> Mapping[int, Sequence[str]]:
        """Return the positions without a part, by the index of their anchor on the sheet."""
        found: dict[int, list[str]] = defaultdict(list)
        for key in self._further.get(sheet.index, ()):
            found[_nearest(key, sheet.parts)].append(key)
        return found


def _nearest(key: str, parts: Sequence[Part]) -> int:
    within = (place for place, part in enumerate(parts) if part.key.startswith(f"{key}/"))
    above = (place for place, part in enumerate(parts) if part.key and key.startswith(f"{part.key}/"))
    return next(within, max(above, default=0))


def _head(document: Document) -> str:
    card, layout, identity = document.card, document.layout, document.identity
    return (
        f'<!DOCTYPE html>\n<html lang="{html(card.language)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html(CONTENT_SECURITY_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="card" content="{html(identity.id)} {html(identity.version)} {html(identity.source_sha256)}">\n'
        f'<meta name="layout" content="{html(layout.id)} {html(layout.version)}">\n'
        f"<title>{html(card.title)}</title>\n<style>\n{style(layout)}</style>\n</head>\n"
        f'<body class="emitter-{layout.html}">\n<a class="skip" href="#{_MAIN}" lang="en">Skip to the sheets</a>\n'
    )


def _contents(document: Document, catalog: Catalog) -> str:
    """Render the table of contents. It is for the screen only; on paper the overview diagram lists tasks and blocks."""
    entries = []
    for number, task in enumerate(document.card.tasks, 1):
        blocks = "".join(
            f"<li>{_entry(document, f'{task.id}/{block.id}', f'{number}.{place}', block.title)}</li>\n"
            for place, block in enumerate(task.blocks, 1)
        )
        entries.append(f"<li>{_entry(document, task.id, str(number), task.title)}\n<ul>\n{blocks}</ul></li>\n")
    return (
        '<nav aria-labelledby="contents.">\n<p id="contents." lang="en">Contents</p>\n'
        f"<ul>\n{''.join(entries)}</ul>\n</nav>\n"
    )


def _entry(document: Document, key: str, number: str, title: str) -> str:
    sheet = document.sheet_of[key] + 1
    return (
        f'<a href="#{html(percent_encoded(key))}"><span class="number">{number}</span> '
        f'<span class="name" dir="auto">{html(title)}</span> <span class="sheet-number">{sheet}</span></a>'
    )


def _in_rows(parts: Sequence[Part], drawn: Iterable[str], layout: Layout) -> Iterator[str]:
    """Yield the parts for 5a and 5b. Each row is a group with lines between its columns."""
    rest = iter(drawn)
    for row in rows_with_rules(parts, layout.grid, layout.html):
        content = "".join(islice(rest, len(row.parts)))
        if {part.column for part in row.parts} == {ALL}:
            yield content
        else:
            yield f'<div class="band" role="group">{_lines(row)}\n{content}</div>\n'


def _lines(row: SheetRow) -> str:
    return "".join(
        f'<div class="{name}" style="--x:{line.x:.2f};--y:{line.y:.2f};--w:{line.width:.2f};--h:{line.height:.2f}">'
        "</div>"
        for name, lines in (("divider", row.dividers), ("bar", row.bars))
        for line in lines
    )


def _header(header: Header) -> str:
    trail = [f'<span dir="auto">{html(title)}</span>' for title in (header.task, header.block) if title]
    more = ['<span lang="en">continued</span>'] if header.continued else []
    card, where = f'<span dir="auto">{html(header.card)}</span>', " · ".join(trail + more)
    return f'<header class="header">{card}<span>{where}</span></header>\n'


def _footer(footer: Footer) -> str:
    proved = f"<span>{html(footer.proved)}</span>" if footer.proved else ""
    return (
        f'<footer class="footer" lang="en"><span>{html(footer.id)} {html(footer.version)}</span>'
        f"<span>source <code>{html(footer.sha256)}</code></span>{proved}"
        f"<span>sheet {footer.number} of {footer.count}</span></footer>\n"
    )
