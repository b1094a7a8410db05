"""Every option of a layout file has an effect: a file with another value gives other output."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from cardapp.card.model import Block, CodeRange, Expectation, Phase, Snapshot, Step, Stop, Task
from cardapp.errors import InvalidLayout
from cardapp.layout import layout_options
from cardapp.layout.compose import compose
from cardapp.layout.html.document import render as html
from cardapp.layout.latex.document import render as latex
from cardapp.layout.layout_file import build
from cardapp.layout.layout_model import Grid
from cardapp.publish import layouts
from tests.cardapp.layout.cards import IDENTITY, SOURCES, card

FILES = {path.stem: json.loads(path.read_text("utf-8")) for path in layouts.shipped()}
FOR_EDITORS = "/$schema"
COLUMNS = ("/tokens/grid/", "/block_map/")
SCREEN_ONLY = ("/tokens/page/width_px", "/tokens/page/height_px")
OTHERS: dict[str, Any] = {
    "format": "Letter",
    "regular": 300,
    "strong": 800,
    "answer_lines": 3,
    "width_px": 900,
    "footer": 6,
    "left_role": "evidence",
    "right_role": "guide",
}
"""The value that replaces each value, by its name. A name that is missing here gets another value of its type."""


def _sheets(document: dict[str, Any]) -> tuple[str, str] | None:
    """The HTML and the LaTeX of a card with content in every part, or None if the layout file is refused."""
    expect = (Expectation("a.used", "8"), Expectation("a.size", "64"), Expectation("a.base", "4096"))
    snapshot = Snapshot("n", "The snapshot", Stop("a.c", 5, "int", None, 2), expect, ("p",))
    step = Step(
        "s", "A step", 'Some `text`.\n\n```c\nreturn "s" + 1;\n```', "Why?", CodeRange("a.c", 3, 9), (snapshot,)
    )
    block = Block("b", "A block", "A goal.", "Words " * 600, (Phase("p", "A phase", "Text", (step, step)),))
    made = card((Task("t", "A task", "Text", (block,)),), "A text.")
    try:
        layout = build(document)
        sheets = {output: compose(made, IDENTITY, layout.arranged(output), SOURCES) for output in ("html", "latex")}
    except InvalidLayout:
        return None
    return "".join(html(sheets["html"])), latex(sheets["latex"])


def _made(document: dict[str, Any]) -> tuple[str, str]:
    made = _sheets(document)
    assert made is not None
    return made


UNCHANGED = {name: _made(document) for name, document in FILES.items()}


def _leaves(value: Any, at: str = "") -> Iterator[str]:
    """The JSON pointers of all values that are not objects."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{at}/{name}")
    else:
        yield at


def _changed(document: dict[str, Any], place: str) -> dict[str, Any]:
    document = copy.deepcopy(document)
    *way, name = place.split("/")[1:]
    inner = document
    for part in way:
        inner = inner[part]
    columns = [*reversed(document["tokens"]["grid"]["columns"]), "all"]
    inner[name] = _other(inner[name], way, name, columns)
    return document


def _other(value: Any, way: list[str], name: str, columns: list[str]) -> Any:
    match value:
        case _ if name in OTHERS:
            return OTHERS[name]
        case bool():
            return not value
        case int() | float():
            return value - 2 if name.endswith("_px") else round(value * 1.02 + 0.05, 3)
        case list() if name == "columns":
            return value[::-1]
        case list():
            return ["Other", *value]
    if way == ["emitters"]:
        return next(variant for variant in ("5a", "5b", "classic") if variant != value)
    if way == ["block_map"]:
        return next(column for column in columns if column not in (value, "gutter"))
    if "colors" in way:
        return "#123456"
    if name == "orientation":
        return "landscape" if value == "portrait" else "portrait"
    if name in ("color", "background", "rule"):
        return "current" if value != "current" else "ink"
    if name == "size":
        return "phase" if value != "phase" else "body"
    return f"{value} other"


FLAGS = ("tick_box", "line_numbers", "values")
PLACES = {place: name for name, document in FILES.items() for place in _leaves(document)}
"""Every place, with the file in which the quick run changes it."""


@pytest.mark.parametrize(
    ("name", "place"),
    [
        pytest.param(name, place, id=f"{name}{place}", marks=[] if PLACES[place] == name else [pytest.mark.full])
        for name, document in FILES.items()
        for place in _leaves(document)
        if place not in ("/schema", "/id")
    ],
)
def test_a_word_has_an_effect(name: str, place: str) -> None:
    unchanged, found = UNCHANGED[name], _sheets(_changed(FILES[name], place))
    if place == FOR_EDITORS:
        assert found == unchanged
    elif place.startswith(COLUMNS):  # one emitter uses its default columns
        assert found != unchanged
    elif found is not None:  # None: the content no longer fits the paper, which is an effect too
        assert found[0] != unchanged[0]
        assert (found[1] != unchanged[1]) == (place not in SCREEN_ONLY)


