"""What happens to a session's container from outside, also in the middle of a replay, and the way back from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.runtimes import PODMAN, container_state, containers_of, podman
from tests.functional.serving import Answer, Background, Stage, make_card, position, until

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.podman]

QUICK = "t1/b1/p1/quick/first"
SLOW = "t1/b1/p1/slow/only"
PATIENCE = "6"  # seconds until the service gives up a replay in a container that stands still


@pytest.fixture
def stage(state_dir: Path, podman_image: None) -> Iterator[Stage]:
    """A session in a container that the test may break; the step slow takes 4 s."""
    card = make_card(state_dir / "card", slow=400)
    stage = Stage(state_dir / "state", card, PODMAN, CARD_REPLAY_TIMEOUT=PATIENCE)
    try:
        stage.sessions.start(stage.card)
        yield stage
    finally:
        stage.close()
        for left in containers_of(stage.state / "sessions" / "s"):
            podman("rm", "--force", "--time=1", left)


def container_of(stage: Stage) -> str:
    found: str = stage.sessions.session().record()["container_id"]
    return found


def listed(stage: Stage) -> str:
    """The row of the session in ``card-session list``."""
    return next(line for line in stage.sessions.must("list").splitlines() if " s " in line)


def kill(stage: Stage) -> None:
    podman("kill", container_of(stage))


def pause(stage: Stage) -> None:
    podman("pause", container_of(stage))


def restart(stage: Stage) -> None:
    podman("restart", "--time=1", container_of(stage))


def remove(stage: Stage) -> None:
    podman("rm", "--force", "--time=1", container_of(stage))


def exchange(stage: Stage) -> None:
    """Another container of the same name, with another session on the same paths."""
    stage.sessions.stop()
    stage.sessions.start(stage.card)


Fault = Callable[[Stage], None]
FAULTS: list[tuple[Fault, str, str]] = [
    (kill, "exited", "stopped, restarted or removed"),
    (pause, "paused", "paused"),
    (restart, "no answer", "stopped, restarted or removed"),
    (remove, "removed", "stopped, restarted or removed"),
]
each_fault = pytest.mark.parametrize(("fault", "condition"), [(each[0], each[1]) for each in FAULTS])


def replay_during(stage: Stage, fault: Fault) -> tuple[Answer, tuple[Any, ...]]:
    """A published snapshot, then the answer to a slow replay during which ``fault`` happens."""
    assert stage.tcp.post("/api/checkpoint/activate", stage.activation(QUICK)).status == 200
    before = stage.published()
    activation = stage.activation(SLOW)
    running = Background(lambda: stage.tcp.post("/api/checkpoint/activate", activation))
    stage.running(SLOW)
    fault(stage)
    return running.answer(), before


def assert_rejected(stage: Stage, answer: Answer, before: tuple[Any, ...]) -> str:
    """The rejection's text; nothing was published."""
    assert (answer.status, answer.json["code"]) == (409, "container_changed"), answer.body
    assert answer.json["operation"]["state"] == "rejected"
    assert stage.published()[:2] == before[:2]
    events = [event["kind"] for event in stage.tcp.get("/api/events?limit=1000")["events"]]
    assert (events.count("checkpoint.ready"), "checkpoint.rejected" in events) == (1, True)
    until(lambda: stage.tcp.get("/api/control/state")["sync"] == "off")
    detail: str = answer.json["detail"]
    return detail


def assert_usable(stage: Stage) -> None:
    stage.tcp.put("/api/navigation/current", position("quick"))
    answer = stage.tcp.post("/api/navigation/sync")
    assert (answer.status, answer.json["state"]) == (200, "ready"), answer.body
    assert "running" in listed(stage)
    assert len(containers_of(stage.state / "sessions" / "s")) == 1


@pytest.mark.parametrize(("fault", "condition", "told"), FAULTS)
def test_a_replay_is_rejected_and_a_reset_is_the_way_back(
    stage: Stage, fault: Fault, condition: str, told: str
) -> None:
    container = container_of(stage)
    answer, before = replay_during(stage, fault)
    detail = assert_rejected(stage, answer, before)
    assert told in detail
    assert "bin/card-session reset" in detail
    assert condition in listed(stage)
    refused = stage.tcp.post("/api/checkpoint/activate", {**stage_activation(stage, container), "generation": 99})
    assert refused.status == 503, refused.body
    assert "bin/card-session reset" in refused.json["detail"]
    stage.sessions.must("reset")
    assert (container_of(stage) == container) == (fault is not remove)
    assert_usable(stage)


def stage_activation(stage: Stage, container: str) -> dict[str, Any]:
    """An activation while the session cannot be asked for its binding."""
    binding = {"container_id": container, "instance": "any", "profile": PODMAN, "target": "probe"}
    return {"snapshot_ref": QUICK, "expected_binding": binding, "expected_identity": stage.tcp.get("/api/identity")}


def test_a_replay_is_rejected_when_the_container_is_exchanged(stage: Stage) -> None:
    container = container_of(stage)
    answer, before = replay_during(stage, exchange)
    assert_rejected(stage, answer, before)
    assert container_of(stage) != container
    assert container_state(container) is None
    assert_usable(stage)
