"""How the service reads the program: the call stack and the locals are from the same moment."""

from __future__ import annotations

from typing import Any

import pytest

from cardapp.errors import ProgramNotStopped
from cardapp.session_client.program import Program

STOPPED = {"state": "stopped", "file": "a.c", "line": 3, "function": "main", "reason": None}
FRAMES = [{"level": 0, "function": "main", "file": "a.c", "line": 3}]
LOCALS = [{"name": "n", "type": "int", "value": "1"}]


class Link:
    """Answers each reading with the next of ``stops``."""

    def __init__(self, *stops: str, **state: Any) -> None:
        self._stops = iter(stops)
        self._state = STOPPED | state

    def call(self, tool: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        found = {"frames": FRAMES} if tool == "backtrace" else {"locals": LOCALS}
        return self._state | {"stop_id": next(self._stops)} | found


def test_a_stopped_program_has_frames_and_locals() -> None:
    assert Program(Link("1", "1")).read() == STOPPED | {"frames": FRAMES, "locals": LOCALS}  # type: ignore[arg-type]


def test_what_moved_in_between_is_read_again() -> None:
    assert Program(Link("1", "2", "2", "2")).read()["frames"] == FRAMES  # type: ignore[arg-type]


def test_what_moves_all_the_time_is_refused() -> None:
    with pytest.raises(ProgramNotStopped):
        Program(Link(*"123456")).read()  # type: ignore[arg-type]


def test_a_running_program_has_neither() -> None:
    found = Program(Link("1", "2", state="running")).read()  # type: ignore[arg-type]
    assert (found["state"], found["frames"], found["locals"]) == ("running", [], [])
