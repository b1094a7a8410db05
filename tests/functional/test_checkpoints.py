"""Checkpoints over the whole application: a real session, real gdb in a real Neovim, the service, HTTP.

Each rejection of the guarded transaction is caused by a real fault, and none publishes anything.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cardapp.session_client import session_tools
from cardapp.state import checkpoint_results
from tests.functional.serving import Background, Response, Stage, make_card, position, until

pytestmark = [pytest.mark.functional, pytest.mark.each_runtime]

QUICK = "t1/b1/p1/quick/first"
AGAIN = "t1/b1/p1/quick/second"
SLOW = "t1/b1/p1/slow/only"
DRIFTED = "t1/b1/p1/drifted/only"
BEYOND = "t1/b1/p1/beyond/only"


@pytest.fixture(scope="module")
def shared(stage: Stage) -> Stage:
    """One session for the tests that do not change it."""
    return stage


@pytest.fixture
def own(state_dir: Path, runtime: str) -> Iterator[Stage]:
    """A session that the test may break.

    Before the step slow the program sleeps longer than the time limit of a replay. So no replay of this step ends
    before the test has finished its own steps. ``Stage.release`` ends the sleep.
    """
    stage = Stage(state_dir / "state", make_card(state_dir / "card", slow=6000), runtime)
    try:
        stage.sessions.start(stage.card)
        yield stage
    finally:
        stage.close()


def kinds(stage: Stage) -> list[str]:
    return [event["kind"] for event in stage.tcp.get("/api/events?limit=1000")["events"]]


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


def test_a_ready_replay_is_proved_and_published(shared: Stage) -> None:
    answer = shared.tcp.post("/api/checkpoint/activate", shared.activation(AGAIN))
    assert answer.status == 200, answer.body
    operation = answer.json
    assert operation["state"] == "ready"
    observed = operation["observed"]
    assert (observed["file"], observed["function"], observed["method"]) == ("main.c", "main", "rerun")
    assert {check["name"]: check["actual"] for check in observed["checks"]}["n"] == "2"
    assert all(check["match"] for check in observed["checks"])
    assert observed["values"]["n + 1"]["value"] == "3"
    control = shared.unix.get("/api/control/state")
    assert (control["sync"], control["key"], control["generation"]) == ("on", AGAIN, operation["generation"])
    editor = shared.tcp.get("/api/editor/state")
    assert editor["cursor"]["row"] == observed["line"]
    assert editor["buffer"]["name"].endswith("/main.c")


def test_the_same_generation_is_stale_and_cancels_nothing(shared: Stage) -> None:
    seen = shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK)).json["generation"]
    before = shared.published()
    running = Background(lambda: shared.tcp.post("/api/checkpoint/activate", shared.activation(SLOW)))
    shared.running(SLOW)
    problem = assert_problem(
        shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK, generation=seen + 1)),
        409,
        "stale_generation",
    )
    assert str(seen + 1) in problem["detail"]
    assert_last(shared, problem)
    assert shared.published() == before
    assert running.answer().json["state"] == "ready"


@pytest.mark.parametrize(
    ("part", "field", "code"),
    [
        ("expected_binding", "container_id", "binding_mismatch"),
        ("expected_binding", "instance", "binding_mismatch"),
        ("expected_binding", "profile", "binding_mismatch"),
        ("expected_binding", "target", "binding_mismatch"),
        ("expected_identity", "version", "identity_mismatch"),
        ("expected_identity", "source_sha256", "identity_mismatch"),
    ],
)
def test_another_expectation_is_refused_and_cancels_nothing(shared: Stage, part: str, field: str, code: str) -> None:
    shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    before = shared.published()
    wrong = shared.activation(AGAIN)
    wrong[part] = {**wrong[part], field: "another"}
    problem = assert_problem(shared.tcp.post("/api/checkpoint/activate", wrong), 409, code)
    last = assert_last(shared, problem)
    assert (last["snapshot_ref"], last["generation"], last["observed"]) == (AGAIN, wrong["generation"], None)
    assert shared.published() == before
    assert kinds(shared)[-1] == "checkpoint.rejected"


def test_a_newer_request_supersedes_the_running_one(shared: Stage) -> None:
    shared.tcp.post("/api/editor/reset")  # no copy of the slow stop is left
    shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    running = Background(lambda: shared.tcp.post("/api/checkpoint/activate", shared.activation(SLOW)))
    shared.running(SLOW)
    newer = shared.tcp.post("/api/checkpoint/activate", shared.activation(AGAIN))
    assert_problem(running.answer(), 409, "superseded")
    assert (newer.status, newer.json["state"]) == (200, "ready")
    assert shared.published()[0] == AGAIN
    assert "checkpoint.cancelled" in kinds(shared)


def test_a_running_replay_is_cancelled_by_request(shared: Stage) -> None:
    shared.tcp.post("/api/editor/reset")  # no copy of the slow stop is left
    shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    before = shared.published()[:2]
    shared.tcp.put("/api/navigation/current", position("slow", actor="ada"))
    running = Background(lambda: shared.tcp.post("/api/navigation/sync"))
    shared.running(SLOW)
    begun = time.monotonic()
    answer = shared.tcp.post("/api/checkpoint/cancel", {"actor": "ben"})
    assert time.monotonic() - begun < 1  # the rest of the replay would take longer
    assert answer.status == 200, answer.body
    problem = assert_problem(running.answer(), 409, "cancelled_by_request")
    assert (answer.json["active"], answer.json["last"]) == (None, problem["operation"])
    assert (problem["operation"]["state"], shared.published()[:2]) == ("cancelled", before)
    event = shared.tcp.get("/api/events?kind=checkpoint.cancelled&limit=1000")["events"][-1]
    assert (event["actor"], event["data"]["code"]) == ("ben", "cancelled_by_request")
    assert shared.tcp.post("/api/checkpoint/activate", shared.activation(AGAIN)).json["state"] == "ready"


def test_without_a_running_replay_there_is_nothing_to_cancel(shared: Stage) -> None:
    shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    before = shared.tcp.get("/api/checkpoint/status")
    assert_problem(shared.tcp.post("/api/checkpoint/cancel"), 409, "nothing_running")
    assert (shared.tcp.get("/api/checkpoint/status"), shared.published()[2]) == (before, "on")


@pytest.mark.full
def test_a_stop_of_the_service_ends_the_running_replay(own: Stage) -> None:
    running, _before = start_slow(own)
    own.service.stop()
    assert_problem(running.answer(), 409, "stopping")


def test_a_fork_replay_is_proved_and_says_how_it_was_made(shared: Stage) -> None:
    shared.tcp.post("/api/editor/reset")
    observed = [
        shared.tcp.post("/api/checkpoint/activate", shared.activation(key)).json["observed"]
        for key in (QUICK, AGAIN, QUICK)
    ]
    assert [each.pop("method") for each in observed] == ["rerun", "rerun", "fork"]
    assert observed[0] == observed[2]


def test_a_checkpoint_with_wrong_values_is_replaced_by_a_new_run(
    shared: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observed(*args: Any) -> dict[str, Any]:
        seen.append(noted(*args))
        return seen[-1]

    seen: list[dict[str, Any]] = []
    noted = session_tools.observed
    monkeypatch.setattr(session_tools, "observed", observed)
    session = shared.sessions.session()
    shared.tcp.post("/api/editor/reset")
    for key in (QUICK, AGAIN):
        shared.tcp.post("/api/checkpoint/activate", shared.activation(key))
    # Checkpoint 1, taken at the start of main, is the current process and is at the second stop. Checkpoint 2 is at the
    # first stop.
    for command in ("restart 2", "set var n = 9", "restart 1", 'printf "%d-%d\\n", 12, 34'):
        session.gdb(command)
    until(lambda: "12-34" in session.screen())
    runs = shared.tcp.get("/api/health")["slow_fallbacks"]["second_run"]
    answer = shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    assert (answer.status, answer.json["state"]) == (200, "ready"), answer.body
    assert shared.tcp.get("/api/health")["slow_fallbacks"]["second_run"] == runs + 1
    observed_n = [(each["method"], {check["name"]: check["actual"] for check in each["checks"]}["n"]) for each in seen]
    assert observed_n == [("rerun", "1"), ("rerun", "2"), ("fork", "9"), ("rerun", "1")]
    assert answer.json["observed"] == seen[3]


@pytest.mark.full
def test_health_counts_the_stops_that_got_no_checkpoint(state_dir: Path, runtime: str) -> None:
    """The program has an open file, which a fork would share, so no checkpoint is taken."""
    card = make_card(state_dir / "card")
    source = card / "src" / "main.c"
    source.write_text(source.read_text().replace("    n = 1;", '    n = fopen("/proc/self/stat", "r") != NULL;'))
    stage = Stage(state_dir / "state", card, runtime)
    try:
        stage.sessions.start(stage.card)
        for key in (QUICK, AGAIN, QUICK):
            answer = stage.tcp.post("/api/checkpoint/activate", stage.activation(key))
            assert answer.json["observed"]["method"] == "rerun"
        fallbacks = stage.tcp.get("/api/health")["slow_fallbacks"]
        assert fallbacks | {"late_pc_sign": 0} == {
            "late_pc_sign": 0, "no_checkpoint": 2, "failed_restart": 0, "second_run": 0
        }  # fmt: skip
    finally:
        stage.close()


def test_a_drift_is_reported_only_after_a_new_run(shared: Stage) -> None:
    for _ in range(2):
        answer = shared.tcp.post("/api/checkpoint/activate", shared.activation(DRIFTED))
        problem = assert_problem(answer, 409, "snapshot_drift")
        assert problem["operation"]["observed"]["method"] == "rerun"


def test_a_falsified_value_ends_in_drift(shared: Stage) -> None:
    shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    before = shared.published()
    problem = assert_problem(
        shared.tcp.post("/api/checkpoint/activate", shared.activation(DRIFTED)), 409, "snapshot_drift"
    )
    assert problem["operation"]["state"] == "failed"
    wrong = [check for check in problem["operation"]["observed"]["checks"] if not check["match"]]
    assert wrong == [{"name": "n", "expected": "7", "actual": "1", "match": False}]
    assert shared.published()[:2] == before[:2]


def test_an_exit_before_the_stop_is_a_typed_failure(shared: Stage) -> None:
    problem = assert_problem(
        shared.tcp.post("/api/checkpoint/activate", shared.activation(BEYOND)), 502, "target_exited"
    )
    assert "3" in problem["detail"]
    program = {"exit_code": 3, "signal": None, "reached": 0, "hits": 1, "place": None, "printed": []}
    assert problem["operation"]["failure"] == {"build": None, "program": program, "source": None}
    assert shared.tcp.get("/api/checkpoint/status")["last"] == problem["operation"]
    assert shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK)).json["state"] == "ready"


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


def test_a_failed_build_has_the_compilers_messages_apart(shared: Stage) -> None:
    shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    with edited(shared, "    n = 1;", "    n = missing;"):
        answer = shared.tcp.post("/api/checkpoint/activate", shared.activation(AGAIN))
    problem = assert_problem(answer, 502, "build_failed")
    last = shared.tcp.get("/api/checkpoint/status")["last"]
    assert problem["operation"] == last
    assert "undeclared" in last["reason"]
    assert "\n" not in last["reason"]
    build = last["failure"]["build"]
    assert build["command"] == "gcc -g -O0 -o probe main.c"
    first = build["messages"][0]
    line = make_lines(shared).index("    n = 1;") + 1
    assert (first["file"], first["line"], first["column"], first["kind"]) == ("main.c", line, 9, "error")
    assert any("undeclared" in printed for printed in build["output"])
    assert shared.tcp.get("/api/control/state")["sync"] == "on", "the program was left where it was"


def make_lines(stage: Stage) -> list[str]:
    return (stage.card / "src" / "main.c").read_text().splitlines()


def test_a_stop_whose_line_was_edited_says_what_the_line_holds(shared: Stage) -> None:
    with edited(shared, "/* quick */", "/* slower */"):
        answer = shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK))
    problem = assert_problem(answer, 409, "source_drift")
    source = problem["operation"]["failure"]["source"]
    assert (source["file"], source["expected"], source["found"]) == (
        "main.c",
        "/* quick */",
        "    n = n + 1; /* slower */",
    )
    assert make_lines(shared)[source["line"] - 1] == "    n = n + 1; /* quick */"


@pytest.mark.parametrize("missing", ["snapshot_ref", "generation", "expected_binding", "expected_identity"])
def test_an_activation_needs_every_field(shared: Stage, missing: str) -> None:
    body = shared.activation(QUICK)
    del body[missing]
    assert_problem(shared.tcp.post("/api/checkpoint/activate", body), 422, "invalid_value")


def test_an_unknown_snapshot_is_named(shared: Stage) -> None:
    body = {**shared.activation(QUICK), "snapshot_ref": "t1/b1/p1/quick"}
    assert_problem(shared.tcp.post("/api/checkpoint/activate", body), 422, "invalid_value")


# -- what changes during the replay --------------------------------------------------------------------------------


def start_slow(stage: Stage) -> tuple[Background, tuple[Any, ...]]:
    """A quick snapshot is published, and a slow replay is running."""
    assert stage.tcp.post("/api/checkpoint/activate", stage.activation(QUICK)).status == 200
    before = stage.published()
    running = Background(lambda: stage.tcp.post("/api/checkpoint/activate", stage.activation(SLOW)))
    stage.running(SLOW)
    return running, before


def assert_rejected(stage: Stage, running: Background, before: tuple[Any, ...], *codes: str) -> None:
    answer = running.answer()
    assert answer.status == 409, answer.body
    assert answer.json["code"] in codes
    assert answer.json["operation"]["state"] == "rejected"
    assert stage.published()[:2] == before[:2]
    assert kinds(stage).count("checkpoint.ready") == 1
    assert "checkpoint.rejected" in kinds(stage)


def test_an_edit_of_the_source_during_the_replay_rejects_it(own: Stage) -> None:
    running, before = start_slow(own)
    source = own.card / "card_source.json"
    source.write_text(source.read_text() + "\n")
    own.release()
    assert_rejected(own, running, before, "source_changed")
    until(lambda: own.tcp.get("/api/control/state")["sync"] == "off")
    assert own.tcp.get("/api/control/state")["reason"] == "source_changed"


@pytest.mark.full
@pytest.mark.parametrize("keep_time", [False, True])
def test_an_edit_that_is_undone_during_the_replay_rejects_it(own: Stage, keep_time: bool) -> None:
    running, before = start_slow(own)
    source = own.card / "card_source.json"
    original, status = source.read_bytes(), source.stat()
    source.write_bytes(original + b"\n")
    source.write_bytes(original)
    if keep_time:
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    own.release()
    assert_rejected(own, running, before, "source_changed")


@pytest.mark.full
def test_a_restart_of_the_session_during_the_replay_rejects_it(own: Stage) -> None:
    running, before = start_slow(own)
    own.sessions.stop()
    own.sessions.start(own.card)
    assert_rejected(own, running, before, "container_changed", "mcp_socket_changed")
    assert own.tcp.post("/api/navigation/sync", {}).status == 409  # the saved position is the whole card
    own.tcp.put("/api/navigation/current", position("quick"))
    assert own.tcp.post("/api/navigation/sync", {}).status == 200


@pytest.mark.full
def test_the_choice_of_another_session_during_the_replay_rejects_it(own: Stage) -> None:
    own.sessions.start(own.card, "other")
    try:
        running, before = start_slow(own)
        assert own.sessions.run("select", "other").returncode == 0
        own.release()
        assert_rejected(own, running, before, "container_changed")
    finally:
        own.sessions.stop("other")


class Relay:
    """A listener that passes bytes on to another Unix socket."""

    def __init__(self, path: Path, to: Path) -> None:
        self._to = to
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                far.connect(str(self._to))
                self._open += [near, far]
                threading.Thread(target=self._pass, args=(near, far), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.mark.full
def test_a_socket_rebound_at_its_path_during_the_replay_rejects_it(own: Stage) -> None:
    path = own.sessions.socket
    aside = path.with_name("aside.sock")
    running, before = start_slow(own)
    path.rename(aside)
    relay = Relay(path, aside)
    own.release()
    try:
        assert_rejected(own, running, before, "mcp_socket_changed")
    finally:
        relay.close()
        path.unlink()
        aside.rename(path)


@pytest.mark.full
def test_a_kill_of_the_session_server_during_the_replay_rejects_it(own: Stage) -> None:
    running, before = start_slow(own)
    os.kill(own.sessions.session().host_pid(), signal.SIGKILL)
    assert_rejected(own, running, before, "mcp_socket_changed", "container_changed")
    assert own.sessions.run("reset").returncode == 0
    own.tcp.put("/api/navigation/current", position("quick"))
    assert own.tcp.post("/api/navigation/sync", {}).status == 200


@pytest.mark.full
@pytest.mark.parametrize("broken", ["{", None])
def test_a_source_that_is_no_card_switches_sync_off_and_refuses(own: Stage, broken: str | None) -> None:
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).status == 200
    own.tcp.put("/api/navigation/current", position("quick"))
    source = own.card / "card_source.json"
    if broken is None:
        source.unlink()
    else:
        source.write_text(broken)
    until(lambda: own.tcp.get("/api/control/state")["sync"] == "off")
    assert own.tcp.get("/api/control/state")["reason"] == "source_changed"
    problem = assert_problem(own.tcp.post("/api/navigation/sync"), 409, "source_changed")
    assert "card_source.json" in problem["detail"]
    assert kinds(own)[-1] == "checkpoint.rejected"


@pytest.mark.full
def test_a_session_on_another_card_is_refused_with_the_remedy(own: Stage, state_dir: Path) -> None:
    other = make_card(state_dir / "other", uuid="bbbbbbbb-0000-4000-8000-000000000002")
    own.sessions.start(other, "other")
    try:
        own.sessions.run("select", "other")
        problem = assert_problem(
            own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)), 409, "identity_mismatch"
        )
        assert "bin/card-session select" in problem["detail"]
    finally:
        own.sessions.stop("other")


def test_a_generation_may_not_skip_many(shared: Stage) -> None:
    seen = shared.tcp.get("/api/checkpoint/status")["generation"]
    for generation in (seen + 1_000_001, 2**52, 10**299):
        problem = assert_problem(
            shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK, generation)), 422, "invalid_value"
        )
        assert [each["pointer"] for each in problem["errors"]] == ["/generation"]
        assert f"use {seen + 1}" in problem["detail"]
        assert assert_last(shared, problem)["generation"] == generation
    assert shared.tcp.get("/api/checkpoint/status")["generation"] == seen
    greatest = seen + 1_000_000
    assert shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK, greatest)).status == 200
    shared.tcp.put("/api/navigation/current", position("quick"))
    assert shared.tcp.post("/api/navigation/sync").json["generation"] == greatest + 1


@pytest.mark.full
def test_a_very_great_generation_that_was_stored_leaves_later_ones(own: Stage) -> None:
    with own.service.services.database.write() as tx:
        checkpoint_results.save_generation(tx, 2**52)
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).json["generation"] == 2**52 + 1


# -- endings of the target -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "status", "code"),
    [
        ("crash", 502, "target_crashed"),
        pytest.param("loop", 504, "replay_timeout", marks=pytest.mark.full),
        pytest.param("flood", 504, "replay_timeout", marks=pytest.mark.full),
    ],
)
def test_a_target_that_ends_badly_leaves_a_usable_session(
    state_dir: Path, runtime: str, ending: str, status: int, code: str
) -> None:
    card, limit = make_card(state_dir / "card", ending=ending, slow=10), "10" if ending == "crash" else "2"
    stage = Stage(state_dir / "state", card, runtime, CARD_REPLAY_TIMEOUT=limit)
    try:
        stage.sessions.start(stage.card)
        problem = assert_problem(stage.tcp.post("/api/checkpoint/activate", stage.activation(BEYOND)), status, code)
        program = problem["operation"]["failure"]["program"]
        assert program["place"]["function"] in ("end", "rest", "nanosleep")
        assert program["signal"] == ("SIGSEGV" if ending == "crash" else None)
        until(lambda: stage.tcp.get("/api/editor/state")["available"])
        answer = stage.tcp.post("/api/checkpoint/activate", stage.activation(QUICK))
        assert answer.status == 200, answer.body
    finally:
        stage.close()


# -- SYNC goes off -------------------------------------------------------------------------------------------------


@pytest.mark.full  # the quick form is in test_sync_off
def test_sync_is_off_after_the_target_has_run_on(own: Stage) -> None:
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).status == 200
    own.tcp.post("/api/editor/input", {"text": ":call TermDebugSendCommand('next')<CR>"})
    control = until(lambda: (current := own.tcp.get("/api/control/state"))["sync"] == "off" and current)
    assert (control["reason"], control["key"]) == ("target_ran_on", QUICK)
    assert kinds(own)[-1] == "sync.off"


@pytest.mark.full
def test_a_program_that_ran_on_and_ended_says_that_it_ended(shared: Stage) -> None:
    assert shared.tcp.post("/api/checkpoint/activate", shared.activation(QUICK)).status == 200
    last = shared.tcp.get("/api/checkpoint/status")["last"]
    seen = len(kinds(shared))
    shared.sessions.session().gdb("continue")
    until(lambda: shared.tcp.get("/api/control/state")["reason"] == "program_exited")
    assert shared.tcp.get("/api/checkpoint/status")["last"] == last
    events = shared.tcp.get("/api/events?limit=1000")["events"][seen:]
    reasons = [event["data"]["reason"] for event in events if event["kind"] == "sync.off"]
    assert reasons in (["target_ran_on", "program_exited"], ["program_exited"])


@pytest.mark.full  # the quick form is in test_sync_off
def test_sync_is_off_after_the_target_was_reset(own: Stage) -> None:
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).status == 200
    assert own.tcp.post("/api/editor/reset").status == 200
    assert own.tcp.get("/api/control/state")["sync"] == "off"
    assert {"editor.reset", "sync.off"} <= set(kinds(own))


@pytest.mark.full
def test_sync_is_off_after_the_session_has_ended_and_on_after_a_move(own: Stage) -> None:
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).status == 200
    own.tcp.put("/api/navigation/current", position("quick"))
    assert own.tcp.get("/api/control/state")["at_position"] is True
    own.tcp.post("/api/navigation/move", {"level": "step", "delta": 1})
    control = own.tcp.get("/api/control/state")
    assert (control["sync"], control["at_position"]) == ("on", False)
    own.sessions.stop()
    until(lambda: own.tcp.get("/api/control/state")["sync"] == "off")
    assert own.tcp.post("/api/navigation/sync").status == 503


def test_without_a_session_the_refusal_names_the_remedy(state_dir: Path) -> None:
    stage = Stage(state_dir / "state", make_card(state_dir / "card"))
    try:
        stage.tcp.put("/api/navigation/current", position("quick"))
        problem = assert_problem(stage.tcp.post("/api/navigation/sync"), 503, "no_session")
        assert "bin/card-session start" in problem["detail"]
        (stage.state / "mcp-choice.json").write_text(json.dumps({"name": "gone", "socket": "/nonexistent"}))
        assert_problem(stage.tcp.request("GET", "/api/session"), 503, "no_session")
    finally:
        stage.close()
