"""Checkpoints over the whole application: a real session, real gdb in a real Neovim, the service, HTTP.

Each rejection of the guarded transaction is caused by a real fault, and none publishes anything.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cardapp.state import checkpoint_results
from tests.functional.serving import RELEASE, Background, Response, Stage, make_card, position, running_stage, until

pytestmark = [pytest.mark.functional]

QUICK = "t1/b1/p1/quick/first"
AGAIN = "t1/b1/p1/quick/second"
SLOW = "t1/b1/p1/slow/only"
DRIFTED = "t1/b1/p1/drifted/only"
BEYOND = "t1/b1/p1/beyond/only"


def slow_card(folder: Path) -> Path:
    """Before the step slow the program sleeps longer than the time limit of a replay. ``Stage.release`` ends it."""
    return make_card(folder, slow=6000)


@pytest.fixture(scope="module")
def slow() -> Iterator[Stage]:
    with running_stage(slow_card, CARD_REPLAY_TIMEOUT="55") as stage:
        yield stage


@pytest.fixture
def own(slow: Stage) -> Iterator[Stage]:
    """A session that the test may break: no replay of the step slow ends before the test has finished its own steps."""
    slow.tcp.post("/api/editor/reset")  # no copy of the slow stop is left
    yield slow
    (slow.sessions.session().work / "probe" / RELEASE).unlink(missing_ok=True)


def activate(stage: Stage, key: str, **changes: Any) -> Response:
    return stage.tcp.post("/api/checkpoint/activate", stage.activation(key) | changes)


def events(stage: Stage, after: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stage.tcp.get(f"/api/events?after={after}&limit=1000")["events"]
    return found


def last_seq(stage: Stage) -> int:
    seq: int = stage.tcp.get("/api/events?limit=1")["last_seq"]
    return seq


def assert_problem(answer: Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status, answer.json["code"]) == (status, code), answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json
    return problem


def assert_last(stage: Stage, problem: dict[str, Any]) -> dict[str, Any]:
    """The refused request, which the status shows as its last operation."""
    last: dict[str, Any] = stage.tcp.get("/api/checkpoint/status")["last"]
    assert last == problem["operation"]
    assert (last["state"], last["stage"]) == ("rejected", "binding")
    assert (last["code"], last["reason"]) == (problem["code"], problem["detail"])
    return last


# -- ready ---------------------------------------------------------------------------------------------------------


def test_a_ready_replay_is_proved_and_published(stage: Stage) -> None:
    answer = activate(stage, AGAIN)
    assert answer.status == 200, answer.body
    operation = answer.json
    assert operation["state"] == "ready"
    observed = operation["observed"]
    assert (observed["file"], observed["function"], observed["method"]) == ("main.c", "main", "rerun")
    assert {check["name"]: check["actual"] for check in observed["checks"]}["n"] == "2"
    assert all(check["match"] for check in observed["checks"])
    values = [check for check in observed["checks"] if check["name"] not in ("file", "line")]
    assert (observed["compared"], observed["partly"]) == (len(values), 0)
    assert observed["values"]["n + 1"]["value"] == "3"
    control = stage.unix.get("/api/control/state")
    assert (control["sync"], control["key"], control["generation"]) == ("on", AGAIN, operation["generation"])
    editor = until(lambda: (found := stage.tcp.get("/api/editor/state"))["available"] and found)
    assert editor["cursor"]["row"] == observed["line"]
    assert editor["buffer"]["name"].endswith("/main.c")


def test_sync_replays_and_publishes(stage: Stage) -> None:
    block = {"task_id": "t1", "block_id": "b1", "focus_level": "block"}
    for body, key in ((position("quick", "second"), AGAIN), (block, QUICK)):
        stage.tcp.put("/api/navigation/current", {**body, "sync_requested": True})
        answer = stage.tcp.post("/api/navigation/sync")
        assert (answer.status, answer.json["state"], answer.json["snapshot_ref"]) == (200, "ready", key), answer.body
        control = stage.tcp.get("/api/control/state")
        assert (control["sync"], control["key"]) == ("on", key)
        assert (control["at_position"], control["requested"]) == (True, False)
        assert stage.tcp.get("/api/navigation/current")["published"]["key"] == key
    stage.tcp.put("/api/navigation/current", position("slow"))
    control = stage.tcp.get("/api/control/state")
    assert (control["sync"], control["at_position"]) == ("on", False)


def test_a_checkpoint_with_wrong_values_is_replaced_by_a_new_run(stage: Stage) -> None:
    session = stage.sessions.session()
    stage.tcp.post("/api/editor/reset")
    for key in (QUICK, AGAIN):
        activate(stage, key)
    # The original process, the program, and the checkpoints of main and of both stops. The last one is taken after the
    # answer.
    until(lambda: list(session.processes().values()).count("probe") == 5)
    # Checkpoint 1, taken at the start of main, is the current process and is at the second stop. Checkpoint 2 is at the
    # first stop.
    for command in ("restart 2", "set var n = 9", "restart 1", 'printf "%d-%d\\n", 12, 34'):
        session.gdb(command)
    until(lambda: "12-34" in session.screen())
    runs = stage.tcp.get("/api/health")["slow_fallbacks"]["second_run"]
    answer = activate(stage, QUICK)
    assert (answer.status, answer.json["state"]) == (200, "ready"), answer.body
    assert stage.tcp.get("/api/health")["slow_fallbacks"]["second_run"] == runs + 1
    observed = answer.json["observed"]
    assert (observed["method"], observed["values"]["n + 1"]["value"]) == ("rerun", "2")


def test_health_counts_the_stops_that_got_no_checkpoint(stage: Stage) -> None:
    """The program has an open file, which a fork would share, so no checkpoint is taken."""
    with edited(stage, "    n = 1;", '    n = fopen("/proc/self/stat", "r") != NULL;'):
        activate(stage, QUICK)
        before = stage.tcp.get("/api/health")["slow_fallbacks"]
        for key in (AGAIN, QUICK):
            assert activate(stage, key).json["observed"]["method"] == "rerun"
        fallbacks = stage.tcp.get("/api/health")["slow_fallbacks"]
    added = {name: fallbacks[name] - before[name] for name in fallbacks if name != "late_pc_sign"}
    assert added == {"no_checkpoint": 2, "failed_restart": 0, "second_run": 0}


# -- refused, superseded, cancelled ----------------------------------------------------------------------------------


def test_a_request_that_is_refused_publishes_and_cancels_nothing(own: Stage) -> None:
    running, before = start_slow(own)
    seen = own.tcp.get("/api/checkpoint/status")["generation"]
    problem = assert_problem(activate(own, QUICK, generation=seen), 409, "stale_generation")
    assert str(seen) in problem["detail"]
    assert_last(own, problem)
    for part, field in (
        *(("binding", field) for field in ("container_id", "instance", "profile", "target")),
        *(("identity", field) for field in ("version", "source_sha256")),
    ):
        wrong = own.activation(AGAIN)
        wrong[f"expected_{part}"] |= {field: "another"}
        answer = own.tcp.post("/api/checkpoint/activate", wrong)
        last = assert_last(own, assert_problem(answer, 409, f"{part}_mismatch"))
        assert (last["snapshot_ref"], last["generation"], last["observed"]) == (AGAIN, wrong["generation"], None), field
        assert events(own)[-1]["kind"] == "checkpoint.rejected"
    assert own.published() == before
    own.release()
    assert running.answer().json["state"] == "ready"


def test_a_generation_may_not_skip_many(stage: Stage) -> None:
    assert_problem(activate(stage, QUICK, snapshot_ref="t1/b1/p1/quick"), 422, "invalid_value")
    seen = stage.tcp.get("/api/checkpoint/status")["generation"]
    for generation in (seen + 1_000_001, 2**52, 10**299):
        problem = assert_problem(activate(stage, QUICK, generation=generation), 422, "invalid_value")
        assert [each["pointer"] for each in problem["errors"]] == ["/generation"]
        assert f"use {seen + 1}" in problem["detail"]
        assert assert_last(stage, problem)["generation"] == generation
    assert stage.tcp.get("/api/checkpoint/status")["generation"] == seen
    greatest = seen + 1_000_000
    assert activate(stage, QUICK, generation=greatest).status == 200
    stage.tcp.put("/api/navigation/current", position("quick"))
    assert stage.tcp.post("/api/navigation/sync").json["generation"] == greatest + 1


def test_a_newer_request_supersedes_the_running_one(own: Stage) -> None:
    running, _before = start_slow(own)
    seen = last_seq(own)
    newer = activate(own, AGAIN)
    assert_problem(running.answer(), 409, "superseded")
    assert (newer.status, newer.json["state"]) == (200, "ready")
    assert own.published()[0] == AGAIN
    assert "checkpoint.cancelled" in [each["kind"] for each in events(own, seen)]


def test_a_running_replay_is_cancelled_by_request(own: Stage) -> None:
    activate(own, QUICK)
    status = own.tcp.get("/api/checkpoint/status")
    assert_problem(own.tcp.post("/api/checkpoint/cancel"), 409, "nothing_running")
    assert (own.tcp.get("/api/checkpoint/status"), own.published()[2]) == (status, "on")
    before = own.published()[:2]
    own.tcp.put("/api/navigation/current", position("slow", actor="ada"))
    running = Background(lambda: own.tcp.post("/api/navigation/sync"))
    own.running(SLOW)
    answer = own.tcp.post("/api/checkpoint/cancel", {"actor": "ben"})
    assert answer.status == 200, answer.body
    problem = assert_problem(running.answer(), 409, "cancelled_by_request")
    assert (answer.json["active"], answer.json["last"]) == (None, problem["operation"])
    assert (problem["operation"]["state"], own.published()[:2]) == ("cancelled", before)
    event = [each for each in events(own) if each["kind"] == "checkpoint.cancelled"][-1]
    assert (event["actor"], event["data"]["code"]) == ("ben", "cancelled_by_request")
    assert activate(own, AGAIN).json["state"] == "ready"


# -- failed ----------------------------------------------------------------------------------------------------------


def test_a_falsified_value_is_a_drift_after_a_new_run(stage: Stage) -> None:
    activate(stage, QUICK)
    before = stage.published()
    for _ in range(2):
        operation = assert_problem(activate(stage, DRIFTED), 409, "snapshot_drift")["operation"]
        assert (operation["state"], operation["observed"]["method"]) == ("failed", "rerun")
    wrong = [check for check in operation["observed"]["checks"] if not check["match"]]
    assert wrong == [{"name": "n", "expected": "7", "actual": "1", "match": False}]
    assert stage.published()[:2] == before[:2]


def test_an_exit_before_the_stop_is_a_typed_failure(stage: Stage) -> None:
    stage.release()
    problem = assert_problem(activate(stage, BEYOND), 502, "target_exited")
    assert "3" in problem["detail"]
    program = {"exit_code": 3, "signal": None, "reached": 0, "hits": 1, "place": None, "printed": []}
    assert problem["operation"]["failure"] == {"build": None, "program": program, "source": None}
    assert stage.tcp.get("/api/checkpoint/status")["last"] == problem["operation"]
    assert activate(stage, QUICK).json["state"] == "ready"


def test_a_target_that_hangs_or_crashes_leaves_a_usable_session_and_a_stop_ends_a_replay() -> None:
    with running_stage(lambda folder: make_card(folder, ending="crash", slow=6000), CARD_REPLAY_TIMEOUT="4") as stage:
        problem = assert_problem(activate(stage, SLOW), 504, "replay_timeout")
        program = problem["operation"]["failure"]["program"]
        assert (program["signal"], program["exit_code"]) == (None, None)
        stage.release()
        program = assert_problem(activate(stage, BEYOND), 502, "target_crashed")["operation"]["failure"]["program"]
        assert (program["place"]["function"], program["signal"]) == ("end", "SIGSEGV")
        until(lambda: stage.tcp.get("/api/editor/state")["available"])
        with stage.service.services.database.write() as tx:
            checkpoint_results.save_generation(tx, 2**52)
        answer = activate(stage, QUICK)
        assert (answer.status, answer.json["generation"]) == (200, 2**52 + 1), answer.body
        (stage.sessions.session().work / "probe" / RELEASE).unlink()
        running, _before = start_slow(stage)
        stage.service.stop()
        assert_problem(running.answer(), 409, "stopping")


@contextmanager
def edited(stage: Stage, old: str, new: str) -> Iterator[None]:
    """The learner edits main.c in the session's copy. The edit is undone at the end."""
    source = stage.sessions.session().work / "probe" / "main.c"
    before = source.read_text()
    source.write_text(before.replace(old, new))
    try:
        yield
    finally:
        source.write_text(before)


