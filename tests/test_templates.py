"""The schema of layout files, rule by rule, and the shipped layouts: true in what a schema cannot say, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from cardapp.layout import layout_options
from cardapp.layout.html.theme import contrast, dark
from cardapp.layout.layout_model import Layout, Output
from cardapp.publish import layouts
from cardapp.schema import pointer

SCHEMA = json.loads(layouts.SCHEMA.read_text(encoding="utf-8"))
CHECK = jsonschema.Draft202012Validator(SCHEMA)
SHIPPED = layouts.shipped()


def least() -> dict[str, Any]:
    """The smallest layout file."""
    return {
        "schema": "card-template.v1",
        "id": "a",
        "name": "A",
        "version": "1",
        "description": "D",
        "tokens": {},
        "emitters": {"html": "classic", "latex": "classic"},
    }


def least_with(place: str, value: Any) -> dict[str, Any]:
    """The smallest layout file with ``value`` at a JSON pointer."""
    document = least()
    *way, name = place.removeprefix("/").split("/")
    inner = document
    for part in way:
        inner = inner.setdefault(part, {})
    inner[name] = value
    return document


def without(name: str) -> dict[str, Any]:
    document = least()
    del document[name]
    return document


# -- the contract, one row for each of its constraints -------------------------------------------------------------

ANY_OBJECT: tuple[Any, ...] = ({}, {"anything": [1, {"deep": None}]})
NO_OBJECT: tuple[Any, ...] = ([], "x", 1, None)
TEXT: tuple[Any, ...] = ("", "x")
NO_TEXT: tuple[Any, ...] = (1, None, [], {})
FILLED: tuple[Any, ...] = ("x", " ")
POSITIVE: tuple[Any, ...] = (1, 0.001, 10**9)
NUMBER: tuple[Any, ...] = (0, -1, 1.5)
NO_NUMBER: tuple[Any, ...] = ("1", None, [])

CONSTRAINTS: list[tuple[str, str, tuple[Any, ...], tuple[Any, ...]]] = [
    # place, rule, values that meet it, values that break it and nothing else
    ("/$schema", "type", TEXT, NO_TEXT),
    ("/schema", "const", ("card-template.v1",), ("card-template.v2", "", 1, None)),
    ("/id", "type", ("a",), NO_TEXT),
    ("/id", "pattern", ("a", "0", "a-", "karta-5a", "a--b"), ("", "-a", "A", "a_b", "a b", "ä", "a/b")),
    ("/name", "type", FILLED, NO_TEXT),
    ("/name", "minLength", FILLED, ("",)),
    ("/version", "type", FILLED, NO_TEXT),
    ("/version", "minLength", FILLED, ("",)),
    ("/approved", "type", TEXT, NO_TEXT),
    ("/description", "type", FILLED, NO_TEXT),
    ("/description", "minLength", FILLED, ("",)),
    ("/tokens", "type", ANY_OBJECT, NO_OBJECT),
    ("/tokens/page", "type", ANY_OBJECT, NO_OBJECT),
    ("/tokens/page/format", "type", TEXT, NO_TEXT),
    ("/tokens/page/orientation", "enum", ("portrait", "landscape"), ("Portrait", "square", "", 1, None)),
    ("/tokens/page/width_px", "type", POSITIVE, NO_NUMBER),
    ("/tokens/page/width_px", "exclusiveMinimum", POSITIVE, (0, -0.5, -10)),
    ("/tokens/page/height_px", "type", POSITIVE, NO_NUMBER),
    ("/tokens/page/height_px", "exclusiveMinimum", POSITIVE, (0, -0.5, -10)),
    ("/tokens/grid", "type", ANY_OBJECT, NO_OBJECT),
    ("/tokens/grid/columns", "type", (["a", "b", "c"],), ({}, "abc", 3, None)),
    ("/tokens/grid/columns", "minItems", (["a", "b", "c"], ["a"] * 4), ([], ["a"], ["a", "b"])),
    ("/tokens/grid/columns", "items/type", (["a", "", "c"],), (["a", 1, "c"], ["a", "b", None])),
    ("/tokens/grid/left_role", "type", TEXT, NO_TEXT),
    ("/tokens/grid/right_role", "type", TEXT, NO_TEXT),
    ("/tokens/grid/geometry_cm", "type", ({}, {"a": 1}), NO_OBJECT),
    ("/tokens/grid/geometry_cm/left", "type", NUMBER, NO_NUMBER),
    ("/tokens/typography", "type", ANY_OBJECT, NO_OBJECT),
    ("/tokens/colors", "type", ({}, {"a": "b"}), NO_OBJECT),
    ("/tokens/colors/ink", "type", TEXT, NO_TEXT),
    ("/components", "type", ANY_OBJECT, NO_OBJECT),
    ("/block_map", "type", ANY_OBJECT, NO_OBJECT),
    ("/emitters", "type", ({"html": "5a", "latex": "5b"},), NO_OBJECT),
    ("/emitters/html", "enum", ("classic", "5a", "5b"), ("5c", "Classic", "", 5, None)),
    ("/emitters/latex", "enum", ("classic", "5a", "5b"), ("5c", "Classic", "", 5, None)),
    ("/emitters", "additionalProperties", ({"html": "5a", "latex": "5b"},), ({**least()["emitters"], "pdf": "5a"},)),
    ("/emitters", "required", ({"html": "5a", "latex": "5b"},), ({"html": "5a"}, {"latex": "5a"})),
    ("/limitations", "type", ({}, {"a": []}), NO_OBJECT),
    ("/limitations/html", "type", ([], ["x", ""]), ("x", 1, {}, None)),
    ("/limitations/html", "items/type", (["x"],), ([1], ["x", None])),
]
REQUIRED = ("schema", "id", "name", "version", "description", "tokens", "emitters")


def faults(document: Any) -> list[tuple[str, str]]:
    """Every rule that is broken, as (place, rule)."""
    return [(pointer(error.absolute_path), str(error.validator)) for error in CHECK.iter_errors(document)]


@pytest.mark.parametrize(("place", "rule", "good", "bad"), CONSTRAINTS, ids=[f"{p}:{r}" for p, r, _, _ in CONSTRAINTS])
def test_the_schema_keeps_each_constraint(place: str, rule: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    for value in good:
        assert faults(least_with(place, value)) == []
    for value in bad:
        found = faults(least_with(place, value))
        assert [kind for _, kind in found] == [rule.rpartition("/")[2]], value
        assert found[0][0].startswith(place), value


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_property_must_be_there(name: str) -> None:
    assert faults(without(name)) == [("", "required")]


@pytest.mark.parametrize("document", [[], "x", 1, None])
def test_the_root_is_an_object(document: Any) -> None:
    assert faults(document) == [("", "type")]


@pytest.mark.parametrize("place", ["/x", "/tokens/x", "/tokens/page/x", "/tokens/grid/x"])
def test_further_properties_are_allowed(place: str) -> None:
    assert faults(least_with(place, {"any": ["thing"]})) == []


def rules(schema: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every assertion of a schema, as (place in a document, rule); the names of a free object are its first one's."""
    names = {"/tokens/grid/geometry_cm": "left", "/tokens/colors": "ink", "/limitations": "html"}
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for rule in schema.keys() - {"$schema", "$defs", "title", "description", "properties", "items"}:
        if isinstance(schema[rule], dict):
            yield from rules(schema[rule], f"{place}/{names[place]}")
        else:
            yield place, rule
    for name, inner in schema.get("properties", {}).items():
        yield from rules(inner, f"{place}/{name}")
    if "items" in schema:
        yield from ((place, f"items/{rule}") for _, rule in rules(schema["items"], place))


