"""The source of a card is checked strictly, and the error names each fault by its pointer."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.model import Expectation, Run
from cardapp.card.proof import expressions
from cardapp.card.source import load_card, parse_card, source_path
from cardapp.errors import InvalidCard, NoCard
from tests.cardapp.card.conftest import first_step, small_source

ROOT = Path(__file__).resolve().parents[3]
STEP = "/tasks/0/blocks/0/phases/0/steps/0"
STOP = f"{STEP}/snapshots/0"


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
    card, snapshot = parsed(source), stops(source)[0]
    assert (snapshot.stop.hits, snapshot.watch, card.target.run.args, card.allocator) == (1, (), (), None)


def test_the_recipe_of_a_list_or_a_tree_is_loaded(source: dict[str, Any]) -> None:
    blocks = {"address": "$node", "size": "sizeof *$node", "label": "$node->key"}
    source["allocator"] = {"each": {"root": "tree", "children": ["$node->left", "$node->right"]}, "blocks": blocks}
    each = {"first": "tree", "following": ["$node->left", "$node->right"], "max": 200}
    assert parsed(source).allocator.as_json() == {"each": each, "blocks": blocks}
    source["allocator"] = {
        "label": "list",
        "each": {"first": "head", "next": "$node->next", "max": 5},
        "blocks": blocks,
    }
    each = {"first": "head", "following": ["$node->next"], "max": 5}
    assert parsed(source).allocator.as_json() == {"each": each, "blocks": blocks}


def snapshot_of(source: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = first_step(source)["snapshots"][0]
    return found


def stops(source: dict[str, Any]) -> Any:
    """The snapshots of the first step, as loaded."""
    return parsed(source).tasks[0].blocks[0].phases[0].steps[0].snapshots


def test_a_snapshot_chooses_a_run_of_the_target(source: dict[str, Any]) -> None:
    source["target"] |= {"args": ["x"], "env": {"A": "1"}, "runs": {"bug": {"stdin": "in.txt", "timeout_s": 2.5}}}
    snapshot_of(source)["run"] = "bug"
    card = parsed(source)
    one, two = stops(source)
    assert card.target.run_named(one.run) == Run((), "in.txt", (), 2.5)
    assert card.target.run_named(two.run) == Run(("x",), None, (("A", "1"),))
    snapshot_of(source)["run"] = "other"
    assert faults(source) == {f"{STOP}/run": "'other' is not one of target.runs (bug)"}


def test_an_expected_value_has_several_forms(source: dict[str, Any]) -> None:
    for expected, loaded in (
        (48, Expectation("n", "48")),
        (0.5, Expectation("n", "0.5")),
        ("a", Expectation("n", "a")),
        ({"value": 0.1, "tolerance": 1e-6}, Expectation("n", "0.1", None, 1e-6)),
        ({"value": "0x40", "format": "x"}, Expectation("n", "0x40", "x")),
        ({"undefined": True}, Expectation("n", "undefined", undefined=True)),
    ):
        snapshot_of(source)["expect"] = {"n": expected}
        assert stops(source)[0].expect == (loaded,)


def test_a_stop_asks_for_its_expected_values_or_for_those_that_it_names(source: dict[str, Any]) -> None:
    snapshot_of(source).update({"expect": {"n": "1", "p": {"undefined": True}}, "watch": ["w"]})
    stop = stops(source)[0]
    assert (stop.ask, stop.hints, stop.explanation) == (("n", "p"), (), "")
    assert expressions(stop) == ["n", "p", "w"]
    snapshot_of(source).update({"ask": ["m", "n"], "hints": ["It *grows*."], "explanation": "By two."})
    stop = stops(source)[0]
    assert (stop.ask, stop.hints, stop.explanation) == (("m", "n"), ("It *grows*.",), "By two.")
    assert expressions(stop) == ["n", "p", "w", "m"]


def test_a_directory_above_the_card_needs_a_root_that_contains_it(source: dict[str, Any], tmp_path: Path) -> None:
    source["target"]["directory"] = "../src"
    assert "needs target.root" in faults(source)["/target/directory"]
    source["target"]["root"] = ".."
    (tmp_path / "card").mkdir()
    file = tmp_path / "card" / "card_source.json"
    file.write_text(json.dumps(source))
    loaded = load_card(file)
    assert (loaded.root, loaded.target_directory) == (tmp_path, tmp_path / "src")
    source["target"]["root"] = "."
    file.write_text(json.dumps(source))
    with pytest.raises(InvalidCard, match=r"/target/root .* does not contain the target's directory"):
        load_card(file)


def test_each_fault_is_named_by_its_place() -> None:
    for place, value, pointer in (
        ("/id", "Not An Id", "/id"),
        ("/uuid", "11111111", "/uuid"),
        ("/schema", "card-source.v2", "/schema"),
        ("/extra", 1, "/extra"),
        ("/target/directory", "../elsewhere", "/target/directory"),
        ("/target/program", "/bin/sh", "/target/program"),
        ("/target/build", [], "/target/build"),
        ("/tasks", [], "/tasks"),
        ("/tasks/0/blocks/0/id", "B1", "/tasks/0/blocks/0/id"),
        (f"{STEP}/code", {"file": "a.c", "from": 9, "to": 3}, f"{STEP}/code"),
        (f"{STOP}/stop/hits", 0, f"{STOP}/stop/hits"),
        (f"{STOP}/stop/hits", True, f"{STOP}/stop/hits"),
        (f"{STOP}/stop/file", "b.c", f"{STOP}/stop/file"),
        (f"{STOP}/expect", {"n": True}, f"{STOP}/expect/n"),
        (f"{STOP}/expect", {"n": {"undefined": False}}, f"{STOP}/expect/n/undefined"),
        (f"{STOP}/expect", {"n": {"undefined": True, "value": "1"}}, f"{STOP}/expect/n/undefined"),
        (f"{STOP}/ask", ["n", "n"], f"{STOP}/ask"),
        (f"{STOP}/hints", [""], f"{STOP}/hints/0"),
        (f"{STOP}/explanation", ["x"], f"{STOP}/explanation"),
        # Expressions that change the program.
        (f"{STOP}/expect", {"a/b(c)": "4"}, f"{STOP}/expect/a~1b(c)"),
        (f"{STOP}/watch", ["n", "n++"], f"{STOP}/watch/1"),
        (f"{STOP}/ask", ["n", "f(n)"], f"{STOP}/ask/1"),
        (f"{STOP}/stop", {"function": "main", "if": "n = 4"}, f"{STOP}/stop/if"),
    ):
        source: Any = small_source()
        parsed(source)
        *way, name = place.split("/")[1:]
        parent = source
        for part in way:
            parent = parent[int(part) if isinstance(parent, list) else part]
        parent[name] = value
        assert pointer in faults(source), (place, value)


def test_ids_are_unique_among_siblings_only(source: dict[str, Any]) -> None:
    twin = copy.deepcopy(source["tasks"][0])
    source["tasks"].append(twin)
    assert faults(source) == {"/tasks/2/id": "'t1' is already the id of a sibling"}


def test_a_file_that_is_no_card_is_refused() -> None:
    for raw, said in (
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"id": "a", "id": "b"}', "has the name 'id' twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "must be an object"),
    ):
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
    stops = [stop for step in steps for stop in step.snapshots]
    assert all(1 <= len(stop.ask) <= 3 and stop.hints and stop.explanation for stop in stops)
    # Without a session only expressions with an expected value can be judged.
    assert all(set(stop.ask) <= {each.expression for each in stop.expect} for stop in stops)
