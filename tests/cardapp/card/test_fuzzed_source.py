"""Any card source is either refused with the pointers of its faults, or served. No other exception is raised, and all
resulting texts can be sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.card.catalog import Catalog
from cardapp.card.source import parse_card
from cardapp.errors import InvalidCard
from cardapp.schema import decode, field_errors, validator
from cardapp.settings import ROOT
from tests.cardapp.mutation import Mutation, mutations, names_its_places, sendable, values

STEP = ("tasks", 0, "blocks", 0, "phases", 0, "steps", 0)
STOP_LINE = (*STEP, "snapshots", 0, "stop", "line")
SCHEMA = json.loads((ROOT / "cardapp" / "card" / "card-source.v1.schema.json").read_text("utf-8"))


@cache
def document(name: str) -> Any:
    return json.loads((ROOT / "etc" / "cards" / name / "card_source.json").read_bytes())


MUTATED = st.sampled_from(["arena", "calc"]).flatmap(
    lambda name: mutations(document(name)).map(lambda mutation: (name, mutation))
)


def is_sound(raw: bytes) -> bool:
    """Whether ``raw`` is refused with the places of its faults, or is a card whose items can be listed."""
    try:
        card, identity = parse_card(raw, "the card")
    except InvalidCard as refusal:
        return names_its_places(refusal, "the card")
    listed = [json.dumps(item.as_json(), ensure_ascii=False) for item in Catalog(card).items]
    return sendable([card.title, card.text, json.dumps(identity.as_json(), ensure_ascii=False), *listed])


@given(MUTATED)
def test_a_mutated_card_is_served_or_refused_with_the_pointers_of_its_faults(mutated: tuple[str, Mutation]) -> None:
    name, mutation = mutated
    assert is_sound(mutation.of(document(name)))


@given(MUTATED)
def test_every_fault_that_the_schema_has_is_named(mutated: tuple[str, Mutation]) -> None:
    name, mutation = mutated
    raw = mutation.of(document(name))
    with suppress(ValueError):  # decode() refused the document
        faults = field_errors(validator(SCHEMA), decode(raw))
        if faults:
            with pytest.raises(InvalidCard) as refused:
                parse_card(raw, "the card")
            assert refused.value.errors == faults


def test_no_reference_in_the_schema_has_rules_beside_it() -> None:
    """fastjsonschema ignores them, as JSON Schema did before 2019-09."""

    def objects(part: Any) -> Iterator[dict[str, Any]]:
        if isinstance(part, dict):
            yield part
        for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            yield from objects(child)

    assert [part for part in objects(SCHEMA) if "$ref" in part and part.keys() - {"$ref", "description"}] == []


@given(values.map(json.dumps).map(str.encode) | st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_anything_else_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidCard):
        parse_card(raw, "the card")
    assert is_sound(raw)


def test_an_integral_number_is_read_as_an_integer() -> None:
    for number in (b"44.0", b"4.4e1"):
        raw = Mutation((("set", STOP_LINE, 987654321),)).of(document("calc")).replace(b"987654321", number)
        card, _identity = parse_card(raw, "the card")
        assert repr(card.tasks[0].blocks[0].phases[0].steps[0].snapshots[0].stop.line) == "44"


def test_a_value_that_cannot_be_shown_counted_or_run_is_refused() -> None:
    for place, value, said in (
        (("title",), "half \ud800", "unpaired surrogate, which is not a character, at /title"),
        (("target", "directory"), "\udc80", "unpaired surrogate, which is not a character, at /target/directory"),
        (("\ud800",), 1, "unpaired surrogate, which is not a character, at /"),
        (("tasks",), [[]] * 2 + [10**400], "a number of 401 digits"),
        (("text",), float("nan"), "NaN, which is not a JSON value"),
        (("target", "build"), ["make\0"], r"/target/build/0 must not contain the control character U\+0000"),
        (("target", "args"), ["a\0b"], r"/target/args/0 must not contain the control character U\+0000"),
        (STOP_LINE, 2**31, "must be at most 2147483647"),
        ((*STEP, "code", "to"), 2**31, "must be at most 2147483647"),
    ):
        with pytest.raises(InvalidCard, match=said):
            parse_card(Mutation((("set", place, value),)).of(document("arena")), "the card")
