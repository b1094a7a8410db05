"""Composes the sheets of a card: places its components on sheets, and numbers the sheets.

A group of rows is a step, or titles with the components below them. If it does not fit a sheet, it moves to the next
one. It is split only if it is higher than a sheet. Each component is measured a bounded number of times, so the time is
linear in the card's size.
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

_SHOWN_DIGITS = 12
"""The footer shows this number of hex digits of the SHA-256."""


def compose(
    card: Card, identity: Identity, layout: Layout, sources: Sources, proved: str = "", *, running_on: bool = False
) -> Document:
    """Compose the document. ``sources`` maps the names of the target's files to their lines. If a file is missing, the
    component that shows its code says so. ``proved`` is the phrase that says on the sheets whether the card was proved.
    Each block begins on a new sheet; if ``running_on`` is true, it begins below the block before it.

    :raises InvalidLayout: a component does not fit any sheet.
    """
    pages = {item.key: item.page_index for item in Catalog(card).items}
    measure = Measure(layout)
    builder = ComponentBuilder(card, identity, layout, sources, measure)
    filled = _filled(card, builder, Paginator(layout, measure), pages, proved, layout.name if running_on else "")
    sheets = tuple(_numbered(identity, proved, filled))
    return Document(card, identity, layout, sheets, pages, _sheet_of(pages, sheets))


def _filled(
    card: Card,
    builder: ComponentBuilder,
    paginator: Paginator,
    pages: Mapping[str, int],
    proved: str,
    name: str,
) -> list[Sheet]:
    """Return the sheets, without numbers and footers. If there is a ``name``, a block begins below the block before it,
    and the headers have the name in place of the block's title."""
    for group in builder.front():
        paginator.open("", 0, Header(card.title, name, "", False))
        paginator.place(group)
    for task_number, task in enumerate(card.tasks, 1):
        for number, block in enumerate(task.blocks, 1):
            key = f"{task.id}/{block.id}"
            if not name:
                paginator.open(key, pages[key], Header(card.title, task.title, block.title, False))
            elif not paginator.is_open:
                paginator.open(key, pages[key], Header(card.title, name, "", False))
            for group in builder.block(task, task_number, block, number):
                paginator.place(group)
    for group in builder.colophon(proved):
        paginator.place(group)
    return paginator.finished()


def _numbered(identity: Identity, proved: str, sheets: list[Sheet]) -> Iterator[Sheet]:
    """Yield the sheets with numbers and footers. The footers need the total number of sheets."""
    short = identity.source_sha256[:_SHOWN_DIGITS]
    for _, page in groupby(sheets, lambda sheet: sheet.page_index):
        for number, sheet in enumerate(page, 1):
            footer = Footer(identity.id, identity.version, short, proved, sheet.index + 1, len(sheets))
            yield replace(sheet, number=number, footer=footer)


def _sheet_of(pages: Mapping[str, int], sheets: tuple[Sheet, ...]) -> dict[str, int]:
    """Map each position to the index of the sheet on which it begins: the sheet of its first part. A task without a
    part begins with its first block; any other position without a part, with its parent."""
    first: dict[str, int] = {"": 0}
    for sheet in sheets:
        first.setdefault(sheet.key, sheet.index)
        for part in sheet.parts:
            first.setdefault(part.key, sheet.index)
    for key in pages:
        if key not in first:
            first[key] = first[key.rpartition("/")[0]] if "/" in key else _first_below(key, first)
    return {key: first[key] for key in pages}


def _first_below(task: str, first: Mapping[str, int]) -> int:
    """Return the index of the sheet on which a task's first part begins. ``first`` maps positions to sheets."""
    return min((index for key, index in first.items() if key.startswith(f"{task}/")), default=0)
