"""Cards on sheets: nothing is lost, each split is marked, each part stays in its column and on its sheet."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Expectation, Snapshot
from cardapp.errors import InvalidLayout
from cardapp.layout import font_metrics, layout_options
from cardapp.layout import sheets as model
from cardapp.layout.component_builder import ComponentBuilder
from cardapp.layout.compose import compose
from cardapp.layout.layout_file import build
from cardapp.layout.layout_model import Layout, Output
from cardapp.layout.measure import Measure
from cardapp.layout.text import Block as TextBlock
from cardapp.layout.text import Break, Bullets, CodeBlock, Heading, Paragraph, Quote, Span, Table
from cardapp.publish import layouts
from tests.cardapp.layout.cards import IDENTITY, SOURCES, cards, growing, with_snapshot
from tests.cardapp.layout.hostile import SHIPPED, shipped

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")  # only if a card fails


def _a5() -> Layout:
    """Small paper and large type, so every part is split."""
    tokens = {"page": {"format": "A5"}, "typography": {"sizes_pt": {"body": 16, "code": 14, "label": 12}}}
    document = {"schema": "card-template.v1", "id": "a5", "name": "A5", "version": "1", "description": "Small."}
    return build(document | {"tokens": tokens, "emitters": {"html": "classic", "latex": "5a"}})


OUTPUTS: tuple[Output, ...] = ("html", "latex")
LAYOUTS = {path.stem: layouts.load(path) for path in layouts.shipped()} | {"a5": _a5()}
ARRANGED = {f"{name}, {output}": each.arranged(output) for name, each in LAYOUTS.items() for output in OUTPUTS}
any_layout = st.sampled_from(sorted(ARRANGED))
"""The layouts by name, so that a failing example prints only the name."""
several = settings(
    phases=(Phase.explicit, Phase.generate),  # shrinking a failing card would exceed the time limit of a test
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def laid_out(of: Card, layout: str) -> model.Document:
    """The sheets of an invented card. A card with a text that is longer than a sheet's narrow column is refused."""
    try:
        return compose(of, IDENTITY, ARRANGED[layout], SOURCES)
    except InvalidLayout as refused:
        if "does not fit a sheet" not in refused.detail:
            raise
        reject()


def parts_of(document: model.Document) -> list[model.Part]:
    return [part for sheet in document.sheets for part in sheet.parts]


# -- places --------------------------------------------------------------------------------------------------------


@several
@given(cards(), any_layout)
def test_every_part_of_any_card_has_its_place(of: Card, layout: str) -> None:
    document = laid_out(of, layout)
    assert_every_part_lies_in_its_column_and_on_no_other(document)
    assert_every_position_has_a_page_and_a_sheet_of_it(document)
    assert_a_block_begins_a_sheet_and_sheets_are_counted(document)
    assert_the_question_stands_before_the_values_of_its_step(document)
    assert_columns_are_in_reading_order(document)


def assert_the_question_stands_before_the_values_of_its_step(document: model.Document) -> None:
    placed = [(sheet, part) for sheet in document.sheets for part in sheet.parts]
    for order, (sheet, question) in enumerate(placed):
        if question.kind != "question":
            continue
        values = ((place, *each) for place, each in enumerate(placed) if each[1].kind in layout_options.VALUES)
        for place, other, part in values:
            if not part.key.startswith(f"{question.key}/"):
                continue
            assert place > order
            if other is sheet:
                is_right = part.frame.x > question.frame.x
                assert is_right or part.frame.y >= question.frame.y + question.frame.height, part.kind


def test_the_states_above_the_steps_tell_no_values() -> None:
    states = (layout.components.get("states") for layout in ARRANGED.values())
    assert not any(each.values for each in states if each is not None)


def assert_every_part_lies_in_its_column_and_on_no_other(document: model.Document) -> None:
    grid = document.layout.grid
    for sheet in document.sheets:
        ends = {"": grid.body.y}
        for row, parts in itertools.groupby(sheet.parts, lambda part: part.row):
            begin = max(ends.values())
            in_row: dict[str, float] = {}
            for part in parts:
                column = grid.column(part.column)
                assert (part.frame.x, part.frame.width) == (column.x, column.width)
                assert part.column == document.layout.components[part.kind].column
                assert part.frame.y >= in_row.get(part.column, begin) - 1e-6, (row, part.kind)
                in_row[part.column] = part.frame.y + part.frame.height
                assert in_row[part.column] <= grid.body.y + grid.body.height + 1e-6
            ends.update(in_row)


def assert_every_position_has_a_page_and_a_sheet_of_it(document: model.Document) -> None:
    assert document.page_of == {item.key: item.page_index for item in Catalog(document.card).items}
    assert set(document.sheet_of) == set(document.page_of)
    for key, index in document.sheet_of.items():
        assert document.sheets[index].page_index == document.page_of[key]
        block = "/".join(key.split("/")[:2])
        assert document.sheets[index].key == (block if "/" in key else document.sheets[index].key)