def test_the_schema_has_exactly_the_constraints_of_the_contract() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert tuple(SCHEMA["required"]) == REQUIRED
    required = {(place, rule) for place, rule, _, _ in CONSTRAINTS} | {("", "type"), ("", "required")}
    assert set(rules(SCHEMA)) == required


# -- what the schema cannot say ------------------------------------------------------------------------------------


@pytest.fixture(params=SHIPPED, ids=lambda path: path.stem)
def layout(request: pytest.FixtureRequest) -> Layout:
    return layouts.load(request.param)


def test_every_word_of_a_shipped_layout_has_an_effect(layout: Layout) -> None:
    assert layout.warnings == ()


def test_file_is_named_by_the_layout() -> None:
    assert [layouts.load(path).id for path in SHIPPED] == [path.stem for path in SHIPPED]


def test_each_emitter_has_a_layout_and_one_layout_mixes_them() -> None:
    pairs = {(each.html, each.latex) for each in map(layouts.load, SHIPPED)}
    assert {("classic", "classic"), ("5a", "5a"), ("5b", "5b"), ("5b", "5a")} <= pairs


def test_shipped_layouts_say_every_token(layout: Layout) -> None:
    """They are what an author begins with, so nothing is left to the defaults."""
    document = json.loads((layouts.TEMPLATES / f"{layout.id}.json").read_text(encoding="utf-8"))
    tokens = document["tokens"]
    assert set(tokens["colors"]) == set(layout_options.COLORS)
    assert set(tokens["typography"]["sizes_pt"]) == set(layout_options.SIZES_PT)
    assert set(document["components"]) | {*layout_options.ON_REQUEST} == set(layout_options.COMPONENTS)
    assert document["limitations"].keys() == layout_options.LIMITATIONS.keys()


