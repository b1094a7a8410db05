"""The messages of pages on the editor's WebSocket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cardapp.errors import InvalidValue
from cardapp.web import schemas
from cardapp.web.streams import parsed

MOUSE = {"type": "mouse", "button": "wheel", "action": "up", "modifier": "CA", "row": 0, "col": 10_000}
PANEL = {"type": "panel", "cols": 20, "rows": 200, "focused": False}
VALID = ({"type": "input", "text": "<CR>"}, {"type": "paste", "text": ""}, MOUSE, PANEL, {"type": "ack", "seq": 0})
ODD = (None, True, -1, 0, 0.5, 5, 5.0, 10_001, "", "x", "SCAS", "S\n", "x" * 4097, "left", [], ["left"], {})


def is_accepted(message: Any) -> bool:
    try:
        return parsed(json.dumps(message)) == message
    except InvalidValue:
        return False


def test_the_check_of_a_message_agrees_with_its_schema() -> None:
    changed = [{**valid, name: odd} for valid in VALID for name in (*valid, "other") for odd in ODD]
    shorter = [{other: valid[other] for other in valid if other != name} for valid in VALID for name in valid]
    for message in (*VALID, *changed, *shorter, *ODD):
        assert is_accepted(message) == (not schemas.faults("EditorUiMessage", message)), message
    assert all(map(is_accepted, VALID))
    assert not is_accepted({"type": "paste", "text": "\ud800"}), "no character"
    for text in ("[" * 100_000, "x", '{"type": "ack", "type": "ack", "seq": 1}'):
        with pytest.raises(InvalidValue, match="the message"):
            parsed(text)
