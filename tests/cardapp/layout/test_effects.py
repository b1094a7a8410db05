"""Every option of a layout file has an effect: a file with another value gives other output."""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cardapp.card.model import CodeRange, Expectation, Snapshot, Step, Stop
from cardapp.errors import InvalidLayout
from cardapp.layout import layout_options
from cardapp.layout.compose import compose
from cardapp.layout.html.document import render as html
from cardapp.layout.latex.document import render as latex
from cardapp.layout.layout_file import build
from cardapp.layout.layout_model import Grid
from cardapp.publish import layouts
from tests.cardapp.layout.cards import IDENTITY, SOURCES, with_steps

FILES = {path.stem: json.loads(path.read_text("utf-8")) for path in layouts.shipped()}
FOR_EDITORS = "/$schema"
COLUMNS = ("/tokens/grid/", "/block_map/")
SCREEN_ONLY = ("/tokens/page/width_px", "/tokens/page/height_px")
OTHERS: dict[str, Any] = {
    "format": "Letter", "regular": 300, "strong": 800, "answer_lines": 3, "width_px": 900, "footer": 6,
    "left_role": "evidence", "right_role": "guide",
}  # fmt: skip
"""The value that replaces each value, by its name. A name that is missing here gets another value of its type."""


def _sheets(document: dict[str, Any]) -> tuple[str, str] | None:
    """The HTML and the LaTeX of a card with content in every part, or None if the layout file is refused."""
    expect = (Expectation("a.used", "8"), Expectation("a.size", "64"), Expectation("a.base", "4096"))
    snapshot = Snapshot("n", "The snapshot", Stop("a.c", 5, "int", None, 2), expect, ("p",))
    step = Step(
        "s", "A step", 'Some `text`.\n\n```c\nreturn "s" + 1;\n```', "Why?", CodeRange("a.c", 3, 9), (snapshot,)
    )
    made = replace(with_steps(step, step, text="Words " * 600, phase_text="Text"), text="A text.")
    try:
        layout = build(document)
        sheets = [compose(made, IDENTITY, layout.arranged(output), SOURCES) for output in ("html", "latex")]
    except InvalidLayout:
        return None
    return "".join(html(sheets[0])), latex(sheets[1])


@functools.cache
def _unchanged(name: str) -> tuple[str, str]:
    made = _sheets(FILES[name])
    assert made is not None
    return made


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


@pytest.mark.parametrize("part", sorted({part for document in FILES.values() for part in document}))
def test_every_word_has_an_effect(part: str, rng: random.Random) -> None:
    """Each word is changed in one of the files that have it."""
    places: dict[str, list[str]] = {}
    for name, document in FILES.items():
        for place in _leaves({part: document[part]} if part in document and part not in ("schema", "id") else {}):
            places.setdefault(place, []).append(name)
    for place, names in places.items():
        name = rng.choice(names)
        unchanged, found = _unchanged(name), _sheets(_changed(FILES[name], place))
        if place == FOR_EDITORS:
            assert found == unchanged
        elif place.startswith(COLUMNS):  # one emitter uses its default columns
            assert found != unchanged, (name, place)
        elif found is not None:  # None: the content no longer fits the paper, which is an effect too
            assert found[0] != unchanged[0], (name, place)
            assert (found[1] != unchanged[1]) == (place not in SCREEN_ONLY), (name, place)


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
    known = {"text": "sans-serif", "code": ["Noto Sans Mono", "Courier"]}
    assert _warned(tokens__typography__families=known) == {}
    unknown = {"text": "Comic Sans MS", "code": ["Noto Sans", "Noto Sans Mono"]}
    found = _warned(tokens__typography__families=unknown)
    place = "/tokens/typography/families/"
    assert found.keys() == {f"{place}text", f"{place}code"}
    assert found[f"{place}text"].startswith('"Comic Sans MS": text is measured with the widths of Noto Sans,')


def test_an_option_that_a_component_does_not_have_is_warned_about() -> None:
    flags = dict.fromkeys(("tick_box", "line_numbers", "values"), True)
    values = {"size": "body", "label": "L", "answer_lines": 1} | flags
    for name, look in layout_options.COMPONENTS.items():
        for option in (*layout_options.OPTIONS, *layout_options.FLAGS):
            has = option not in look.without if option in layout_options.OPTIONS else option == look.flag
            warnings = _warned(components={"text": True, name: {option: values.get(option, "ink")}})
            assert warnings.keys() == (set() if has else {f"/components/{name}/{option}"}), (name, option)
    found = _warned(components__question__answer_lines=2.7)
    assert found == {"/components/question/answer_lines": "must be a whole number, not 2.7; 2 is used instead"}


def test_sheets_that_show_nothing_are_warned_about() -> None:
    for components in ({}, {"text": False}, {"header": True, "footer": True, "card_title": True, "colophon": True}):
        warnings = _warned(components=components)
        assert list(warnings) == ["/components"]
        assert warnings["/components"].startswith("shows no part of a block: ")
    assert _warned(components={"goal": True}) == {}


def test_a_warning_of_an_unknown_name_lists_each_known_name_once() -> None:
    geometry = layout_options.GEOMETRY_CM
    for place, value, known in (
        ("tokens/grid/left_role", "leader", layout_options.ROLES),
        ("components/aside", {}, layout_options.COMPONENTS),
        ("components/goal/colour", "ink", layout_options.OPTIONS),
        ("components/goal/color", "pink", layout_options.COLORS),
        ("components/goal/size", "huge", layout_options.SIZES_PT),
        ("block_map/goal", "middle", ("all", "left", "right")),
        ("block_map/header", "left", ("goal", "question")),
        ("tokens/page/format", "B5", layout_options.FORMATS),
        ("tokens/page/colour", 1, ("format", "width_px")),
        ("tokens/grid/geometry_cm/middle", 1, ("left", *geometry)),
        ("tokens/grid/geometry_cm/middle", -1, geometry),
        ("tokens/typography/weights/bold", 700, layout_options.WEIGHTS),
        ("tokens/typography/sizes_pt/huge", 40, layout_options.SIZES_PT),
        ("tokens/colors/pink", "#ff00ff", layout_options.COLORS),
        ("limitations/paper", [], layout_options.LIMITATIONS),
    ):
        found = _warned(**{place.replace("/", "__"): value})
        assert list(found) == [f"/{place}"]
        message = found[f"/{place}"]
        assert "unknown" in message or "not a column" in message
        listed = message.partition("known: ")[2].split(", ")
        assert listed == list(dict.fromkeys(listed))
        assert [name for name in known if name not in ", ".join(listed)] == [], place


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
    tokens = {"page": page | {"orientation": "landscape"}, "grid": {"geometry_cm": lengths}}
    return build(FILES["karta-5b"] | {"tokens": tokens, "block_map": {}, "emitters": emitters}).grid


def test_columns_without_widths_have_room_on_every_sheet_that_has_it() -> None:
    for form in ("A3", "A4", "Letter", "Legal"):
        grid = _five_columns({"format": form})
        assert min(column.width for column in grid.columns) >= 40 - 1e-6
        right = max(column.x + column.width for column in grid.columns)
        assert right == pytest.approx(grid.body.x + grid.body.width)
    with pytest.raises(InvalidLayout, match=r"or use a sheet that is 25\.4 cm wide$"):
        _five_columns({"format": "A5"})
    assert len(_five_columns({"format": "Own"}, page_width=25.4, page_height=20).columns) == 5