def test_the_answer_key_has_questions_values_and_explanations() -> None:
    layout = layouts.load(layouts.ANSWER_KEY)
    assert layout.warnings == ()
    assert {"question", *layout_options.VALUES} - {"memory"} <= layout.components.keys()
    assert layout.components["question"].answer_lines == 0
    assert layout.components["machine"].values


def test_text_can_be_read_on_its_background(layout: Layout) -> None:
    for component in layout.components.values():
        background = component.background or "paper"
        assert contrast(layout.colors[component.color], layout.colors[background]) >= 4.5, component.name
    for text, background in (("accent", "paper"), ("current", "current_soft"), ("ink", "current_soft")):
        assert contrast(layout.colors[text], layout.colors[background]) >= 4.5, (text, background)


def test_code_can_be_read_on_every_background_in_light_and_dark(layout: Layout) -> None:
    for colors in (layout.colors, dark(layout.colors)):
        for name in (name for name in layout_options.COLORS if name.startswith("code_")):
            for background in ("paper", "panel", "current_soft", "accent_soft"):
                assert contrast(colors[name], colors[background]) >= 4.5, (name, background)


def test_columns_stand_side_by_side_on_the_paper(layout: Layout) -> None:
    outputs: tuple[Output, ...] = ("html", "latex")
    for output in outputs:
        grid = layout.arrangements[output].grid
        for left, right in zip(grid.columns, grid.columns[1:], strict=False):
            assert left.x + left.width < right.x
        assert grid.columns[0].x == grid.body.x
        assert grid.columns[-1].x + grid.columns[-1].width == pytest.approx(grid.body.x + grid.body.width)


# -- the authors' manual -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        layout_options.COMPONENTS, layout_options.ROLES, layout_options.VARIANTS, layout_options.FORMATS,
        layout_options.GEOMETRY_CM,
        layout_options.COLORS, layout_options.SIZES_PT, layout_options.WEIGHTS,
        layout_options.FAMILIES, layout_options.OPTIONS,
        layout_options.FLAGS, layout_options.LIMITATIONS, layout_options.FIVE_PARTS,
    ],
    ids=lambda names: next(iter(names)),
)  # fmt: skip
def test_the_manual_names_every_word(names: dict[str, Any]) -> None:
    manual = (layouts.TEMPLATES / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in manual] == []
