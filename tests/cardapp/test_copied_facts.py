"""Facts that JavaScript, CSS and Lua repeat are the same as in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import cardapp
from cardapp.card import annotation, strategy
from cardapp.layout import annotations as drawn
from cardapp.layout.html.theme import style_sheet
from cardapp.layout.sheets import Kind
from cardapp.session_client import checkpoint, operation, sync
from cardapp.session_host import replay
from cardapp.web import schemas

ROOT = Path(cardapp.__file__).parent
STATIC = ROOT / "static"
SIZES = {"--u", "--width", "--code-size", "--level", "--pen", "--pen-width"}
"""CSS properties that the page's scripts and the sheets set. An annotation may set the colour of its pen."""


def read(path: Path) -> str:
    return path.read_text("utf-8")


def quoted(text: str, pattern: str) -> tuple[str, ...]:
    """The words in quotation marks within the group of ``pattern``."""
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None, pattern
    return tuple(re.findall(r"'([^']*)'", found[1]))


def test_the_page_uses_only_the_colours_of_the_theme() -> None:
    colours = set(re.findall(r"(--[a-z-]+):", style_sheet()))
    others = {*re.findall(r"(--[a-z-]+):", read(STATIC / "page.css")), *SIZES}
    for path in (*STATIC.glob("*.js"), STATIC / "page.css"):
        text = read(path)
        assert set(re.findall(r"var\((--[a-z-]+)\)", text)) <= colours | others, path.name
        assert not re.findall(r"[:\s,'\"(]#[0-9a-fA-F]{3,8}\b(?![\w-]*\s*\{)", text), path.name


def keys_of(text: str, name: str) -> tuple[str, ...]:
    """The names of the members of a JavaScript object."""
    found = re.search(rf"const {name} = {{(.*?)}};", text, re.DOTALL)
    assert found is not None, name
    return tuple(re.findall(r"(?:^|[\s,{])([a-z_]+):", found[1]))


def test_the_kinds_and_colours_of_annotations_are_the_same_everywhere() -> None:
    panel, layer = read(STATIC / "explain.js"), read(STATIC / "annotation_layer.js")
    style = schemas.definition("Style")["properties"]
    assert tuple(annotation.POINTS) == tuple(style["kind"]["enum"]) == keys_of(panel, "KINDS")
    assert {*annotation.POINTS} == {*re.findall(r"^  ([a-z]+): \(", layer, re.MULTILINE)}
    colors = tuple(re.findall(r"[a-z]+(?=[|])", style["color"]["pattern"]))
    assert colors == keys_of(panel, "COLORS") == quoted(layer, r"const NAMED = (\[.*?\]);")
    assert {f".pen-{name} {{ color: var(--{name}); }}" for name in colors} <= {
        line.strip() for line in read(ROOT / "reports" / "lesson.css").splitlines()
    }
    assert colors[0] == drawn.DEFAULT_COLOR
    assert f"width = {drawn.DEFAULT_WIDTH} " in layer
    assert f"const MOST_POINTS = {annotation.POINTS['freehand'][1]};" in read(STATIC / "drawing.js")
    assert {*keys_of(panel, "PARTS")} == {*get_args(Kind)}


def test_the_commands_of_a_strategy_are_the_same_everywhere() -> None:
    described = schemas.definition("Commands")["description"].split(": ", 1)[1].split(". ")[0]
    assert tuple(re.findall(r"`([a-z]+)`", described)) == tuple(strategy.COMMANDS)
    limit = re.search(
        r"^MAX_OUTPUT = (\d+)$", read(ROOT / "session_host" / "gdb_plugin" / "typed_commands.py"), re.MULTILINE
    )
    assert limit is not None
    assert f"At most {limit[1]} characters" in read(ROOT / "web" / "schemas" / "explanations.json")
    assert f'"maxLength": {limit[1]}' in read(ROOT / "session_client" / "session_tools.py")


def test_the_page_shows_each_stage_of_a_replay() -> None:
    assert quoted(read(STATIC / "status.js"), r"const STAGES = (\[.*?\]);") == operation.STAGES
    assert ("binding", *replay.STAGES) == operation.STAGES


def test_the_page_has_a_text_for_each_reason_that_switches_sync_off() -> None:
    service = read(Path(sync.__file__)) + read(Path(checkpoint.__file__))
    reasons = set(re.findall(r'"((?:session|target|source|debugger|program|sync)_[a-z_]+)"', service))
    (words,) = re.findall(r"const REASONS = \{(.*?)\};", read(STATIC / "status.js"), re.DOTALL)
    assert reasons == set(re.findall(r"\b([a-z_]+):", words))


def test_the_page_pastes_as_much_as_the_service_takes() -> None:
    (limit,) = re.findall(r"const MAX_PASTE = ([\d_]+);", read(STATIC / "editor.js"))
    schema = json.loads(read(ROOT / "web" / "schemas" / "page.json"))
    (paste,) = [each for each in nested(schema) if each.get("properties", {}).get("type") == {"const": "paste"}]
    assert paste["properties"]["text"]["maxLength"] == int(limit)


def nested(value: object) -> list[dict]:  # type: ignore[type-arg]
    """Every object in a JSON document."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(found for each in inner for found in nested(each))]
