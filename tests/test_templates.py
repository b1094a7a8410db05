"""The schema of layout files, rule by rule, and the shipped layouts: true in what a schema cannot say, too."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cardapp.layout import layout_options
from cardapp.layout.html.theme import contrast, dark
from cardapp.publish import layouts
from cardapp.schema import pointer

SCHEMA = json.loads(layouts.SCHEMA.read_text(encoding="utf-8"))
CHECK = jsonschema.Draft202012Validator(SCHEMA)
SHIPPED = layouts.shipped()


def least() -> dict[str, Any]:
    """The smallest layout file."""
    document = {"schema": "card-template.v1", "id": "a", "name": "A", "version": "1", "description": "D", "tokens": {}}
    return document | {"emitters": {"html": "classic", "latex": "classic"}}


def least_with(place: str, value: Any) -> dict[str, Any]:
    """The smallest layout file with ``value`` at a JSON pointer."""
    document = least()
    *way, name = place.removeprefix("/").split("/")
    inner = document
    for part in way:
        inner = inner.setdefault(part, {})
    inner[name] = value
    return document


# -- the contract, one row for each place that has a rule ----------------------------------------------------------

NO_OBJECT: tuple[Any, ...] = ([], "x", 1, None)
NO_TEXT: tuple[Any, ...] = (1, None, [], {})
ANY_OBJECT: tuple[Any, ...] = ({}, {"anything": [1, {"deep": None}]})
TEXT = (("", "x"), NO_TEXT)
FILLED = (("x", " "), ("", *NO_TEXT))
POSITIVE = ((1, 0.001, 10**9), (0, -0.5, -10, "1", None, []))
EMITTER = (("classic", "5a", "5b"), ("5c", "Classic", "", 5, None))

PLACES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    # place: values that are valid, values that break one rule at this place
    "/$schema": TEXT,
    "/schema": (("card-template.v1",), ("card-template.v2", "", 1, None)),
    "/id": (("a", "0", "a-", "karta-5a", "a--b"), ("", "-a", "A", "a_b", "a b", "ä", "a/b", *NO_TEXT)),
    "/name": FILLED,
    "/version": FILLED,
    "/approved": TEXT,
    "/description": FILLED,
    "/tokens": (ANY_OBJECT, NO_OBJECT),
    "/tokens/page": (ANY_OBJECT, NO_OBJECT),
    "/tokens/page/format": TEXT,
    "/tokens/page/orientation": (("portrait", "landscape"), ("Portrait", "square", "", 1, None)),
    "/tokens/page/width_px": POSITIVE,
    "/tokens/page/height_px": POSITIVE,
    "/tokens/grid": (ANY_OBJECT, NO_OBJECT),
    "/tokens/grid/columns": (
        (["a", "b", "c"], ["a", "", "c"], ["a"] * 4),
        ({}, "abc", 3, None, [], ["a"], ["a", "b"], ["a", 1, "c"], ["a", "b", None]),
    ),
    "/tokens/grid/left_role": TEXT,
    "/tokens/grid/right_role": TEXT,
    "/tokens/grid/geometry_cm": (({}, {"a": 1}), NO_OBJECT),
    "/tokens/grid/geometry_cm/left": ((0, -1, 1.5), ("1", None, [])),
    "/tokens/typography": (ANY_OBJECT, NO_OBJECT),
    "/tokens/colors": (({}, {"a": "b"}), NO_OBJECT),
    "/tokens/colors/ink": TEXT,
    "/components": (ANY_OBJECT, NO_OBJECT),
    "/block_map": (ANY_OBJECT, NO_OBJECT),
    "/emitters": (
        ({"html": "5a", "latex": "5b"},),
        ({"html": "5a"}, {"latex": "5a"}, {**least()["emitters"], "pdf": "5a"}, *NO_OBJECT),
    ),
    "/emitters/html": EMITTER,
    "/emitters/latex": EMITTER,
    "/limitations": (({}, {"a": []}), NO_OBJECT),
    "/limitations/html": (([], ["x", ""]), ("x", 1, {}, None, [1], ["x", None])),
    "/x": (({"any": ["thing"]},), ()),
    "/tokens/x": (({"any": ["thing"]},), ()),
    "/tokens/page/x": (({"any": ["thing"]},), ()),
    "/tokens/grid/x": (({"any": ["thing"]},), ()),
}
REQUIRED = ("schema", "id", "name", "version", "description", "tokens", "emitters")


def faults(document: Any) -> list[str]:
    """The place of every rule that is broken."""
    return [pointer(error.absolute_path) for error in CHECK.iter_errors(document)]


def test_the_schema_keeps_each_rule_of_the_contract() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for place, (good, bad) in PLACES.items():
        assert [value for value in good if faults(least_with(place, value))] == [], place
        for value in bad:
            (found,) = faults(least_with(place, value))
            assert found.startswith(place), value
    assert tuple(SCHEMA["required"]) == REQUIRED
    for name in REQUIRED:
        document = least()
        del document[name]
        assert faults(document) == [""]
    assert [faults(document) for document in NO_OBJECT] == [[""]] * len(NO_OBJECT)


# -- what the schema cannot say ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_layout_says_every_token_and_each_has_an_effect(path: Path) -> None:
    """It is what an author begins with, so nothing is left to the defaults."""
    layout, document = layouts.load(path), json.loads(path.read_text(encoding="utf-8"))
    assert layout.warnings == ()
    assert layout.id == path.stem
    assert set(document["tokens"]["colors"]) == set(layout_options.COLORS)
    assert set(document["tokens"]["typography"]["sizes_pt"]) == set(layout_options.SIZES_PT)
    assert set(document["components"]) | {*layout_options.ON_REQUEST} == set(layout_options.COMPONENTS)
    assert document["limitations"].keys() == layout_options.LIMITATIONS.keys()
    for arrangement in layout.arrangements.values():
        grid = arrangement.grid
        assert all(left.x + left.width < right.x for left, right in pairwise(grid.columns))
        assert grid.columns[0].x == grid.body.x
        assert grid.columns[-1].x + grid.columns[-1].width == pytest.approx(grid.body.x + grid.body.width)


def test_text_and_code_can_be_read_on_every_background() -> None:
    codes = [name for name in layout_options.COLORS if name.startswith("code_")]
    for layout in map(layouts.load, SHIPPED):
        looks = layout.components.values()
        pairs = {(component.color, component.background or "paper") for component in looks}
        pairs |= {("accent", "paper"), ("current", "current_soft"), ("ink", "current_soft")}
        on_code = set(product(codes, ("paper", "panel", "current_soft", "accent_soft")))
        for colors, both in ((layout.colors, pairs | on_code), (dark(layout.colors), on_code)):
            for text, background in both:
                assert contrast(colors[text], colors[background]) >= 4.5, (layout.id, text, background)


# -- the authors' manual -------------------------------------------------------------------------------------------
