"""The messages of a page on ``/api/editor-ui``: the quick predicate takes what the library takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings

from cardapp.schema import decode
from cardapp.web import schemas, streams
from tests.cardapp.mutation import Mutation, mutations

MESSAGES = (
    {"type": "input", "text": "x"},
    {"type": "mouse", "button": "left", "action": "press", "modifier": "SC", "row": 3, "col": 4},
    {"type": "paste", "text": "a line"},
    {"type": "ack", "seq": 7},
)


@pytest.mark.parametrize("message", MESSAGES)
def test_what_the_predicate_takes_is_what_the_library_takes(message: dict[str, Any], loops: Callable[..., int]) -> None:
    quick = streams._is_message()
    assert quick(message)

    @settings(max_examples=loops(quick=40, full=600), deadline=None)
    @given(mutations(message))
    def check(mutation: Mutation) -> None:
        with suppress(ValueError):  # no JSON that is taken
            value = decode(mutation.of(message))
            assert quick(value) == (schemas.faults("EditorUiMessage", value) == ())

    check()
