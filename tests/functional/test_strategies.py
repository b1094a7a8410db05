"""A strategy's dry run over the whole application: its snapshot is replayed, and gdb runs its commands there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.counting_card import CountingCard
from tests.functional.serving import Stage, running_stage, until

pytestmark = pytest.mark.functional

SECOND, END = "t1/b1/p1/s1/second", "t1/b1/p1/s1/end"


def counting(folder: Path) -> Path:
    card = CountingCard(folder)
    card.edit_code("    if (argc > 1)\n        pause();\n", "    for (volatile int i = 0; argc == 1; i++) { }\n")
    card.step["snapshots"][0]["expect"] = {"total": 3}
    del card.step["snapshots"][1:]
    card.write()
    return folder


@pytest.fixture(scope="module")
def counted() -> Iterator[Stage]:
    with running_stage(counting) as stage:
        yield stage


def added(stage: Stage, commands: dict[str, str | None]) -> str:
    """Create a strategy with the expected output of each of its commands. Returns its id."""
    body = {"key": SECOND, "label": "Look", "commands": [*commands], "expected_observations": [*commands.values()]}
    answer = stage.tcp.post("/api/strategies", body)
    assert answer.status == 201, answer.body
    identifier: str = answer.json["id"]
    return identifier


def run(stage: Stage, commands: dict[str, str | None]) -> list[dict[str, Any]]:
    """The results of a new strategy's dry run."""
    answer = stage.tcp.post(f"/api/strategies/{added(stage, commands)}/run", {"actor": "ada"})
    assert answer.status == 200, answer.body
    results: list[dict[str, Any]] = answer.json["results"]
    return results


def control(stage: Stage) -> tuple[str, str | None, str]:
    found = stage.tcp.get("/api/control/state")
    return found["sync"], found["reason"], found["key"]


def test_commands_that_only_look_leave_the_program_at_its_snapshot(counted: Stage) -> None:
    results = run(
        counted,
        {
            "print total": "0x3",
            "print/x total": "4",
            "info args": "n = 2",
            "backtrace": "main (argc=1",
            "up": "add(2)",
            "print argc": "1",
            "x/dw &total": None,
            "ptype add": "int (int)",
            "list add": "static int add",
            "output calls": "2",
            "display total": "3",
            "tbreak main": "Temporary breakpoint",
            "print nothing": 'No symbol "nothing" in current context.',
        },
    )
    assert [each.get("match") for each in results] == [
        True, False, True, True, True, True, None, True, True, True, True, True, True
    ], "\n".join(map(str, results))  # fmt: skip
    assert "expected" not in results[6]
    assert control(counted) == ("on", None, SECOND)
    stop = counted.link.debugger_state()["stop_id"]
    asked = {"stop_id": stop, "commands": ["info breakpoints", "info display", "frame"]}
    breakpoints, displays, frame = counted.link.call("run_commands", asked)["outputs"]
    assert breakpoints.startswith("No breakpoints")
    assert displays.startswith("There are no auto-display expressions")
    assert frame.startswith("#0  add (n=2)")


def test_commands_that_move_the_program_switch_sync_off(counted: Stage) -> None:
    results = run(counted, {"next": "return total", "finish": "Value returned is", "print total": "3"})
    assert all(each["match"] for each in results[1:]), results
    assert control(counted) == ("off", "target_ran_on", SECOND)
    last = counted.tcp.get("/api/events?kind=program.moved&limit=1000")["events"][-1]
    assert (last["actor"], last["key"], last["data"]["command"]) == ("ada", SECOND, "next; finish; print total")
    assert counted.tcp.get("/api/events?kind=sync.off&limit=1000")["events"][-1]["actor"] == "ada"
    assert counted.tcp.post("/api/checkpoint/activate", counted.activation(SECOND)).status == 200
    assert control(counted) == ("on", None, SECOND)


def test_a_program_that_does_not_stop_is_interrupted_and_the_rest_is_not_run(counted: Stage) -> None:
    results = run(counted, {"continue": "SIGINT", "print total": "7"})
    assert "SIGINT" in results[0]["output"]
    assert (results[1]["output"], results[1]["match"]) == (None, False)
    assert control(counted)[:2] == ("off", "target_ran_on")


def test_what_a_command_prints_is_bounded(counted: Stage) -> None:
    (result,) = run(counted, {"info functions": None})
    assert len(result["output"]) == 4000


def test_the_session_refuses_what_the_service_would_have_refused(counted: Stage) -> None:
    session = counted.sessions.session()
    stop = counted.link.debugger_state()["stop_id"]
    for command in ("p total", "shell true", "print add(1)", "print total = 4", 'print ($_shell)("true")'):
        refused = session.call("run_commands", {"stop_id": stop, "commands": [command]})
        assert refused.is_error
        assert refused.structured["code"] == "command_not_allowed"


def test_a_strategy_of_a_snapshot_that_is_gone_is_kept_and_not_run(counted: Stage) -> None:
    identifier = added(counted, {"print total": None})
    source = counted.card / "card_source.json"
    before = source.read_text()
    try:
        source.write_text(before.replace('"second"', '"other"'))
        until(lambda: counted.tcp.post(f"/api/strategies/{identifier}/run").status == 409)
        assert identifier in [each["id"] for each in counted.tcp.get("/api/strategies")["strategies"]]
    finally:
        source.write_text(before)
