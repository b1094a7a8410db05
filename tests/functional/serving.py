"""Shared by the tests of the whole application: a test card, a session for it, and the service.

The real session tool, as a separate program, starts the session. The service runs in this process, on a port that the
kernel chose and on its Unix socket.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp import settings
from cardapp.serve import Service
from cardapp.session_client.link import SessionLink
from tests.functional.runtimes import LOCAL
from tests.functional.session_process import RunningSession, SessionTool, document, eventually

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int n;

static void rest(int hundredths)
{
    struct timespec pause = {0, 10000000};
    while (hundredths-- > 0 && access("%(release)s", F_OK) != 0)
        nanosleep(&pause, NULL);
}

static void end(void)
{
    %(ending)s
}

int main(void)
{
    n = 1;
    n = n + 1; /* quick */
    n = n + 1; /* again */
    rest(%(slow)d);
    n = n + 1; /* slow */
    end();
    n = n + 1; /* after the end */
    return n;
}
"""

RELEASE = "release"
"""The file that ends the program's sleep; see :meth:`Stage.release`."""
ENDINGS = {
    "exit": "exit(3);",
    "crash": "*(volatile int *)0 = n;",
    "loop": "for (volatile unsigned long i = 0;; i++) { }",
    "flood": 'for (;;) puts("a line of output that never ends, again and again, as fast as it can");',
}


def make_card(
    folder: Path, *, ending: str = "exit", slow: int = 150, uuid: str = "aaaaaaaa-0000-4000-8000-000000000001"
) -> Path:
    """Make a card whose last stop is after the statement ``ending``. Returns its folder. Steps: quick, slow, drifted,
    beyond.

    ``slow`` is the time that the program sleeps before the step slow, in hundredths of a second.
    """
    code = PROGRAM % {"ending": ENDINGS[ending], "slow": slow, "release": RELEASE}
    lines = code.splitlines()
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.c").write_text(code)

    def snapshot(name: str, text: str, expected: str) -> dict[str, Any]:
        number = next(at for at, line in enumerate(lines, 1) if text in line)
        return {
            "id": name,
            "title": f"At {text}",
            "stop": {"file": "main.c", "line": number, "text": text},
            "expect": {"n": expected},
            "watch": ["n + 1"],
        }

    steps = {
        "quick": [snapshot("first", "/* quick */", "1"), snapshot("second", "/* again */", "2")],
        "slow": [snapshot("only", "/* slow */", "3")],
        "drifted": [snapshot("only", "/* quick */", "7")],
        "beyond": [snapshot("only", "/* after the end */", "4")],
    }
    phase = {
        "id": "p1",
        "title": "Phase",
        "steps": [{"id": name, "title": f"Step {name}", "snapshots": found} for name, found in steps.items()],
    }
    target = {
        "name": "probe",
        "build": ["gcc", "-g", "-O0", "-o", "probe", "main.c"],
        "program": "probe",
        "sources": ["main.c"],
    }
    block = {"id": "b1", "title": "Block", "goal": "", "phases": [phase]}
    source = document("probe", target, {}, {})
    source |= {"uuid": uuid, "tasks": [{"id": "t1", "title": "Task", "blocks": [block]}]}
    (folder / "card_source.json").write_text(json.dumps(source, indent=1))
    return folder


def position(step: str, snapshot: str | None = None, **fields: Any) -> dict[str, Any]:
    """The body of ``PUT /api/navigation/current`` for a step of :func:`make_card`."""
    focus = "snapshot" if snapshot else "step"
    given = {"task_id": "t1", "block_id": "b1", "phase_id": "p1", "step_id": step, "snapshot_ref": snapshot}
    return {**given, "focus_level": focus, **fields}


