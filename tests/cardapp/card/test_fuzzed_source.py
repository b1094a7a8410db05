"""Any card source is either refused with the pointers of its faults, or served. No other exception is raised, and all
resulting texts can be sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.card import source
from cardapp.card.catalog import Catalog
from cardapp.card.source import load_card, parse_card
from cardapp.card_loader import CardLoader
from cardapp.errors import InvalidCard
from cardapp.schema import decode, field_errors
from cardapp.settings import ROOT
from tests.cardapp.mutation import Mutation, mutations, names_its_places, sendable, values

CARDS = ("arena", "calc")


@cache
def document(name: str) -> Any:
    return json.loads((ROOT / "etc" / "cards" / name / "card_source.json").read_bytes())


def is_sound(raw: bytes) -> bool:
    """Whether ``raw`` is refused with the places of its faults, or is a card whose items can be listed."""
    try:
        card, identity = parse_card(raw, "the card")
    except InvalidCard as refusal:
        return names_its_places(refusal, "the card")
    listed = [json.dumps(item.as_json(), ensure_ascii=False) for item in Catalog(card).items]
    return sendable([card.title, card.text, json.dumps(identity.as_json(), ensure_ascii=False), *listed])


@pytest.mark.parametrize("name", CARDS)
def test_a_mutated_card_is_served_or_refused_with_the_pointers_of_its_faults(
    name: str, loops: Callable[..., int]
) -> None:
    @settings(max_examples=loops(quick=40, full=600), deadline=None)
    @given(mutations(document(name)))
    def check(mutation: Mutation) -> None:
        assert is_sound(mutation.of(document(name)))

    check()


@pytest.mark.parametrize("name", CARDS)
def test_the_compiled_schema_accepts_the_same_documents_as_jsonschema(name: str, loops: Callable[..., int]) -> None:
    quick, checker = source._is_valid, source._checker()
    assert quick(document(name))

    @settings(max_examples=loops(quick=15, full=600), deadline=None)
    @given(mutations(document(name)))
    def check(mutation: Mutation) -> None:
        with suppress(ValueError):  # decode() refused the document
            value = decode(mutation.of(document(name)))
            assert quick(value) == (field_errors(checker, value) == ())

    check()


@pytest.mark.parametrize("number", ["44.0", "4.4e1"])
def test_an_integral_number_is_read_as_an_integer(number: str) -> None:
    place = ("tasks", 0, "blocks", 0, "phases", 0, "steps", 0, "snapshots", 0, "stop", "line")
    raw = Mutation((("set", place, 987654321),)).of(document("calc")).replace(b"987654321", number.encode())
    card, _identity = parse_card(raw, "the card")
    assert repr(card.tasks[0].blocks[0].phases[0].steps[0].snapshots[0].stop.line) == "44"


def test_no_reference_in_the_schema_has_rules_beside_it() -> None:
    """fastjsonschema ignores them, as JSON Schema did before 2019-09."""

    def objects(part: Any) -> Iterator[dict[str, Any]]:
        if isinstance(part, dict):
            yield part
        for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            yield from objects(child)

    assert [
        part for part in objects(source._schema()) if "$ref" in part and part.keys() - {"$ref", "description"}
    ] == []


@settings(deadline=None)
@given(values)
def test_any_other_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidCard):
        parse_card(json.dumps(value).encode(), "the card")
    assert is_sound(json.dumps(value).encode())


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_any_bytes_are_refused(raw: bytes) -> None:
    assert is_sound(raw)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_served_after_any_change_of_its_file(name: str, tmp_path: Path, loops: Callable[..., int]) -> None:
    file = tmp_path / "card_source.json"
    file.write_text(json.dumps(document(name)))
    card_loader = CardLoader(tmp_path)

    @settings(
        max_examples=loops(quick=10, full=300),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(mutations(document(name)))
    def check(mutation: Mutation) -> None:
        file.write_bytes(mutation.of(document(name)))
        served = card_loader.current()
        assert card_loader.revision()["revision"]
        try:
            assert served.identity == load_card(tmp_path).identity
            assert card_loader.fault is None
        except InvalidCard:
            assert card_loader.fault is not None

    check()


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("title",), "half \ud800", "unpaired surrogate, which is not a character, at /title"),
        (("target", "directory"), "\udc80", "unpaired surrogate, which is not a character, at /target/directory"),
        (("\ud800",), 1, "unpaired surrogate, which is not a character, at /"),
        (("tasks",), [[]] * 2 + [10**400], "a number of 401 digits"),
        (("text",), float("nan"), "NaN, which is not a JSON value"),
        (("target", "build"), ["make\0"], r"/target/build/0 must not contain the control character U\+0000"),
        (("target", "args"), ["a\0b"], r"/target/args/0 must not contain the control character U\+0000"),
    ],
)
def test_a_text_that_cannot_be_shown_or_run_is_refused(place: tuple[str, ...], value: Any, said: str) -> None:
    with pytest.raises(InvalidCard, match=said):
        parse_card(Mutation((("set", place, value),)).of(document("arena")), "the card")


@pytest.mark.parametrize("depth", [500, 501, 900, *range(940, 1000), 5000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_no_depth_of_nesting_exhausts_the_stack(depth: int, opening: bytes, closing: bytes) -> None:
    inner = b"" if opening == b"[" else b"1"
    with pytest.raises(InvalidCard):
        parse_card(opening * depth + inner + closing * depth, "the card")


def test_a_line_number_is_one_that_gdb_can_count() -> None:
    steps = ("tasks", 0, "blocks", 0, "phases", 0, "steps", 0)
    for place in ((*steps, "snapshots", 0, "stop", "line"), (*steps, "code", "to")):
        with pytest.raises(InvalidCard, match="must be at most 2147483647"):
            parse_card(Mutation((("set", place, 2**31),)).of(document("arena")), "the card")