def assert_a_block_begins_a_sheet_and_sheets_are_counted(document: model.Document) -> None:
    blocks = [item.key for item in Catalog(document.card).at("block")]
    assert [key for key, _ in itertools.groupby(sheet.key for sheet in document.sheets) if key] == blocks
    assert [sheet.index for sheet in document.sheets] == list(range(len(document.sheets)))
    pages = [list(page) for _, page in itertools.groupby(document.sheets, lambda sheet: sheet.page_index)]
    assert [[sheet.number for sheet in page] for page in pages] == [list(range(1, len(page) + 1)) for page in pages]
    for before, sheet in itertools.pairwise(document.sheets):
        assert sheet.header.continued == (before.key == sheet.key)
        assert (sheet.footer.number, sheet.footer.count) == (sheet.index + 1, len(document.sheets))
        assert sheet.footer.sha256 == IDENTITY.source_sha256[:12]


# -- contents ------------------------------------------------------------------------------------------------------


def words(blocks: tuple[TextBlock, ...]) -> Iterator[str]:
    """All characters of a text except blanks, each with its style."""
    for block in blocks:
        match block:
            case Paragraph(spans) | Heading(_, spans):
                yield from itertools.chain.from_iterable(map(_characters, spans))
            case CodeBlock(text):
                yield from "".join(text.expandtabs(font_metrics.TAB).split())
            case Quote(inner):
                yield from words(inner)
            case Bullets(items):
                yield from (each for item in items for each in words(item))
            case Table(_, rows):  # each fragment repeats the head
                yield from (each for row in rows for cell in row for span in cell for each in _characters(span))
            case _:
                yield "rule"


def _characters(span: Span) -> Iterator[str]:
    if isinstance(span, Break):
        return iter(["break"])
    style = f"{span.code}{span.strong}{span.emphasis}{span.link}"
    return (character + style for character in span.text if character not in " \t\n")


def held(content: model.Content) -> list[Any]:
    """The content of a part, in a form in which the fragments of a part add up to the whole."""
    match content:
        case model.RichText(blocks):
            return list(words(blocks))
        case model.Question(blocks, answer_lines):
            return [*words(blocks), *(["line"] * answer_lines)]
        case model.Code(_, _, lines, notice):
            return [(line.number, segment) for line in lines for segment in line.segments] or [notice]
        case model.Machine(rows):
            return [piece for row in rows for piece in (*row.expression, *row.value) if piece]
        case model.Notes(entries):
            return [each for entry in entries for each in (entry.text, *entry.code) if each]
        case model.Title() | _:
            return [content]


def whole(of: Card, layout: str) -> dict[tuple[str, str], list[Any]]:
    """The card's content by kind and key, before it is placed on sheets."""
    builder = ComponentBuilder(of, IDENTITY, ARRANGED[layout], SOURCES, Measure(ARRANGED[layout]))
    groups = [*builder.front(), *builder.colophon("")]
    for task_number, task in enumerate(of.tasks, 1):
        for number, block in enumerate(task.blocks, 1):
            groups += builder.block(task, task_number, block, number)
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for component in (component for group in groups for row in group for component in row):
        found[component.kind, component.key] += held(component.content)
    return found


@several
@given(cards(), any_layout)
def test_nothing_is_lost_the_order_is_kept_and_each_split_is_marked(of: Card, layout: str) -> None:
    document = laid_out(of, layout)
    assert_every_split_part_is_marked(document)
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for part in parts_of(document):
        found[part.kind, part.key] += held(part.content)
    expected = whole(of, layout)
    for place in expected.keys() | found.keys():
        if place[0] == "machine":  # the first fragment of a split row has the lines of both columns that fit
            assert sorted(found[place]) == sorted(expected[place])
        else:
            assert found[place] == expected[place]


def assert_columns_are_in_reading_order(document: model.Document) -> None:
    """The stops of a step precede its question, and the question precedes the values."""
    catalog = Catalog(document.card)
    depth_first = {item.key: place for place, item in enumerate(catalog.items)}
    of_step = {key: key.rpartition("/")[0] for key in catalog.snapshots}
    by_column: dict[str, list[int]] = defaultdict(list)
    for part in parts_of(document):
        if part.kind != "colophon":
            by_column[part.column].append(depth_first[of_step.get(part.key, part.key)])
    for places in by_column.values():
        assert places == sorted(places)


def assert_every_split_part_is_marked(document: model.Document) -> None:
    open_parts: set[tuple[str, str]] = set()
    for part in parts_of(document):
        place = part.kind, part.key
        assert part.continued == (place in open_parts)
        assert part.continued == part.caption.endswith("(continued)")
        assert part.continues == bool(part.mark)
        open_parts.discard(place)
        if part.continues:
            open_parts.add(place)
    assert not open_parts


