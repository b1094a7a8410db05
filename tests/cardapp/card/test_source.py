"""The source of a card is checked strictly, and the error names each fault by its pointer."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.source import load_card, parse_card, source_path
from cardapp.errors import InvalidCard, NoCard

ROOT = Path(__file__).resolve().parents[3]


def parsed(source: dict[str, Any]) -> Any:
    return parse_card(json.dumps(source).encode(), "test")[0]


def faults(source: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidCard) as caught:
        parsed(source)
    return {fault.pointer: fault.message for fault in caught.value.errors}


def test_identity_is_the_sha256_of_the_bytes(source: dict[str, Any]) -> None:
    raw = json.dumps(source, indent=3).encode()
    _, identity = parse_card(raw, "test")
    assert identity.as_json() == {
        "id": "small",
        "uuid": source["uuid"],
        "version": "1.0.0",
        "source_sha256": hashlib.sha256(raw).hexdigest(),
    }


def test_optional_members_of_a_card_have_defaults(source: dict[str, Any]) -> None:
    card = parsed(source)
    snapshot = card.tasks[0].blocks[0].phases[0].steps[0].snapshots[0]
    assert (snapshot.stop.hits, snapshot.watch, card.target.args, card.allocator) == (1, (), (), None)


def test_an_allocator_recipe_is_loaded_unchanged(source: dict[str, Any]) -> None:
    recipe = {
        "base": "a.base",
        "size": "a.size",
        "used": "a.used",
        "high_water": "a.peak",
        "blocks": {"count": "a.n", "offset": "a.log[$i].offset", "size": "a.log[$i].size", "label": "a.log[$i].label"},
    }
    source["allocator"] = recipe
    assert parsed(source).allocator.as_json() == recipe


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        (["id"], "Not An Id", "/id"),
        (["uuid"], "11111111", "/uuid"),
        (["schema"], "card-source.v2", "/schema"),
        (["extra"], 1, "/extra"),
        (["target", "directory"], "../elsewhere", "/target/directory"),
        (["target", "program"], "/bin/sh", "/target/program"),
        (["target", "build"], [], "/target/build"),
        (["tasks"], [], "/tasks"),
        (["tasks", 0, "blocks", 0, "id"], "B1", "/tasks/0/blocks/0/id"),
        (["tasks", 0, "blocks", 0, "phases", 0, "steps", 0, "snapshots", 0, "expect"], {"n": 1},
         "/tasks/0/blocks/0/phases/0/steps/0/snapshots/0/expect/n"),
        (["tasks", 0, "blocks", 0, "phases", 0, "steps", 0, "snapshots", 0, "stop", "hits"], 0,
         "/tasks/0/blocks/0/phases/0/steps/0/snapshots/0/stop/hits"),
        (["tasks", 0, "blocks", 0, "phases", 0, "steps", 0, "snapshots", 0, "stop", "hits"], True,
         "/tasks/0/blocks/0/phases/0/steps/0/snapshots/0/stop/hits"),
        (["tasks", 0, "blocks", 0, "phases", 0, "steps", 0, "snapshots", 0, "stop", "file"], "b.c",
         "/tasks/0/blocks/0/phases/0/steps/0/snapshots/0/stop/file"),
        (["tasks", 0, "blocks", 0, "phases", 0, "steps", 0, "code"], {"file": "a.c", "from": 9, "to": 3},
         "/tasks/0/blocks/0/phases/0/steps/0/code"),
    ],
)  # fmt: skip
def test_each_fault_is_named_by_its_place(source: dict[str, Any], path: list[Any], value: Any, pointer: str) -> None:
    parsed(source)
    place = source
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert pointer in faults(source)


def test_ids_are_unique_among_siblings_only(source: dict[str, Any]) -> None:
    twin = copy.deepcopy(source["tasks"][0])
    source["tasks"].append(twin)
    assert faults(source) == {"/tasks/2/id": "'t1' is already the id of a sibling"}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"id": "a", "id": "b"}', "has the name 'id' twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "must be an object"),
    ],
)
def test_a_file_that_is_no_card_is_refused(raw: bytes, said: str) -> None:
    with pytest.raises(InvalidCard, match=said):
        parse_card(raw, "test")


def test_a_card_is_a_folder_or_its_file(source: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "card_source.json").write_text(json.dumps(source))
    assert load_card(tmp_path) == load_card(tmp_path / "card_source.json")
    with pytest.raises(InvalidCard, match="there is no card at"):
        source_path(tmp_path / "nowhere")
    with pytest.raises(NoCard, match="there is no card at"):
        source_path(tmp_path / ("far" * 100))


@pytest.mark.parametrize("name", ["arena", "calc"])
def test_the_shipped_cards_are_worth_an_hour(name: str) -> None:
    card = load_card(ROOT / "etc" / "cards" / name).card
    steps = [s for t in card.tasks for b in t.blocks for p in b.phases for s in p.steps]
    assert len(steps) >= 20
    assert sum(len(step.snapshots) for step in steps) >= 25
    assert all(step.text and step.question for step in steps)
    assert all(block.goal for task in card.tasks for block in task.blocks)
    assert (card.allocator is not None) == (name == "arena")
