"""Sessions in containers: a proof of sync, faults of the container during a replay, commands, and who may use the API.

A container reaches the API's socket by design, and the API types into the editor of the chosen session. If that session
runs on this machine, its editor can run any command here. So the API answers processes in a container only if the
container belongs to the chosen session.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.session_host.podman import Podman
from cardapp.session_host.process import DIRECTORY_VARIABLE, pids_with
from tests.functional.runtimes import LOCAL, PODMAN, container_state, containers_of, podman, remove_containers
from tests.functional.serving import Background, Response, Stage, make_card, position, until
from tests.functional.session_process import RunningSession, SessionTool, TestCard, at, eventually

pytestmark = pytest.mark.functional

QUICK = "t1/b1/p1/quick/first"
SLOW = "t1/b1/p1/slow/only"
PATIENCE = "10"  # seconds until the service gives up a replay in a paused container


@pytest.fixture(scope="module")
def runtime(session_image: None) -> str:
    return PODMAN


def container_of(session: RunningSession) -> str:
    found: str = session.record()["container_id"]
    return found


def listed(tool: SessionTool, name: str = "s") -> str:
    """The row of the session in ``card-session list``."""
    return next(line for line in tool.must("list").splitlines() if f" {name} " in line)


# -- faults of the container -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(runtime: str) -> Iterator[Stage]:
    """The service and a session that a test may break if it resets it; the step slow takes 3 s."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        card = make_card(Path(folder) / "card", slow=300)
        stage = Stage(Path(folder) / "state", card, runtime, CARD_REPLAY_TIMEOUT=PATIENCE)
        try:
            stage.sessions.start(stage.card)
            yield stage
        finally:
            stage.close()
            remove_containers(stage.state)


def replay_during(own: Stage, fault: Callable[[], None]) -> Response:
    """Cause ``fault`` during a slow replay. Returns the answer to the replay."""
    assert own.tcp.post("/api/checkpoint/activate", own.activation(QUICK)).status == 200
    activation = own.activation(SLOW)
    running = Background(lambda: own.tcp.post("/api/checkpoint/activate", activation))
    own.running(SLOW)
    fault()
    return running.answer(60)


def assert_rejected(own: Stage, answer: Response) -> None:
    """Nothing was published, and SYNC goes off."""
    assert (answer.status, answer.json["code"]) == (409, "container_changed"), answer.body
    assert answer.json["operation"]["state"] == "rejected"
    assert own.published()[0] == QUICK
    until(lambda: own.tcp.get("/api/control/state")["sync"] == "off", 30)


def assert_usable(own: Stage) -> None:
    own.tcp.put("/api/navigation/current", position("quick"))
    answer = own.tcp.post("/api/navigation/sync")
    assert (answer.status, answer.json["state"]) == (200, "ready"), answer.body
    assert own.tcp.get("/api/control/state")["sync"] == "on"
    assert containers_of(own.state / "sessions" / "s") == [container_of(own.sessions.session())]


@pytest.mark.parametrize(
    ("words", "condition"),
    [(("pause",), "paused"), (("restart", "--time=1"), "no answer"), (("rm", "--force", "--time=1"), "removed")],
)
def test_a_replay_is_rejected_and_a_reset_is_the_way_back(own: Stage, words: tuple[str, ...], condition: str) -> None:
    session, tool = own.sessions.session(), own.sessions
    container = container_of(session)
    (copy,) = session.work.glob("*/main.c")
    copy.write_text(copy.read_text().replace("/* after the end */", "/* after the end */ // mine", 1))
    answer = replay_during(own, lambda: podman(*words, container) and None)
    assert_rejected(own, answer)
    reason = "was paused" if words[0] == "pause" else "was stopped, restarted or removed"
    assert reason in answer.json["detail"]
    assert "bin/card-session reset s" in answer.json["detail"]
    assert condition in listed(tool)
    own.tcp.put("/api/navigation/current", position("quick"))
    refused = own.tcp.post("/api/navigation/sync")
    assert (refused.status, "bin/card-session reset s" in refused.json["detail"]) == (503, True), refused.body
    for command in ("select", "attach"):
        done = tool.run(command, "s")
        assert (done.returncode, done.stdout, "card-session reset" in done.stderr) == (1, "", True), command
    tool.must("reset")
    assert (container_of(session) == container) == (words[0] != "rm")
    assert "// mine" in copy.read_text()  # an edit survives the container
    assert_usable(own)


def test_a_replay_continues_after_a_short_pause_and_ends_with_the_session(own: Stage) -> None:
    container = container_of(own.sessions.session())

    def pause_for_a_moment() -> None:
        podman("pause", container)
        podman("unpause", container)

    answer = replay_during(own, pause_for_a_moment)
    assert (answer.status, answer.json["state"]) == (200, "ready"), answer.body

    def exchange() -> None:  # the new container belongs to another session with the same name and paths
        own.sessions.stop()
        own.sessions.start(own.card)

    own.sessions.must("reset")  # otherwise the replay would begin at a checkpoint behind the slow part
    assert_rejected(own, replay_during(own, exchange))
    assert container_state(container) is None
    assert container_of(own.sessions.session()) != container
    assert_usable(own)


# -- the commands ----------------------------------------------------------------------------------------------------


def assert_nothing_left(path: Path) -> None:
    assert containers_of(path) == []
    assert list(pids_with(str(path), DIRECTORY_VARIABLE)) == []
    assert not list(path.rglob("*.sock"))