def test_a_part_that_fits_a_sheet_is_not_split() -> None:
    """The table is higher than a sheet, and each row has four lines. A row that does not fit moves to the next sheet as
    a whole. The rows of a value that was shown are no boxes to fill in further on."""
    expect = tuple(Expectation(f"value_{number}", f"{number:02}" * 30) for number in range(60))
    for name, layout in ARRANGED.items():
        shows_values = layout.components["machine"].values
        pieces = machines(laid_out(with_snapshot(*expect), name))
        assert len(pieces) > 1
        assert [["".join(row.expression), "".join(row.value)] for piece in pieces for row in piece.rows] == [
            [each.expression, each.value if shows_values else ""] for each in expect
        ]
        if shows_values:
            long = laid_out(with_snapshot(Expectation("n" * 9000, "8"), hits=2), name)
            rows = [row for machine in machines(long) for row in machine.rows]
            assert len(rows) > 1
            assert all(row.value for row in rows)


def test_a_value_is_written_in_the_format_of_the_card() -> None:
    """So the answer key has what the page shows beside a prediction."""
    card = with_snapshot(Expectation("mask", "64", "x"), Expectation("n", "64"), Expectation("bits", "101", "t"))
    for name, layout in ARRANGED.items():
        if layout.components["machine"].values:
            (machine,) = machines(laid_out(card, name))
            assert ["".join(row.value) for row in machine.rows] == ["0x40", "64", "0b101"], name


def machines(document: model.Document) -> list[model.Machine]:
    return [part.content for part in parts_of(document) if isinstance(part.content, model.Machine)]


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_answer_key_is_short_and_tells_each_question_with_its_values(output: Output) -> None:
    layout, blank = layouts.load(layouts.ANSWER_KEY).arranged(output), layouts.find("karta-blank").arranged(output)
    for loaded in map(shipped, SHIPPED):
        key = compose(loaded.card, loaded.identity, layout, {}, running_on=True)
        handout = compose(loaded.card, loaded.identity, blank, loaded.sources())
        assert len(key.sheets) < len(handout.sheets) / 3
        assert {sheet.header.task for sheet in key.sheets} == {"Answer key"}
        found = {(part.kind, part.key) for part in parts_of(key)}
        catalog = Catalog(loaded.card)
        assert {("question", key) for key, step in catalog.steps.items() if step.question} <= found
        assert {("machine", key) for key, snapshot in catalog.snapshots.items() if snapshot.expect} <= found
        assert {("explanation", key) for key, snapshot in catalog.snapshots.items() if snapshot.explanation} <= found
        assert all(row.value for machine in machines(key) for row in machine.rows)


def test_no_sheet_ends_with_a_title() -> None:
    for steps in (6, 7):
        of = growing(8, steps)
        for layout in (layouts.load(layouts.ANSWER_KEY).arranged("html"), *ARRANGED.values()):
            document = compose(of, IDENTITY, layout, SOURCES, running_on=True)
            assert not any(isinstance(sheet.parts[-1].content, model.Title) for sheet in document.sheets), layout.name


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_blank_handout_is_the_same_whatever_the_values_are(output: Output) -> None:
    layout = layouts.find("karta-blank").arranged(output)
    for loaded in map(shipped, SHIPPED):
        other = changed(loaded.card, lambda one: replace(one, expect=_longer(one.expect)))
        assert other != loaded.card
        sheets, others = (compose(of, loaded.identity, layout, loaded.sources()).sheets for of in (loaded.card, other))
        assert sheets == others


def _longer(expect: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    return tuple(replace(each, value="9" * 30) for each in expect)


def changed(of: Any, change: Callable[[Snapshot], Snapshot]) -> Any:
    """A card, or a part of one, in which every snapshot is changed."""
    if isinstance(of, Snapshot):
        return change(of)
    if isinstance(of, tuple):
        return tuple(changed(each, change) for each in of)
    levels = [level for level in ("tasks", "blocks", "phases", "steps", "snapshots") if hasattr(of, level)]
    return replace(of, **{level: changed(getattr(of, level), change) for level in levels})


# -- the lines of a row --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["karta-classic", "karta-5a", "karta-5b"])
def test_lines_are_drawn_in_the_gutters_between_columns_with_content(name: str) -> None:
    loaded, layout = shipped("arena"), layouts.find(name).arranged("latex")
    lined = 0
    for sheet in compose(loaded.card, loaded.identity, layout, loaded.sources()).sheets:
        rows = list(model.rows_with_rules(sheet.parts, layout.grid, layout.latex))
        assert [part for row in rows for part in row.parts] == list(sheet.parts)
        for row in rows:
            held = {part.column for part in row.parts}
            columns = [column for column in layout.grid.columns if column.name in held]
            assert not row.dividers or layout_options.ALL not in held
            for line in row.dividers:
                assert all(line.x + line.width <= column.x or line.x >= column.x + column.width for column in columns)
                assert columns[0].x < line.x < columns[-1].x
                assert all(line.y < part.frame.y < line.y + line.height for part in row.parts)
            has_bars = name == "karta-5b" and len(held) > 1
            bars = [(column.x, column.width, model.BAR) for column in columns] if has_bars else []
            assert [(bar.x, bar.width, bar.height) for bar in row.bars] == bars
            assert name != "karta-5b" or bool(row.dividers) == has_bars
            lined += bool(row.dividers)
    assert bool(lined) == (name != "karta-classic")
