"""The API answers processes in a container only if the container belongs to the chosen session.

A container reaches the API's socket by design, and the API types into the editor of the chosen session. If that session
runs on this machine, its editor can run any command here.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.session_host.podman import Podman
from tests.functional.runtimes import image_or_skip
from tests.functional.serving import Stage, make_card
from tests.functional.session_process import RunningSession, SessionTool, eventually

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.podman]

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
MARK = "let g:typed = 1"


class Sessions:
    """The service, a session in a container and one on this machine."""

    def __init__(self, stage: Stage) -> None:
        self.tool = SessionTool(stage.state)
        self.api = stage.unix
        self.card = stage.card
        self.inside, self.outside = self.start("inside", "podman"), self.start("outside", "local")

    def start(self, name: str, profile: str) -> RunningSession:
        self.tool.must("start", "--name", name, "--profile", profile, str(self.card))
        return RunningSession.of(self.tool, name)

    def choose(self, session: RunningSession) -> None:
        self.tool.must("select", session.name)

    def client(self, method: str, path: str, body: Any = None, *headers: str) -> subprocess.Popen[str]:
        """A client in the container that has sent the head of its request. It sends the body when it reads a line on
        standard input."""
        record = json.loads((self.inside.path / "session.json").read_text())
        content = json.dumps(body) if body is not None else ""
        words = ["python3", "-c", CLIENT, method, path, content, *headers]
        command = Podman().command("exec", "--interactive", record["container_id"], *words)
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert client.stdout is not None
        assert client.stdout.readline() == "sent\n"
        return client

    def ask(self, method: str, path: str, body: Any = None, *headers: str) -> tuple[int, Any]:
        """Status and JSON of the response that a client in the container gets."""
        return answer_of(self.client(method, path, body, *headers))


def answer_of(client: subprocess.Popen[str]) -> tuple[int, Any]:
    said, _ = client.communicate("\n", timeout=60)
    status, _, body = said.partition(" ")
    return int(status), json.loads(body) if body.strip() else None


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    image_or_skip()
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        stage = Stage(Path(folder) / "state", make_card(Path(folder) / "card"))
        try:
            found = Sessions(stage)
            yield found
            found.tool.stop_all()
        finally:
            stage.close()


def typed(session: RunningSession) -> bool:
    """Whether the keys of :data:`TYPING` arrived in the session's Neovim."""
    return session.editor("get(g:, 'typed', 0)") == "1"


TYPING = ("POST", "/api/editor/input", {"text": f"<Esc>:{MARK}<CR>"})


def test_the_chosen_container_types_into_its_own_editor(sessions: Sessions) -> None:
    sessions.choose(sessions.inside)
    assert sessions.ask(*TYPING)[0] == 200
    eventually(lambda: typed(sessions.inside))
    assert sessions.ask("GET", "/api/navigation/current")[0] == 200


def test_the_editor_in_the_chosen_container_moves_through_the_card(sessions: Sessions) -> None:
    sessions.choose(sessions.inside)
    before = sessions.api.get("/api/navigation/current")["position"]
    sessions.inside.editor("execute('CardMove step 1')")
    eventually(lambda: sessions.api.get("/api/navigation/current")["position"] != before)


@pytest.mark.parametrize(
    "request_",
    [TYPING, ("GET", "/api/state"), ("POST", "/api/navigation/sync", {}), ("GET", "/api/editor-ui", None, *UPGRADE)],
    ids=["keys", "state", "sync", "websocket"],
)
def test_a_container_that_is_not_chosen_is_refused(sessions: Sessions, request_: tuple[Any, ...]) -> None:
    sessions.choose(sessions.outside)
    status, problem = sessions.ask(*request_)
    assert (status, problem["code"]) == (403, "foreign_session")
    assert "bin/card-session select" in problem["detail"]
    assert not typed(sessions.outside)
    assert sessions.api.request("GET", "/api/state").status == 200  # a client on this machine


def test_a_request_that_began_before_the_choice_is_refused(sessions: Sessions) -> None:
    sessions.choose(sessions.inside)
    client = sessions.client(*TYPING)
    sessions.choose(sessions.outside)
    assert answer_of(client)[0] == 403
    assert not typed(sessions.outside)


@pytest.mark.parametrize("name", ["nvim.sock", "mcp.sock"])
def test_a_link_to_another_session_s_socket_is_not_followed(sessions: Sessions, name: str) -> None:
    sessions.choose(sessions.inside)
    link, target = sessions.inside.path / "run" / name, sessions.outside.path / "run" / name
    link.unlink()
    link.symlink_to(target)  # as a program in the container can do
    assert sessions.ask(*TYPING)[0] in (403, 503)
    assert sessions.api.request(TYPING[0], TYPING[1], TYPING[2]).status == 503
    assert not typed(sessions.outside)
    link.unlink()
    sessions.tool.must("stop", "inside")
    sessions.start("inside", "podman")