def test_a_session_is_bound_to_its_container_until_a_stop_leaves_nothing(session: RunningSession) -> None:
    binding, state = session.ask("session_binding"), container_state(container_of(session))
    assert state is not None
    assert (binding["profile"], binding["runtime"]) == (PODMAN, PODMAN)
    # The MCP server may end and start again while the container, with Neovim and gdb, goes on.
    assert binding["instance"] == f"{state['StartedAt']}:{state['Pid']}"
    assert binding["source_directory"] == str(session.path / "work-podman" / "probe")
    os.kill(session.host_pid(), signal.SIGKILL)
    eventually(lambda: "no answer" in listed(session.tool))
    session.close()
    assert "MCP server" in session.tool.must("reset", "s")
    assert session.ask("session_binding")["instance"] == binding["instance"]
    session.replay(at("/* marked */"))
    assert "marked" in session.screen()
    session.close()
    podman("kill", container_of(session))
    assert "runs already" not in session.tool.must("start", "--name", "s", str(session.card.folder))
    assert container_of(session) != binding["container_id"]
    session.check_usable()
    session.close()
    podman("rm", "--force", "--time=1", container_of(session))
    session.tool.must("stop", "s")
    assert_nothing_left(session.path)


@pytest.mark.parametrize("point", ["container", "run/mcp.sock"])
def test_a_start_repairs_what_a_killed_one_left(tool: SessionTool, card: TestCard, point: str) -> None:
    path, start = tool.state / "sessions" / "s", tool.command("start", "--name", "s", str(card.folder))
    for repair in ("start", "stop"):
        with subprocess.Popen(start, env=tool.environment, stdout=subprocess.DEVNULL) as process:
            eventually(lambda: containers_of(path) if point == "container" else (path / point).exists(), 60)
            process.kill()
        if repair == "start":
            session = RunningSession(tool, card)
            session.check_usable()
            assert containers_of(path) == [container_of(session)]
            session.close()
        tool.must("stop", "s")
        assert_nothing_left(path)


# -- who may use the API ---------------------------------------------------------------------------------------------

CLIENT = """
import http.client, os, socket, sys
method, path, body = sys.argv[1:4]
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["CARD_API_SOCKET"])
connection = Connection("localhost", timeout=30)
connection.putrequest(method, path)
for line in sys.argv[4:]:
    connection.putheader(*line.split(": "))
connection.putheader("Content-Type", "application/json")
connection.putheader("Content-Length", str(len(body)))
connection.endheaders()
print("sent", flush=True)
sys.stdin.readline()
connection.send(body.encode())
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""
UPGRADE = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol: card-editor-ui.v1",
)  # fmt: skip
TYPING = ("POST", "/api/editor/input", {"text": "<Esc>:let g:typed = 1<CR>"})


def typed(session: RunningSession) -> bool:
    """Whether the keys of :data:`TYPING` arrived in the session's Neovim."""
    return session.editor("get(g:, 'typed', 0)") == "1"


def client(session: RunningSession, method: str, path: str, body: Any = None, *headers: str) -> subprocess.Popen[str]:
    """A client in the session's container that has sent the head of its request. It sends the body when it reads a line
    on standard input."""
    words = ["python3", "-c", CLIENT, method, path, "" if body is None else json.dumps(body), *headers]
    command = Podman().command("exec", "--interactive", container_of(session), *words)
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "sent\n"
    return started


def answer_of(client: subprocess.Popen[str]) -> tuple[int, Any]:
    said, _ = client.communicate("\n", timeout=60)
    status, _, body = said.partition(" ")
    return int(status), json.loads(body) if body.strip() else None


def test_only_the_container_of_the_chosen_session_may_use_the_api(own: Stage) -> None:
    tool, inside = own.sessions, own.sessions.session()
    tool.must("start", "--name", "outside", "--profile", LOCAL, str(own.card))
    outside = RunningSession.of(tool, "outside")

    tool.must("select", "s")
    assert answer_of(client(inside, *TYPING))[0] == 200
    eventually(lambda: typed(inside))
    before = own.unix.get("/api/navigation/current")["position"]
    inside.editor("execute('CardMove step 1')")
    eventually(lambda: own.unix.get("/api/navigation/current")["position"] != before)

    begun = client(inside, *TYPING)
    tool.must("select", "outside")
    assert answer_of(begun)[0] == 403  # it had begun before the choice
    for request in (
        TYPING, ("GET", "/api/state"), ("POST", "/api/navigation/sync", {}), ("GET", "/api/editor-ui", None, *UPGRADE),
    ):  # fmt: skip
        status, problem = answer_of(client(inside, *request))
        assert (status, problem["code"]) == (403, "foreign_session"), request
        assert "bin/card-session select" in problem["detail"]
    assert own.unix.request("GET", "/api/state").status == 200  # a client on this machine

    tool.must("select", "s")
    for name in ("nvim.sock", "mcp.sock"):
        link = inside.path / "run" / name
        link.unlink()
        link.symlink_to(outside.path / "run" / name)  # as a program in the container can do
        assert answer_of(client(inside, *TYPING))[0] in (403, 503), name
        assert own.unix.request(*TYPING).status == 503, name
        link.unlink()
        tool.must("stop", "s")
        tool.must("start", "--name", "s", "--select", str(own.card))
    assert not typed(outside)
    tool.must("stop", "outside")
