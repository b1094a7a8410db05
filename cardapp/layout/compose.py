"""Composes the sheets of a card: fills pages with components, breaks them into sheets, and numbers these.

A group of rows (a step, or titles with what follows them) moves to the next sheet rather than being split, unless it is
higher than a sheet. Each component is measured a bounded number of times, so the time is linear in the card's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.layout.component_builder import ComponentBuilder, Sources
from cardapp.layout.layout_model import Layout
from cardapp.layout.measure import Measure
from cardapp.layout.pagination import Paginator
from cardapp.layout.sheets import Document, Footer, Header, Sheet

_SHORT = 12
"""Hex digits of the SHA-256 in the footer."""


def compose(card: Card, identity: Identity, layout: Layout, sources: Sources) -> Document:
    """The whole document. ``sources`` has the lines of the target's files by name; a component says which are missing.

    :raises InvalidLayout: a component does not fit any sheet.
    """
    pages = {item.key: item.page_index for item in Catalog(card).items}
    sheets = tuple(_numbered(identity, _filled(card, identity, layout, sources, pages)))
    return Document(card, identity, layout, sheets, pages, _sheet_of(pages, sheets))


def _filled(card: Card, identity: Identity, layout: Layout, sources: Sources, pages: Mapping[str, int]) -> list[Sheet]:
    measure = Measure(layout)
    builder = ComponentBuilder(card, identity, layout, sources, measure)
    paginator = Paginator(layout, measure)
    for group in builder.front():
        paginator.open("", 0, Header(card.title, "", "", False))
        paginator.place(group)
    for task_number, task in enumerate(card.tasks, 1):
        for number, block in enumerate(task.blocks, 1):
            key = f"{task.id}/{block.id}"
            paginator.open(key, pages[key], Header(card.title, task.title, block.title, False))
            for group in builder.block(task, task_number, block, number):
                paginator.place(group)
    for group in builder.colophon():
        paginator.place(group)
    return paginator.finished()


def _numbered(identity: Identity, sheets: list[Sheet]) -> Iterator[Sheet]:
    """The sheets with numbers and footers, which need the total count."""
    short = identity.source_sha256[:_SHORT]
    for _, page in groupby(sheets, lambda sheet: sheet.page_index):
        for number, sheet in enumerate(page, 1):
            footer = Footer(identity.id, identity.version, short, sheet.index + 1, len(sheets))
            yield replace(sheet, number=number, footer=footer)


def _sheet_of(pages: Mapping[str, int], sheets: tuple[Sheet, ...]) -> dict[str, int]:
    """The index of the sheet on which each position begins: the sheet of its first part, else of its parent."""
    first: dict[str, int] = {"": 0}
    for sheet in sheets:
        first.setdefault(sheet.key, sheet.index)
        for part in sheet.parts:
            first.setdefault(part.key, sheet.index)
    for key in pages:
        if key not in first:
            first[key] = first[key.rpartition("/")[0]] if "/" in key else _first_below(key, sheets)
    return {key: first[key] for key in pages}


def _first_below(task: str, sheets: tuple[Sheet, ...]) -> int:
    """The index of the sheet on which a task's first block begins."""
    return next(sheet.index for sheet in sheets if sheet.key.startswith(f"{task}/"))