@pytest.mark.parametrize("name", FILES)
def test_every_colour_and_size_is_used(name: str) -> None:
    """The head of each file defines all colours. A definition alone does not count as use."""
    page, paper = UNCHANGED[name]
    used = re.sub(r"\\(definecolor|colorlet).*", "", paper)
    for color in layout_options.COLORS.keys() - {"paper"}:
        assert re.search(rf"var\(--(diagram-)?{color.replace('_', '-')}[,)]", page), color
        assert re.search(rf"\b{color}\b|diagram-{color.replace('_', '-')}\b", used), color
    for size in layout_options.SIZES_PT:
        assert f"var(--{size}-size)" in page
        assert f"var(--{size}-line)" in page


def _warned(**changes: Any) -> dict[str, str]:
    """The warnings about karta-5a with other values at these places (double underscores stand for slashes)."""
    document = copy.deepcopy(FILES["karta-5a"])
    for place, value in changes.items():
        *way, name = place.split("__")
        inner = document
        for part in way:
            inner = inner[part]
        inner[name] = value
    return {warning.pointer: warning.message for warning in build(document).warnings}


def test_a_role_that_places_no_part_is_warned_about() -> None:
    assert _warned() == {}
    mapped = dict.fromkeys(layout_options.COMPONENTS.keys() - set(layout_options.UNPLACED), "left")
    found = _warned(block_map=mapped)
    assert sorted(found) == ["/tokens/grid/left_role", "/tokens/grid/right_role"]
    assert all(message.startswith("has no effect") for message in found.values())


def test_a_font_family_with_unknown_widths_is_warned_about() -> None:
    def families(text: Any, code: Any) -> dict[str, str]:
        return _warned(tokens__typography__families={"text": text, "code": code})

    assert families("sans-serif", ["Noto Sans Mono", "Courier"]) == {}
    place = "/tokens/typography/families/"
    warnings = families("Comic Sans MS", ["Noto Sans", "Noto Sans Mono"])
    assert warnings.keys() == {f"{place}text", f"{place}code"}
    assert warnings[f"{place}text"].startswith('"Comic Sans MS": text is measured with the widths of Noto Sans,')


@pytest.mark.parametrize("name", layout_options.COMPONENTS)
def test_an_option_that_a_component_does_not_have_is_warned_about(name: str) -> None:
    look = layout_options.COMPONENTS[name]
    for option in (*layout_options.OPTIONS, *layout_options.FLAGS):
        has = option not in look.without if option in layout_options.OPTIONS else option == look.flag
        value = {"size": "body", "label": "L", "answer_lines": 1} | dict.fromkeys(FLAGS, True)
        warnings = _warned(components={"text": True, name: {option: value.get(option, "ink")}})
        assert warnings.keys() == (set() if has else {f"/components/{name}/{option}"})


def test_sheets_that_show_nothing_are_warned_about() -> None:
    for components in ({}, {"text": False}, {"header": True, "footer": True, "card_title": True, "colophon": True}):
        warnings = _warned(components=components)
        assert list(warnings) == ["/components"]
        assert warnings["/components"].startswith("shows no part of a block: ")
    assert _warned(components={"goal": True}) == {}


def test_a_warning_lists_each_known_name_once() -> None:
    warning = _warned(tokens__colors={"ink": "#000000", "mine": "#123456"})["/tokens/colors/mine"]
    known = warning.partition("known: ")[2].split(", ")
    assert known == list(dict.fromkeys(known))
    assert set(layout_options.COLORS) <= set(known)


def test_a_diagram_in_a_column_too_narrow_for_it_is_refused() -> None:
    document = copy.deepcopy(FILES["karta-5b"])
    document["block_map"]["memory"] = "question"
    with pytest.raises(InvalidLayout) as refused:
        build(document)
    assert [error.pointer for error in refused.value.errors] == ["/block_map/memory"]
    assert "needs 4 cm: make the column wider, or name another one" in refused.value.errors[0].message


def _five_columns(page: dict[str, str], **lengths: float) -> Grid:
    """The grid of 5b if the file gives its columns no widths."""
    emitters = {"html": "5b", "latex": "5b"}
    tokens = {"page": page, "grid": {"geometry_cm": lengths}}
    return build(FILES["karta-5b"] | {"tokens": tokens, "block_map": {}, "emitters": emitters}).grid


@pytest.mark.parametrize("form", ["A3", "A4", "Letter", "Legal"])
def test_columns_without_widths_have_room_on_every_sheet_that_has_it(form: str) -> None:
    grid = _five_columns({"format": form, "orientation": "landscape"})
    assert min(column.width for column in grid.columns) >= 40 - 1e-6
    right = max(column.x + column.width for column in grid.columns)
    assert right == pytest.approx(grid.body.x + grid.body.width)


