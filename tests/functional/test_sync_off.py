"""SYNC goes off at once when the program leaves the published snapshot, whatever moved it.

The monitor's periodic check comes too late here, so only the session's notification can arrive in time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from cardapp.serve import Times
from tests.functional.serving import Background, Stage, make_card, position, running_stage, until

pytestmark = [pytest.mark.functional]

QUICK = "t1/b1/p1/quick/first"
SLOW = "t1/b1/p1/slow/only"
DRIFTED = "t1/b1/p1/drifted/only"
SECONDS = 8.0  # the notification takes milliseconds; a busy machine needs more


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The program sleeps before its slow step for longer than the tests take."""
    with running_stage(lambda folder: make_card(folder, slow=6000), options={"times": Times(sync_check=9.0)}) as stage:
        yield stage


@pytest.fixture
def synced(stage: Stage) -> Stage:
    """A running session with SYNC on."""
    if not stage.service.settings.mcp_choice.exists():
        stage.sessions.start(stage.card)
    stage.tcp.put("/api/navigation/current", position("quick"))
    sync(stage)
    return stage


def sync(stage: Stage) -> None:
    answer = stage.tcp.post("/api/navigation/sync")
    assert answer.status == 200, answer.body
    assert stage.tcp.get("/api/control/state")["sync"] == "on"


def off(stage: Stage) -> dict[str, Any]:
    """Wait until SYNC is off. Returns the event that records it."""
    until(lambda: stage.tcp.get("/api/control/state")["sync"] == "off", SECONDS)
    event: dict[str, Any] = stage.tcp.get("/api/events?kind=sync.off&limit=1000")["events"][-1]
    assert event["data"]["reason"] == stage.tcp.get("/api/control/state")["reason"]
    return event


def reset(stage: Stage) -> None:
    assert stage.sessions.run("reset").returncode == 0


def kill_the_program(stage: Stage) -> None:
    stage.sessions.session().gdb("python import os; os.kill(gdb.selected_inferior().pid, 9)")


def kill_the_server(stage: Stage) -> None:
    os.kill(stage.sessions.session().host_pid(), signal.SIGKILL)


def test_what_moves_the_program_is_noticed_at_once(synced: Stage) -> None:
    for move, reason in (
        (reset, "target_reset"),
        (lambda stage: stage.sessions.session().gdb("continue"), "target_ran_on"),
        (lambda stage: stage.sessions.session().gdb("set var n = 7"), "target_ran_on"),
        (kill_the_program, "program_exited"),
        (lambda stage: stage.sessions.session().gdb("quit"), "debugger_lost"),
    ):
        sync(synced)
        move(synced)
        event = off(synced)
        assert (event["data"]["reason"], event["actor"], event["key"]) == (reason, "backend", QUICK)


def test_a_reset_by_the_api_is_told_with_its_actor(synced: Stage) -> None:
    assert synced.tcp.post("/api/editor/reset", {"actor": "ada"}).status == 200
    assert synced.tcp.get("/api/control/state")["sync"] == "off"
    event = off(synced)
    assert (event["data"]["reason"], event["actor"]) == ("target_reset", "ada")


def test_a_cancelled_replay_has_left_the_published_snapshot(synced: Stage) -> None:
    activation = synced.activation(SLOW)
    before = len(synced.tcp.get("/api/events?kind=sync.off&limit=1000")["events"])
    running = Background(lambda: synced.tcp.post("/api/checkpoint/activate", activation))
    synced.running(SLOW)
    assert synced.tcp.get("/api/control/state")["sync"] == "on"
    synced.tcp.post("/api/checkpoint/cancel")
    assert off(synced)["data"]["reason"] == "sync_cancelled"
    assert running.answer().json["code"] == "cancelled_by_request"
    assert len(synced.tcp.get("/api/events?kind=sync.off&limit=1000")["events"]) == before + 1


def test_a_failed_replay_is_the_reason_not_where_it_left_the_program(synced: Stage) -> None:
    assert synced.tcp.post("/api/checkpoint/activate", synced.activation(DRIFTED)).json["code"] == "snapshot_drift"
    assert off(synced)["data"]["reason"] == "sync_failed"
    status = synced.tcp.get("/api/checkpoint/status")
    assert (status["last"]["state"], status["last"]["code"]) == ("failed", "snapshot_drift")


def test_the_end_of_the_session_and_of_its_server_is_noticed_at_once(synced: Stage) -> None:
    synced.sessions.stop()
    assert off(synced)["data"]["reason"] == "session_lost"
    synced.sessions.start(synced.card)
    sync(synced)
    kill_the_server(synced)
    assert off(synced)["data"]["reason"] == "session_lost"
