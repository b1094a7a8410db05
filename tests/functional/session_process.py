"""A real session for tests, on a separate card. The session tool, run as a program, starts and stops it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from cardapp.mcp.client import McpClient, ToolResult
from cardapp.session_host.podman import Podman
from tests.functional.runtimes import LOCAL, PODMAN

TARGET = Path(__file__).with_name("target")
RECIPE = {
    "base": "arena.base",
    "size": "arena.size",
    "used": "arena.used",
    "blocks": {
        "count": "arena.count",
        "offset": "arena.blocks[$i].offset",
        "size": "arena.blocks[$i].size",
        "label": "arena.blocks[$i].label",
    },
}


def eventually(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Wait for the first true value of ``condition`` and return it. The test fails after ``seconds``. The
    pauses between its calls become longer, because a call may take much processor time."""
    deadline = time.monotonic() + seconds
    waiting, pause = threading.Event(), 0.01
    while not (seen := condition()):
        assert time.monotonic() < deadline, f"still {seen!r} after {seconds} s"
        waiting.wait(pause)
        pause = min(0.1, pause * 1.2)
    return seen


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class TestCard:
    """The folder of a card on the small target, whose first argument selects its behaviour."""

    __test__ = False

    def __init__(self, folder: Path, identifier: str = "probe") -> None:
        self.folder = folder
        self.sources = folder / "src"
        shutil.copytree(TARGET, self.sources)
        target = {"name": "probe", "build": ["make", "-s"], "program": "build/target", "sources": ["target.c"]}
        self.document = document(identifier, target, {"function": "mark"}, {"n": "1"})
        self.write()

    def write(self) -> None:
        (self.folder / "card_source.json").write_text(json.dumps(self.document))

    def behave(self, *arguments: str) -> None:
        """Give the target other arguments, from the next replay on."""
        self.document["target"]["args"] = list(arguments)
        self.write()


