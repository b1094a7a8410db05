"""Any layout file is either refused with the pointers of its faults, or read with warnings.

No other exception is raised, and no text is made that cannot be shown.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.errors import InvalidLayout
from cardapp.publish import layouts
from tests.cardapp.mutation import mutations, names_its_places, sendable, values


@cache
def document(name: str) -> Any:
    return json.loads(layouts.path_of(name).read_bytes())


MUTATED = st.sampled_from(layouts.known_ids()).flatmap(
    lambda name: mutations(document(name)).map(lambda mutation: mutation.of(document(name)))
)


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


@given(MUTATED)
def test_a_mutated_layout_is_refused_by_its_places_or_understood(raw: bytes) -> None:
    assert is_sound(raw)


@given(values.map(json.dumps).map(str.encode) | st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_anything_else_is_refused(raw: bytes) -> None:
    assert is_sound(raw)
    with pytest.raises(InvalidLayout):
        layouts.parse(raw, "the layout")
