"""Any layout file is either refused with the pointers of its faults, or read with warnings.

No other exception is raised, and no text is made that cannot be shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardapp.card.source import load_card
from cardapp.errors import InvalidLayout
from cardapp.publish import layouts
from cardapp.publish.export import emit
from tests.cardapp.mutation import Mutation, mutations, names_its_places, sendable, values
from tests.functional.serving import make_card


@cache
def document(name: str) -> Any:
    return json.loads(layouts.path_of(name).read_bytes())


def is_sound(raw: bytes) -> bool:
    """The file is either refused with our own error, which names the places, or read as a layout of finite sizes. Then
    its warnings can be shown."""
    try:
        layout = layouts.parse(raw, "the layout")
    except InvalidLayout as refusal:
        return names_its_places(refusal, "the layout")
    warned = [part for each in layout.warnings for part in (each.pointer, each.message)]
    sizes = [*layout.typography.sizes_pt.values(), *layout.typography.line_height.values()]
    return all(map(math.isfinite, sizes)) and sendable([layout.name, layout.description, *warned])


@pytest.mark.parametrize("name", layouts.known_ids())
def test_a_mutated_layout_is_refused_by_its_places_or_understood(name: str, loops: Callable[..., int]) -> None:
    @settings(max_examples=loops(quick=100, full=2000), deadline=None)
    @given(mutations(document(name)))
    def check(mutation: Mutation) -> None:
        assert is_sound(mutation.of(document(name)))

    check()


@pytest.mark.parametrize("name", layouts.known_ids())
def test_a_card_is_set_by_every_layout_that_is_understood(name: str, tmp_path: Path, loops: Callable[..., int]) -> None:
    card = load_card(make_card(tmp_path / "card"))

    @settings(max_examples=loops(quick=10, full=500), deadline=None)
    @given(mutations(document(name)))
    def check(mutation: Mutation) -> None:
        try:
            layout = layouts.parse(mutation.of(document(name)), "the layout")
        except InvalidLayout:
            return
        assert emit(card, layout, "html", {}, "Not proved").content.startswith(b"<!DOCTYPE html>")
        assert emit(card, layout, "latex", {}, "Not proved").content.rstrip().endswith(rb"\end{document}")

    check()


@settings(deadline=None)
@given(values)
def test_any_other_json_is_refused(value: Any) -> None:
    raw = json.dumps(value).encode()
    assert is_sound(raw)
    with pytest.raises(InvalidLayout):
        layouts.parse(raw, "the layout")


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_any_bytes_are_refused(raw: bytes) -> None:
    assert is_sound(raw)
