"""A session's container is stopped, paused or removed from outside, also during a replay, and is restored."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.session_host.process import DIRECTORY_VARIABLE, pids_with
from tests.functional.runtimes import PODMAN, container_state, containers_of, podman, remove_containers
from tests.functional.serving import Background, Response, Stage, make_card, position, until
from tests.functional.session_process import RunningSession, SessionTool, at, line_of

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.podman]

QUICK = "t1/b1/p1/quick/first"
SLOW = "t1/b1/p1/slow/only"
PATIENCE = "10"  # seconds until the service gives up a replay in a paused container


@pytest.fixture(scope="module")
def runtime(podman_image: None) -> str:
    return PODMAN


@pytest.fixture
def own(state_dir: Path, runtime: str) -> Iterator[Stage]:
    """The service and a session that the test may break; the step slow takes 3 s."""
    card = make_card(state_dir / "card", slow=300)
    stage = Stage(state_dir / "state", card, runtime, CARD_REPLAY_TIMEOUT=PATIENCE)
    try:
        stage.sessions.start(stage.card)
        yield stage
    finally:
        stage.close()
        remove_containers(stage.state)


def container_of(session: RunningSession) -> str:
    found: str = session.record()["container_id"]
    return found


def kill(session: RunningSession) -> None:
    podman("kill", container_of(session))


def pause(session: RunningSession) -> None:
    podman("pause", container_of(session))


def restart(session: RunningSession) -> None:
    podman("restart", "--time=1", container_of(session))


def remove(session: RunningSession) -> None:
    podman("rm", "--force", "--time=1", container_of(session))


Fault = Callable[[RunningSession], None]
# Each fault of the container, and the state that card-session list then shows.
each_fault = pytest.mark.parametrize(
    ("fault", "condition"), [(kill, "exited"), (pause, "paused"), (restart, "no answer"), (remove, "removed")]
)


def listed(tool: SessionTool) -> str:
    """The row of the session ``s`` in ``card-session list``."""
    return next(line for line in tool.must("list").splitlines() if " s " in line)


# -- in the middle of a replay ---------------------------------------------------------------------------------------


def replay_during(own: Stage, fault: Callable[[], None]) -> tuple[Response, tuple[Any, ...]]:
    """Cause ``fault`` during a slow replay. Returns the answer to the replay, and the earlier publication."""
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).status == 200
    before = own.published()
    activation = own.activation(SLOW)
    running = Background(lambda: own.tcp.post("/api/checkpoint/activate", activation))
    own.running(SLOW)
    fault()
    return running.answer(), before


def assert_rejected(own: Stage, answer: Response, before: tuple[Any, ...]) -> str:
    """Check that nothing was published and SYNC goes off. Returns the reason of the rejection."""
    assert (answer.status, answer.json["code"]) == (409, "container_changed"), answer.body
    assert answer.json["operation"]["state"] == "rejected"
    assert own.published()[:2] == before[:2]
    events = [event["kind"] for event in own.tcp.get("/api/events?limit=1000")["events"]]
    assert (events.count("checkpoint.ready"), events.count("checkpoint.rejected")) == (1, 1)
    until(lambda: own.tcp.get("/api/control/state")["sync"] == "off")
    reason: str = answer.json["detail"]
    return reason


def assert_usable(own: Stage) -> None:
    own.tcp.put("/api/navigation/current", position("quick"))
    answer = own.tcp.post("/api/navigation/sync")
    assert (answer.status, answer.json["state"]) == (200, "ready"), answer.body
    assert own.tcp.get("/api/control/state")["sync"] == "on"
    assert containers_of(own.state / "sessions" / "s") == [container_of(own.sessions.session())]


@each_fault
def test_a_replay_is_rejected_and_a_reset_is_the_way_back(own: Stage, fault: Fault, condition: str) -> None:
    session = own.sessions.session()
    container = container_of(session)
    answer, before = replay_during(own, lambda: fault(session))
    reason = assert_rejected(own, answer, before)
    assert ("was paused" if fault is pause else "was stopped, restarted or removed") in reason
    assert "bin/card-session reset s" in reason
    assert condition in listed(own.sessions)
    own.tcp.put("/api/navigation/current", position("quick"))
    refused = own.tcp.post("/api/navigation/sync")
    assert refused.status == 503, refused.body
    assert "bin/card-session reset s" in refused.json["detail"]
    own.sessions.must("reset")
    assert (container_of(session) == container) == (fault is not remove)
    assert_usable(own)


def test_a_replay_is_rejected_when_the_container_is_exchanged(own: Stage) -> None:
    """The new container belongs to another session with the same name and the same paths."""

    def exchange() -> None:
        own.sessions.stop()
        own.sessions.start(own.card)

    container = container_of(own.sessions.session())
    answer, before = replay_during(own, exchange)
    assert_rejected(own, answer, before)
    assert container_state(container) is None
    assert container_of(own.sessions.session()) != container
    assert_usable(own)


def test_a_replay_continues_after_a_short_pause_of_the_container(own: Stage) -> None:
    def pause_for_a_moment() -> None:
        pause(own.sessions.session())
        podman("unpause", container_of(own.sessions.session()))

    answer, _ = replay_during(own, pause_for_a_moment)
    assert (answer.status, answer.json["state"]) == (200, "ready"), answer.body


def test_sync_goes_off_when_the_container_is_paused(own: Stage) -> None:
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).status == 200
    pause(own.sessions.session())
    control = until(lambda: (now := own.tcp.get("/api/control/state"))["sync"] == "off" and now)
    assert control["reason"] == "session_paused"


# -- the commands ----------------------------------------------------------------------------------------------------


@each_fault
def test_the_commands_say_how_to_restore_the_session(session: RunningSession, fault: Fault, condition: str) -> None:
    session.close()
    fault(session)
    assert condition in listed(session.tool)
    for command in ("select", "attach", "mcp") if fault is not pause else ("select", "attach"):
        done = session.tool.run(command, "s")
        assert (done.returncode, done.stdout) == (1, ""), command
        assert "card-session reset" in done.stderr
    assert "no terminal is attached" in session.tool.must("detach", "s")
    assert "current sources" in session.tool.must("refresh", "s")
    assert "running" in listed(session.tool)
    session.check_usable()
    assert containers_of(session.path) == [container_of(session)]


@each_fault
def test_a_start_makes_a_new_container_and_a_stop_removes_any(
    session: RunningSession, fault: Fault, condition: str
) -> None:
    session.close()
    old = container_of(session)
    fault(session)
    assert "runs already" not in session.tool.must("start", "--name", "s", str(session.card.folder))
    assert old != container_of(session)
    assert containers_of(session.path) == [container_of(session)]
    session.check_usable()
    session.close()
    fault(session)
    assert condition in listed(session.tool)
    session.tool.must("stop", "s")
    assert containers_of(session.path) == []
    assert list(pids_with(str(session.path), DIRECTORY_VARIABLE)) == []
    assert not list(session.path.rglob("*.sock"))


def test_old_socket_files_are_replaced_after_a_restart(session: RunningSession) -> None:
    """If the socket file exists, Neovim 0.7 listens at another path and reports no error."""
    session.replay(at("/* before */"))
    session.close()
    restart(session)
    sockets = sorted(session.path.rglob("*.sock"))
    assert {path.name for path in sockets} == {"mcp.sock", "nvim.sock", "gdb.sock", "tmux.sock"}
    for path in sockets:
        with socket.socket(socket.AF_UNIX) as probe, pytest.raises(ConnectionRefusedError):
            probe.connect(str(path))
    session.tool.must("reset", "s")
    assert session.editor("v:servername") == str(session.path / "run" / "nvim.sock")
    session.replay(at("/* marked */"))
    assert session.editor("line('.')") == str(line_of("/* marked */"))
    assert "marked" in session.screen()


def test_edits_survive_the_loss_of_the_container(session: RunningSession) -> None:
    copy = session.work / "probe" / "target.c"
    copy.write_text(copy.read_text().replace("return 2 * n;", "return 5 * n;"))
    session.close()
    remove(session)
    session.tool.must("reset", "s")
    assert session.replay(at("return 0;"), "count")["values"]["count"]["value"] == "72"
