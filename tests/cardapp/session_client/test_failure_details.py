"""What a session may report about a failed replay."""

from __future__ import annotations

from typing import Any

from cardapp.session_client.session_tools import failure
from cardapp.web import schemas

PLACE = {"file": "a.c", "line": 3, "function": "main", "inside": None}
END = {"exit_code": 3, "reached": 0, "hits": 1, "printed": ["bye"], "place": None, "forked": False}
SOURCE = {"file": "a.c", "line": 3, "expected": "x", "found": None}
MESSAGE = {"file": "a.c", "line": 3, "column": None, "kind": "error", "text": "no"}
BUILD = {"command": "make", "directory": "/copy", "output": ["no"], "messages": [MESSAGE]}


def details(code: str, **data: Any) -> Any:
    found = failure({"code": code, "reason": "why", **data}, "").extra.get("failure")
    if found is not None:
        assert schemas.faults("Failure", found) == ()
    return found


def test_each_part_is_taken_from_the_failure_that_has_it() -> None:
    ended = {"exit_code": 3, "signal": None, "reached": 0, "hits": 1, "place": None, "printed": ["bye"]}
    assert details("target_exited", **END) == {"build": None, "program": ended, "source": None}
    assert details("replay_timeout", **END | {"place": PLACE})["program"]["place"] == PLACE
    assert details("build_failed", build=BUILD) == {"build": BUILD, "program": None, "source": None}
    assert details("source_drift", **SOURCE) == {"build": None, "program": None, "source": SOURCE}
    assert details("debugger_dead") is None


def test_an_invalid_part_is_left_out() -> None:
    for data in (
        END | {"printed": "bye"},
        END | {"printed": ["x" * 5000]},
        END | {"place": {"file": 1}},
        END | {"reached": -1},
        {"build": BUILD | {"messages": [MESSAGE] * 51}},
        {"build": BUILD | {"messages": [MESSAGE | {"kind": "poem"}]}},
        {"build": []},
        SOURCE | {"line": "3"},
    ):
        assert details("target_exited", **data) is None, data