def test_a_failed_build_has_the_compilers_messages_apart(stage: Stage) -> None:
    activate(stage, QUICK)
    with edited(stage, "    n = 1;", "    n = missing;"):
        answer = activate(stage, AGAIN)
    last = stage.tcp.get("/api/checkpoint/status")["last"]
    assert assert_problem(answer, 502, "build_failed")["operation"] == last
    assert "undeclared" in last["reason"]
    build = last["failure"]["build"]
    assert build["command"] == "gcc -g -O0 -o probe main.c"
    first = build["messages"][0]
    line = (stage.card / "src" / "main.c").read_text().splitlines().index("    n = 1;") + 1
    assert (first["file"], first["line"], first["column"], first["kind"]) == ("main.c", line, 9, "error")
    assert stage.tcp.get("/api/control/state")["sync"] == "on", "the program was left where it was"


# -- what changes during the replay --------------------------------------------------------------------------------


def start_slow(stage: Stage) -> tuple[Background, tuple[Any, ...]]:
    """A quick snapshot is published, and a slow replay is running."""
    assert activate(stage, QUICK).status == 200
    before = stage.published()
    activation = stage.activation(SLOW)
    running = Background(lambda: stage.tcp.post("/api/checkpoint/activate", activation))
    stage.running(SLOW)
    return running, before