def test_a_sheet_too_narrow_for_the_columns_is_refused_with_the_width_that_does() -> None:
    with pytest.raises(InvalidLayout, match=r"or use a sheet that is 25\.4 cm wide$"):
        _five_columns({"format": "A5", "orientation": "landscape"})
    own = {"format": "Own", "orientation": "landscape"}
    assert len(_five_columns(own, page_width=25.4, page_height=20).columns) == 5


def test_coloured_paper_is_coloured_in_the_pdf() -> None:
    document = copy.deepcopy(FILES["karta-classic"])
    assert "pagecolor" not in _made(document)[1]
    document["tokens"]["colors"]["paper"] = "#fffbe6"
    assert r"\pagecolor{card-paper}" in _made(document)[1]


def test_values_that_are_not_shown_are_left_to_be_filled_in() -> None:
    document = copy.deepcopy(FILES["karta-classic"])
    markup = {"html": ("<code>4096</code>", 'class="blank"'), "latex": (r"\CardCodeLine{4096}", r"{\CardBlank{6}}")}
    for output, file in zip(markup, UNCHANGED["karta-classic"], strict=True):
        assert markup[output][0] in file
        assert markup[output][1] not in file
    for name in ("machine", "states"):
        document["components"][name]["values"] = False
    del document["components"]["memory"]
    for output, file in zip(markup, _made(document), strict=True):
        assert "4096" not in file
        assert file.count(markup[output][1]) == 6
        assert "a.base" in file


@pytest.mark.parametrize(
    ("place", "value", "at", "known"),
    [
        ("tokens__grid__left_role", "leader", "/tokens/grid/left_role", layout_options.ROLES),
        ("components__aside", {}, "/components/aside", layout_options.COMPONENTS),
        ("components__goal__colour", "ink", "/components/goal/colour", layout_options.OPTIONS),
        ("components__goal__color", "pink", "/components/goal/color", layout_options.COLORS),
        ("components__goal__size", "huge", "/components/goal/size", layout_options.SIZES_PT),
        ("block_map__goal", "middle", "/block_map/goal", ("all", "left", "right")),
        ("block_map__header", "left", "/block_map/header", ("goal", "question")),
        ("tokens__page__format", "B5", "/tokens/page/format", layout_options.FORMATS),
        ("tokens__page__colour", 1, "/tokens/page/colour", ("format", "width_px")),
        (
            "tokens__grid__geometry_cm__middle",
            1,
            "/tokens/grid/geometry_cm/middle",
            ("left", *layout_options.GEOMETRY_CM),
        ),
        ("tokens__grid__geometry_cm__middle", -1, "/tokens/grid/geometry_cm/middle", layout_options.GEOMETRY_CM),
        ("tokens__typography__weights__bold", 700, "/tokens/typography/weights/bold", layout_options.WEIGHTS),
        ("tokens__typography__sizes_pt__huge", 40, "/tokens/typography/sizes_pt/huge", layout_options.SIZES_PT),
        ("tokens__colors__pink", "#ff00ff", "/tokens/colors/pink", layout_options.COLORS),
        ("limitations__paper", [], "/limitations/paper", layout_options.LIMITATIONS),
    ],
)
def test_a_warning_of_an_unknown_name_lists_the_known_names(place: str, value: Any, at: str, known: Any) -> None:
    found = _warned(**{place: value})
    assert list(found) == [at]
    assert "unknown" in found[at] or "not a column" in found[at]
    assert [name for name in known if name not in found[at].partition("known: ")[2]] == []


@pytest.mark.parametrize("part", ["page", "grid", "typography", "colors"])
def test_every_token_has_a_default(part: str) -> None:
    least = FILES["karta-5a"] | {"tokens": {}, "block_map": {}}
    del least["components"]
    with_default, given = build(least), build(least | {"tokens": {part: {}}})
    assert with_default == given
    assert with_default.warnings == ()
    assert with_default.colors.keys() == layout_options.COLORS.keys()
    _made(least)


@pytest.mark.parametrize("for_latex", layout_options.VARIANTS)
@pytest.mark.parametrize("for_html", layout_options.VARIANTS)
def test_empty_tokens_suit_every_emitter(for_html: str, for_latex: str) -> None:
    document = {"schema": "card-template.v1", "id": "mine", "name": "Mine", "version": "1", "description": "Mine."}
    document |= {"tokens": {}, "emitters": {"html": for_html, "latex": for_latex}}
    assert build(document).warnings == ()
    _made(document)


def test_a_fractional_number_of_answer_lines_is_warned_about() -> None:
    found = _warned(components__question__answer_lines=2.7)
    assert found == {"/components/question/answer_lines": "must be a whole number, not 2.7; 2 is used instead"}