def document(identifier: str, target: dict[str, Any], stop: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """A card source with one snapshot, ``t1/b1/p1/s1/x1``."""
    snapshot = {"id": "x1", "title": "x", "stop": stop, "expect": expect}
    step = {"id": "s1", "title": "s", "text": "t", "question": "q", "snapshots": [snapshot]}
    phase = {"id": "p1", "title": "p", "steps": [step]}
    return {
        "schema": "card-source.v1",
        "id": identifier,
        "uuid": str(uuid.uuid4()),
        "version": "1.0.0",
        "title": "Probe",
        "language": "en",
        "layout": "karta-classic",
        "target": {"directory": "src", **target},
        "tasks": [{"id": "t1", "title": "t", "blocks": [{"id": "b1", "title": "b", "goal": "g", "phases": [phase]}]}],
    }


def line_of(text: str, source: Path = TARGET / "target.c") -> int:
    """The number of the only line that contains ``text``."""
    found = [number for number, line in enumerate(source.read_text().splitlines(), 1) if text in line]
    assert len(found) == 1, (text, found)
    return found[0]


def at(text: str, hits: int = 1) -> dict[str, Any]:
    """The stop at the line of the target that contains ``text``."""
    return {"file": "target.c", "line": line_of(text), "text": text, "hits": hits}


class SessionTool:
    """``card-session`` as a program, for one state directory. Sessions are started with ``profile``."""

    def __init__(self, state: Path, profile: str = LOCAL) -> None:
        self.state = state
        self.profile = profile
        self.environment = dict(os.environ) | {"CARD_STATE_DIR": str(state)}

    def command(self, *arguments: str) -> list[str]:
        """The command line; a start without ``--profile`` gets the profile of this tool."""
        if arguments[:1] == ("start",) and "--profile" not in arguments:
            arguments = ("start", "--profile", self.profile, *arguments[1:])
        return [sys.executable, "-P", "-m", "cardapp.session_host", *arguments]

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        # If the session kept a descriptor of the output, reading to its end would hang forever.
        return subprocess.run(
            self.command(*arguments),
            env=self.environment | environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=100,
            check=False,
        )

    def must(self, *arguments: str) -> str:
        """The output of a command. The test fails if its exit code is not 0."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop_all(self) -> None:
        for name in sorted(path.parent.name for path in self.state.glob("sessions/*/session.json")):
            self.run("stop", name)


class RunningSession:
    """A started session with its paths, its processes and a client of its MCP server."""

    def __init__(self, tool: SessionTool, card: TestCard, name: str = "s", *options: str) -> None:
        self.tool = tool
        self.card = card
        self.name = name
        self.path = tool.state / "sessions" / name
        self._client: McpClient | None = None
        tool.must("start", "--name", name, *options, str(card.folder))

    @classmethod
    def of(cls, tool: SessionTool, name: str) -> Self:
        """The running session ``name``, which another test object has started."""
        found = cls.__new__(cls)
        found.tool, found.name, found.path, found._client = tool, name, tool.state / "sessions" / name, None
        return found

    @property
    def work(self) -> Path:
        """The folder of its copy of the sources."""
        return next(self.path.glob("work*"))

    @property
    def client(self) -> McpClient:
        """A new connection to the running server."""
        if self._client is None or self._client.closed.is_set():
            self.close()
            self._client = McpClient.connect(str(self.path / "run" / "mcp.sock"), timeout=10)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def stop(self) -> None:
        self.close()
        self.tool.run("stop", self.name)

    # -- tools -------------------------------------------------------------------------------------------------------

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> ToolResult:
        return self.client.call_tool(tool, arguments or {}, timeout=60, maximum=60, **options)

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool that must succeed."""
        result = self.call(tool, arguments)
        assert not result.is_error, result.text
        found: dict[str, Any] = result.structured
        return found

    def request(self, stop: dict[str, Any], *expressions: str, **changes: Any) -> dict[str, Any]:
        """The arguments of a replay, with the session's binding."""
        binding = self.ask("session_binding")
        own = {key: binding[key] for key in ("container_id", "instance", "profile", "target")}
        rest = {"generation": 1, "snapshot_ref": "t1/b1/p1/s1/x1", "stop": stop, "expressions": list(expressions)}
        return own | rest | {"timeout_ms": 20_000} | changes

    def replay(self, stop: dict[str, Any], *expressions: str, **changes: Any) -> dict[str, Any]:
        """A replay that must succeed."""
        return self.ask("checkpoint_replay", **self.request(stop, *expressions, **changes))

    def refusal(self, stop: dict[str, Any], *expressions: str, **changes: Any) -> dict[str, Any]:
        """The failure of a replay that must fail."""
        result = self.call("checkpoint_replay", self.request(stop, *expressions, **changes))
        assert result.is_error, result.structured
        found: dict[str, Any] = result.structured
        return found

    def state(self) -> dict[str, Any]:
        return self.ask("debugger_state")

    def check_usable(self) -> None:
        """The next replay works."""
        self.card.behave()
        assert self.replay(at("/* after */"), "count")["values"]["count"]["value"] == "14"

    # -- its parts ---------------------------------------------------------------------------------------------------

    def editor(self, expression: str) -> str:
        """A Vim expression, evaluated in the session's Neovim by another Neovim."""
        done = subprocess.run(
            ["nvim", "--server", str(self.path / "run" / "nvim.sock"), "--remote-expr", expression],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        # Neovim 0.7 prints the value on one of the two, depending on its terminal.
        return (done.stdout + done.stderr).strip()

    def type(self, keys: str) -> None:
        """Keys as if typed in the session's terminal (tmux key names or text)."""
        self.tmux("send-keys", "-t", "card", keys)

    def gdb(self, command: str) -> None:
        """A command as if typed at the gdb window's prompt."""
        is_gdb = "{_, c -> get(c, 'mode', '') == 'terminal' && get(c.argv, 0, '') =~ 'gdb$'}"
        channel = f"filter(nvim_list_chans(), {is_gdb})"
        quoted = command.replace("'", "''")
        self.editor(f"chansend({channel}[0].id, '{quoted}' .. \"\\r\")")

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self.path / "run" / "tmux.sock"), *arguments]
        record = self.record()
        if record["runtime"] == PODMAN:  # the client and the server of tmux must have the same release
            command = Podman().command("exec", record["container_id"], *command)
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "card")

    def processes(self) -> dict[int, str]:
        """Every process of this session: its environment has a mark of it, or its command names the directory."""
        return processes_of(self.record()["container_id"], self.path)

    def pid(self, program: str) -> int:
        """The one process of the session whose command is ``program``.

        Neovim 0.9 and later have two processes: ``nvim`` is the server, in which gdb runs, and ``nvim-terminal`` is the
        process in the terminal, which started the server. In older releases one process is both.
        """
        found = [pid for pid, command in self.processes().items() if command == program.removesuffix("-terminal")]
        if program.startswith("nvim") and len(found) == 2:
            found = [pid for pid in found if _is_embedded(pid) == (program == "nvim")]
        assert len(found) == 1, self.processes()
        return found[0]

    def host_pid(self) -> int:
        """The process of the MCP server."""
        return int(self.record()["host"]["pid"])

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "session.json").read_text())
        return found

    def outside(self, path: str) -> str:
        """This process's path to the file that the session's processes see at ``path``."""
        return f"/proc/{self.host_pid()}/root{path}"


@contextmanager
def small_session() -> Iterator[RunningSession]:
    """A session on the small target, in separate folders. At the end it is stopped."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        running = RunningSession(SessionTool(Path(folder) / "state"), TestCard(Path(folder) / "card"))
        try:
            yield running
        finally:
            running.stop()


def _is_embedded(pid: int) -> bool:
    return b"--embed" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def processes_of(container_id: str, path: Path) -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            name = (entry / "comm").read_text().strip()
        except OSError:
            continue
        marks = (f"CARDAPP_SESSION={container_id}".encode(), os.fsencode(f"HOME={path}/run/home\0"))
        ours = any(mark in environment for mark in marks) or os.fsencode(f"{path}/") in command
        if ours and alive(int(entry.name)):
            found[int(entry.name)] = name
    return found