def picture(colour: int) -> bytes:
    """A PNG of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes([0, colour]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@dataclass(frozen=True)
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Api:
    """A client of one listener. Each request has a separate connection."""

    def __init__(self, connect: Callable[[], http.client.HTTPConnection]) -> None:
        self._connect = connect

    @classmethod
    def tcp(cls, port: int, timeout: float = 60) -> Api:
        return cls(lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=timeout))

    @classmethod
    def unix(cls, path: Path, timeout: float = 60) -> Api:
        return cls(lambda: _UnixConnection(path, timeout))

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Response:
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if raw is not None else {}
        connection = self._connect()
        try:
            connection.request(method, path, raw, {**sent, **(headers or {})})
            got = connection.getresponse()
            return Response(got.status, got.headers, got.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The JSON body of a GET that must succeed."""
        answer = self.request("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    def put(self, path: str, body: Any) -> Response:
        return self.request("PUT", path, body)

    def post(self, path: str, body: Any = None) -> Response:
        return self.request("POST", path, body)


class Sessions(SessionTool):
    """The session tool, with the commands that the tests of the whole application use."""

    def start(self, card: Path, name: str = "s") -> None:
        self.must("start", "--name", name, str(card))

    def stop(self, name: str = "s") -> None:
        self.run("stop", name)

    def session(self, name: str = "s") -> RunningSession:
        return RunningSession.of(self, name)

    @property
    def socket(self) -> Path:
        return Path(json.loads((self.state / "mcp-choice.json").read_text())["socket"])


class Stage:
    """A card, its session and the service, with one state directory. ``close`` ends all of them."""

    def __init__(
        self,
        state: Path,
        card: Path,
        runtime: str = LOCAL,
        *,
        options: Mapping[str, Any] | None = None,
        **environment: str,
    ) -> None:
        """``options`` go to the service, ``environment`` into its settings."""
        self.state = state
        self.card = card
        self.sessions = Sessions(state, runtime)
        self.environment = {"CARD_STATE_DIR": str(state), "CARD_SOURCE": str(card), "CARD_API_PORT": "0", **environment}
        self.service = Service(settings.load(self.environment), **(options or {}))
        self.service.start()
        self.tcp = Api.tcp(self.service.listener.port)
        self.unix = Api.unix(self.service.settings.api_socket)
        self.link = SessionLink(self.service.settings.mcp_choice)

    def close(self) -> None:
        self.link.close()
        self.service.stop()
        self.sessions.stop_all()

    def activation(self, key: str, generation: int | None = None) -> dict[str, Any]:
        """A valid activation of ``key``, from the API's present state."""
        if generation is None:
            generation = self.tcp.get("/api/checkpoint/status")["generation"] + 1
        return {
            "snapshot_ref": key,
            "generation": generation,
            "expected_binding": self.tcp.get("/api/session")["binding"],
            "expected_identity": self.tcp.get("/api/identity"),
        }

    def published(self) -> tuple[Any, ...]:
        """The state that only a ready checkpoint may change."""
        control = self.tcp.get("/api/control/state")
        return control["key"], control["page_index"], control["sync"]

    def running(self, key: str) -> None:
        """Wait until the replay of ``key`` is running in the session."""
        until(lambda: self._stage_of(key) == "replaying")

    def release(self) -> None:
        """End the program's sleep before the step slow, now and in later replays of this session."""
        (self.sessions.session().work / "probe" / RELEASE).touch()

    def _stage_of(self, key: str) -> str | None:
        active = self.tcp.get("/api/checkpoint/status")["active"]
        return active["stage"] if active and active["snapshot_ref"] == key else None


@contextmanager
def running_stage(prepare: Callable[[Path], Path], runtime: str = LOCAL, **changes: Any) -> Iterator[Stage]:
    """The application and a session on the card that ``prepare`` writes into the folder it is given. ``changes`` are
    those of :class:`Stage`."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", prepare(Path(folder) / "card"), runtime, **changes)
        try:
            stage.sessions.start(stage.card)
            yield stage
        finally:
            stage.close()


@contextmanager
def running_service(card: Callable[[Path], Path] = make_card, **environment: str) -> Iterator[Service]:
    """The service without a session, on the card that ``card`` writes into the folder it is given."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        own = {"CARD_STATE_DIR": f"{folder}/state", "CARD_SOURCE": str(card(Path(folder) / "card"))}
        service = Service(settings.load({"CARD_API_PORT": "0"} | own | environment))
        service.start()
        try:
            yield service
        finally:
            service.stop()


until = eventually


class Background:
    """A request in a separate thread. ``answer`` waits for its end."""

    def __init__(self, call: Callable[[], Response]) -> None:
        self._answer: Response | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Response]) -> None:
        self._answer = call()

    def answer(self, seconds: float = 40.0) -> Response:
        self._thread.join(seconds)
        assert self._answer is not None, "the request did not end"
        return self._answer
