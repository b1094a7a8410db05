"""The shipped layouts: valid by the schema beside them, and true in what a schema cannot say."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
SCHEMA = json.loads((TEMPLATES / "card-template.v1.schema.json").read_text(encoding="utf-8"))
LAYOUTS = sorted(TEMPLATES.glob("karta-*.json"))
CHECK = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(params=LAYOUTS, ids=lambda path: path.stem)
def layout(request: pytest.FixtureRequest) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    return loaded


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_layout_is_valid(layout: dict[str, Any]) -> None:
    assert [error.message for error in CHECK.iter_errors(layout)] == []


def test_file_is_named_by_the_layout() -> None:
    assert [json.loads(path.read_text(encoding="utf-8"))["id"] for path in LAYOUTS] == [path.stem for path in LAYOUTS]


def test_columns_fill_the_page(layout: dict[str, Any]) -> None:
    grid = layout["tokens"]["grid"]
    size = grid["geometry_cm"]
    widths = [size["margin_left"], *(size[column] for column in grid["columns"]), size["margin_right"]]
    assert math.isclose(sum(widths), size["page_width"])


def test_pixels_and_centimetres_agree(layout: dict[str, Any]) -> None:
    page, size = layout["tokens"]["page"], layout["tokens"]["grid"]["geometry_cm"]
    for side in ("width", "height"):
        assert page[f"{side}_px"] == round(size[f"page_{side}"] / 2.54 * page["dpi"])


def test_every_reference_is_defined(layout: dict[str, Any]) -> None:
    tokens, components = layout["tokens"], layout["components"]
    assert set(layout["block_map"].values()) <= set(components)
    for name, component in components.items():
        assert component["column"] in {"all", *tokens["grid"]["columns"]}, name
        assert component["family"] in tokens["typography"]["families"], name
        assert component["size"] in tokens["typography"]["sizes_pt"], name
        for key, value in colour_references(component):
            assert value in tokens["colors"], f"{name}.{key}"


def colour_references(component: dict[str, Any]) -> Iterator[tuple[str, str]]:
    names = {"color", "background", "match", "mismatch", "used", "padding", "free", "pointer"}
    for key, value in component.items():
        if isinstance(value, dict):
            yield from colour_references(value)
        elif key in names or key.startswith("rule_"):
            yield key, value


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` (WCAG 2.2), 0 to 1."""
    channels = [int(pair, 16) / 255 for pair in re.findall("..", colour[1:])]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_can_be_read_on_its_background(layout: dict[str, Any]) -> None:
    colours = layout["tokens"]["colors"]
    pairs = [("ink", "paper"), ("ink_soft", "paper"), ("ink", "panel"), ("ink", "accent_soft")]
    pairs += [(name, f"{name}_soft") for name in ("accent", "current", "approved", "failed")]
    for text, background in pairs:
        low, high = sorted((luminance(colours[text]), luminance(colours[background])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, f"{text} on {background}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "card-template.v2"}, "'card-template.v1' was expected"),
        ({"id": "Classic"}, "does not match"),
        ({"name": ""}, "non-empty"),
        ({"description": None}, "is not of type 'string'"),
        ({"emitters": {"html": "classic"}}, "'latex' is a required property"),
        ({"emitters": {"html": "classic", "latex": "6a"}}, "is not one of"),
        ({"emitters": {"html": "classic", "latex": "5a", "pdf": "5a"}}, "Additional properties are not allowed"),
        ({"limitations": {"html": "none"}}, "is not of type 'array'"),
        ({"tokens": {"page": {"width_px": 0}}}, "less than or equal to the minimum"),
        ({"tokens": {"page": {"orientation": "square"}}}, "is not one of"),
        ({"tokens": {"grid": {"columns": ["left", "right"]}}}, "is too short"),
        ({"tokens": {"grid": {"geometry_cm": {"left": "6"}}}}, "is not of type 'number'"),
        ({"tokens": {"colors": {"ink": 0}}}, "is not of type 'string'"),
    ],
    ids=str,
)
def test_a_fault_is_found(change: dict[str, Any], message: str) -> None:
    broken = copy.deepcopy(json.loads(LAYOUTS[0].read_text(encoding="utf-8"))) | change
    messages = [error.message for error in CHECK.iter_errors(broken)]
    assert len(messages) == 1
    assert message in messages[0]


def test_further_properties_are_allowed() -> None:
    layout = json.loads(LAYOUTS[0].read_text(encoding="utf-8")) | {"author": "anyone"}
    layout["tokens"]["motion"] = {}
    assert CHECK.is_valid(layout)
