"""The program's routes: where it is, and the commands that move it."""

from __future__ import annotations

from typing import Any

from cardapp.errors import Conflict, ProgramNotStopped, SessionUnavailable
from cardapp.session_client.session_tools import MOVES
from cardapp.web import schemas
from tests.cardapp.web.conftest import PROGRAM


def events(api: Any) -> list[tuple[str, str, dict[str, Any]]]:
    return [(event["kind"], event["actor"], event["data"]) for event in api.get("/api/events")["events"]]


def test_the_description_names_the_commands_that_the_session_has() -> None:
    assert schemas.definition("ProgramCommand")["enum"] == [*MOVES]


def test_a_move_answers_where_the_program_is_and_switches_sync_off_once(api: Any, program: Any, publish: Any) -> None:
    publish("t1/b1/p1/s1/one")
    for command in MOVES:
        program.calls.clear()
        assert api("POST", f"/api/program/{command}", {"actor": "me"}, status=200).json == PROGRAM
        assert program.calls == [("move", command), ("read",)]
    control = api.get("/api/control/state")
    assert (control["sync"], control["reason"]) == ("off", "target_ran_on")
    first, *others = [("program.moved", "me", {"command": command}) for command in MOVES]
    assert events(api) == [first, ("sync.off", "me", {"reason": "target_ran_on", "generation": 1}), *others]


def test_the_reason_tells_a_program_that_has_ended_from_one_that_runs(api: Any, program: Any, publish: Any) -> None:
    for state, reason in (("running", "target_ran_on"), ("exited", "program_exited")):
        publish("t1/b1/p1/s1/one")
        program.answers["move"] = state
        api("POST", "/api/program/continue", status=200)
        assert api.get("/api/control/state")["reason"] == reason


def test_a_refused_move_changes_nothing(api: Any, program: Any, publish: Any) -> None:
    publish("t1/b1/p1/s1/one")
    for error, status, code in (
        (ProgramNotStopped("the program runs: sync"), 409, "program_not_stopped"),
        (Conflict("gdb refuses finish", code="command_refused"), 409, "command_refused"),
        (SessionUnavailable("no session is chosen"), 503, "no_session"),
    ):
        program.answers["move"] = error
        api.problem("POST", "/api/program/finish", status=status, code=code)
    assert events(api) == []
    assert api.get("/api/control/state")["sync"] == "on"


def test_another_word_is_no_command(api: Any, program: Any) -> None:
    for word in ("run", "Step", "step%0A", "kill"):
        api.problem("POST", f"/api/program/{word}", status=404, code="not_found")
    assert program.calls == []