@contextmanager
def source_edited(stage: Stage) -> Iterator[None]:
    source = stage.card / "card_source.json"
    before = source.read_text()
    source.write_text(before + "\n")
    stage.release()
    yield
    until(lambda: stage.tcp.get("/api/control/state")["sync"] == "off")
    assert stage.tcp.get("/api/control/state")["reason"] == "source_changed"
    source.write_text(before)


@contextmanager
def edit_undone(stage: Stage) -> Iterator[None]:
    """The source has its bytes and its time again."""
    source = stage.card / "card_source.json"
    original, status = source.read_bytes(), source.stat()
    source.write_bytes(original + b"\n")
    source.write_bytes(original)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    stage.release()
    yield


@contextmanager
def session_restarted(stage: Stage) -> Iterator[None]:
    stage.sessions.stop()
    stage.sessions.start(stage.card)
    yield


@contextmanager
def another_chosen(stage: Stage) -> Iterator[None]:
    stage.sessions.start(stage.card, "other")
    try:
        stage.sessions.must("select", "other")
        stage.release()
        yield
    finally:
        stage.sessions.must("select", "s")
        stage.sessions.stop("other")


@contextmanager
def socket_rebound(stage: Stage) -> Iterator[None]:
    path = stage.sessions.socket
    aside = path.with_name("aside.sock")
    path.rename(aside)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        stage.release()
        yield
    aside.rename(path)


@contextmanager
def server_killed(stage: Stage) -> Iterator[None]:
    os.kill(stage.sessions.session().host_pid(), signal.SIGKILL)
    yield
    stage.sessions.must("reset")


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        (source_edited, {"source_changed"}),
        (edit_undone, {"source_changed"}),
        (session_restarted, {"container_changed", "mcp_socket_changed"}),
        (another_chosen, {"container_changed"}),
        (socket_rebound, {"mcp_socket_changed"}),
        (server_killed, {"container_changed", "mcp_socket_changed"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_change_during_the_replay_rejects_it(
    own: Stage, fault: Callable[[Stage], AbstractContextManager[None]], codes: set[str]
) -> None:
    running, before = start_slow(own)
    seen = last_seq(own)
    with fault(own):
        answer = running.answer()
        assert (answer.status, answer.json["operation"]["state"]) == (409, "rejected"), answer.body
        assert answer.json["code"] in codes
        assert own.published()[:2] == before[:2]
        kinds = [each["kind"] for each in events(own, seen)]
        assert ("checkpoint.ready" in kinds, "checkpoint.rejected" in kinds) == (False, True)
    own.tcp.put("/api/navigation/current", position("quick"))
    assert until(lambda: own.tcp.post("/api/navigation/sync").json.get("state") == "ready")


def test_a_source_that_is_no_card_switches_sync_off_and_refuses(own: Stage) -> None:
    source = own.card / "card_source.json"
    good = source.read_text()
    own.tcp.put("/api/navigation/current", position("quick"))
    for broken in ("{", None):
        until(lambda: own.tcp.post("/api/navigation/sync").status == 200)
        if broken is None:
            source.unlink()
        else:
            source.write_text(broken)
        until(lambda: own.tcp.get("/api/control/state")["sync"] == "off")
        assert own.tcp.get("/api/control/state")["reason"] == "source_changed"
        problem = assert_problem(own.tcp.post("/api/navigation/sync"), 409, "source_changed")
        assert "card_source.json" in problem["detail"]
        assert events(own)[-1]["kind"] == "checkpoint.rejected"
        source.write_text(good)


def test_without_a_session_the_refusal_names_the_remedy() -> None:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", make_card(Path(folder) / "card"))
        try:
            stage.tcp.put("/api/navigation/current", position("quick"))
            problem = assert_problem(stage.tcp.post("/api/navigation/sync"), 503, "no_session")
            assert "bin/card-session start" in problem["detail"]
            (stage.state / "mcp-choice.json").write_text(json.dumps({"name": "gone", "socket": "/nonexistent"}))
            assert_problem(stage.tcp.request("GET", "/api/session"), 503, "no_session")
        finally:
            stage.close()
