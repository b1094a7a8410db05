"""The session inside its MCP server: starts, restarts and ends Neovim, gdb and the terminal."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from cardapp.card.expression import called
from cardapp.card.model import Target
from cardapp.card.source import LoadedCard, load_card
from cardapp.errors import CardAppError, DebuggerFailed, EditorUnavailable, TooSlow
from cardapp.neovim import Mode, NeovimConnection
from cardapp.session_host.container_limits import LimitWatch
from cardapp.session_host.directory import Record, SessionDirectory
from cardapp.session_host.gdb_client import GdbChannel
from cardapp.session_host.pane import Pane
from cardapp.session_host.process import (
    CONTAINER_VARIABLE,
    DIRECTORY_VARIABLE,
    HOME_VARIABLE,
    Instance,
    continue_processes,
    end_processes,
)
from cardapp.session_host.profile import ROOT, Profile
from cardapp.session_host.workspace import Workspace

NVIM = Path(__file__).with_name("nvim")
START_TIMEOUT = 15.0
POLL = 0.005  # seconds between two checks of a condition that causes no event
# These variables of the learner's shell would change how Neovim, gdb or readline behave.
REMOVED_VARIABLES = ("NVIM", "NVIM_LISTEN_ADDRESS", "NVIM_APPNAME", "VIM", "VIMINIT", "EXINIT", "MYVIMRC", "VIMRUNTIME",
           "DEBUGINFOD_URLS", "TMUX", "TMUX_PANE", "LINES", "COLUMNS", "PYTHONPATH", "PYTHONHOME")  # fmt: skip
PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"
DEBUGGER = "return require('card.debugger').{name}(...)"


class EditorBusy(CardAppError):
    """Neovim runs a command, or waits for a key that only the learner can choose."""

    code = "editor_blocked"


class Turn:
    """A tool call's exclusive use of the program. ``is_set`` is true after the caller cancelled or a reset began."""

    def __init__(self, cancelled: threading.Event) -> None:
        self._cancelled = cancelled
        self.revoked = threading.Event()

    def is_set(self) -> bool:
        return self._cancelled.is_set() or self.revoked.is_set()


class Editor:
    """Calls the Neovim at ``socket_path``. Connects at the first call, and again after Neovim was restarted.

    Methods raise the errors of :meth:`NeovimConnection.call`.
    """

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)
        self._lock = threading.Lock()
        self._connection: NeovimConnection | None = None

    def alive(self, timeout: float = 1.0) -> bool:
        """Whether Neovim answers. A Neovim that waits for a key also answers."""
        try:
            self.mode(timeout)
        except (EditorUnavailable, TooSlow):
            return False
        return True

    def condition(self) -> str | None:
        """Why Neovim cannot be used; None if it can. A Neovim that waits for a key can be used."""
        try:
            self.mode()
        except (EditorUnavailable, TooSlow) as error:
            return error.detail
        return None

    def mode(self, timeout: float = 1.0) -> Mode:
        """Read Neovim's mode, and whether Neovim waits for a key."""
        return self._connected().mode(timeout)

    def call(self, name: str, *arguments: Any, timeout: float = 2.0) -> Any:
        """Call the Lua function ``name`` of ``card.debugger`` and return its result."""
        return self._request("nvim_exec_lua", DEBUGGER.format(name=name), list(arguments), timeout=timeout)

    def lua(self, code: str, *arguments: Any, timeout: float = 2.0) -> Any:
        """Run the Lua chunk ``code`` and return its result."""
        return self._request("nvim_exec_lua", code, list(arguments), timeout=timeout)

    def input(self, keys: str, timeout: float = 1.0) -> None:
        """Type ``keys`` (Neovim's key notation). Neovim accepts them at once, even if it is busy."""
        self._request("nvim_input", keys, timeout=timeout)

    def free(self, timeout: float = 1.0) -> bool:
        """Leave prompts, pending keys and the command line for normal mode. Returns whether that worked.

        A terminal that takes the learner's keys keeps them.
        """
        deadline = time.monotonic() + timeout
        pause = threading.Event()
        while time.monotonic() < deadline:
            mode, blocking = self.mode(max(0.1, deadline - time.monotonic()))
            if mode in ("n", "nt", "t") and not blocking:
                if not self.lua("return vim.fn.getcmdwintype()"):
                    return True
                self.input(":quit<CR>")
            else:
                self.input("<CR>" if mode.startswith("r") else r"<C-\><C-n>")
            pause.wait(0.002)
        return False

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _request(self, method: str, *arguments: Any, timeout: float) -> Any:
        return self._connected().call(method, *arguments, timeout=timeout)

    def _connected(self) -> NeovimConnection:
        with self._lock:
            if self._connection is not None and self._connection.ended.is_set():
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = NeovimConnection(self._path)
            return self._connection


class Session:
    """The parts of one session. A call that moves the program or the editor must hold :meth:`turn`."""

    def __init__(self, directory: SessionDirectory, record: Record, profile: Profile, instance: Instance) -> None:
        self.directory = directory
        self.record = record
        self.profile = profile
        self.instance = instance
        self.pane = Pane(directory.tmux_socket)
        self.editor = Editor(directory.nvim_socket)
        self.gdb = GdbChannel(directory.gdb_socket)
        self.watch = LimitWatch(profile.limits, self._report_limit) if profile.limits is not None else None
        self._lock = threading.Lock()
        self._current: Turn | None = None
        self._card: LoadedCard | None = None

    # -- the card ----------------------------------------------------------------------------------------------------

    def loaded(self) -> LoadedCard:
        """The card, as its source file is now. The file is decoded only if it has changed. Raises ``OSError`` or
        ``InvalidCard``."""
        sha256 = hashlib.sha256(Path(self.record.card_source).read_bytes()).hexdigest()
        if self._card is None or self._card.identity.source_sha256 != sha256:
            self._card = load_card(self.record.card_source)
        return self._card

    def macros(self, expressions: Iterable[str]) -> Collection[str]:
        """The function-like macros of the card's sources, if an expression may use one. Raises the errors of
        :meth:`loaded`."""
        return self.loaded().macros() if any(map(called, expressions)) else ()

    def build_timeout(self, target: Target) -> float:
        """Seconds that a build may take: the card's limit, else the profile's."""
        return target.build_timeout or self.profile.build_timeout

    def workspace(self) -> Workspace:
        record = self.directory.build_record(self.record.runtime, self.record.card_id)
        return Workspace.of(self.loaded(), Path(self.record.source_directory), record)

    def relative(self, place: dict[str, Any]) -> dict[str, Any]:
        """``place`` with its file relative to the target's directory, if the file is in it."""
        file, directory = place["file"], self.record.source_directory
        if file is not None and Path(file).is_relative_to(directory):
            file = os.path.relpath(file, directory)
        return place | {"file": file}

    # -- turns -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def turn(self, timeout: float, cancelled: threading.Event, *, urgent: bool = False) -> Iterator[Turn]:
        """Use the program exclusively. If ``urgent``, the call that is using the program is told to stop.

        :raises TooSlow: another call still uses the program after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._lock.acquire(timeout=0.02):
            if cancelled.is_set() or time.monotonic() > deadline:
                raise TooSlow("another call uses the program")
            if urgent and (current := self._current) is not None:
                current.revoked.set()
        try:
            self._current = Turn(cancelled)
            yield self._current
        finally:
            self._current = None
            self._lock.release()

    # -- starting and ending the parts -------------------------------------------------------------------------------

    def bring_up(self, *, force: bool = False) -> tuple[bool, bool]:
        """Start the parts that do not run. Returns whether Neovim was started, and whether gdb was started.

        If Neovim is busy, this method raises :class:`EditorBusy`, because Neovim may hold unsaved changes. With
        ``force`` it interrupts Neovim and, if that does not help, ends it. A Neovim without a terminal is always ended.
        """
        started = self._bring_up_editor(force)
        if started:
            self._await_debugger()
            return True, True
        if self.gdb.alive():
            return False, False
        self.restart_debugger()
        return False, True

    def _bring_up_editor(self, force: bool) -> bool:
        try:
            self.editor.mode()
            return False
        except TooSlow as error:
            continue_processes(self.record.container_id)  # the program may have stopped Neovim and tmux by a signal
            if self.editor.alive():
                return False
            # Since 0.9 Neovim's terminal UI is a separate process, so a busy Neovim keeps running after its pane was
            # closed. Without a pane the learner cannot interrupt it, so it is ended below.
            if self.pane.alive():
                if not force:
                    reason = "Neovim runs a command and does not answer; press Ctrl-C in Neovim to interrupt it"
                    raise EditorBusy(reason) from error
                if self._interrupt_editor():
                    return False
        except EditorUnavailable:
            pass
        self._start_editor()
        return True

    def _interrupt_editor(self) -> bool:
        with contextlib.suppress(EditorUnavailable, TooSlow):
            self.editor.input("<C-c>")
            return self.editor.alive(2.0)
        return False

    def _start_editor(self) -> None:
        self.end_programs()
        # If an old socket file exists, Neovim 0.7 listens on another path and reports no error.
        self.directory.nvim_socket.unlink(missing_ok=True)
        self.directory.gdb_socket.unlink(missing_ok=True)
        work = Path(self.record.source_directory)
        command = ["nvim", "-u", str(NVIM / "init.lua"), "-n", "-i", "NONE", "--noplugin"]
        command += ["--listen", str(self.directory.nvim_socket), "--", *self.loaded().card.target.sources]
        self.pane.open(command, work, self._environment(), self.profile)
        # A socket file alone does not show that Neovim listens on it.
        if not _wait(self.editor.alive, START_TIMEOUT):
            raise EditorUnavailable(f"Neovim did not open its socket {self.directory.nvim_socket}")
        name = self.editor.lua("return vim.v.servername", timeout=START_TIMEOUT)
        if name != str(self.directory.nvim_socket):
            raise EditorUnavailable(f"Neovim listens at {name} and not at {self.directory.nvim_socket}")

    def restart_debugger(self) -> None:
        if not self.editor.free():
            raise EditorBusy("Neovim waits for a key that only you can decide on; press Escape there")
        self.editor.call("restart", timeout=START_TIMEOUT)
        self._await_debugger()

    def end_programs(self) -> None:
        """End the terminal, Neovim, gdb and all processes that they started."""
        self.editor.close()
        self.pane.close()
        end_processes(self.record.container_id, 5.0)
        end_processes(str(self.directory.program_home), 5.0, HOME_VARIABLE)

    def load(self, run: str | None = None, *, varied: bool = False) -> None:
        """Load the built program in gdb. It will be started as the card's run ``run`` says.

        :param run: The name of a run; None means the target's run.
        :param varied: Whatever the program does not determine itself shall differ from an ordinary run.
        :raises KeyError: the card has no such run.
        """
        workspace = self.workspace()
        chosen = workspace.target.run_named(run)
        self.gdb.call(
            "load",
            timeout=5.0,
            program=str(workspace.program),
            arguments=list(chosen.args),
            directory=str(workspace.directory),
            stdin=None if chosen.stdin is None else str(workspace.directory / chosen.stdin),
            environment=self._program_environment() | dict(chosen.env),
            varied=varied,
        )

    def _program_environment(self) -> dict[str, str]:
        """The variables that every program gets, without TERM, which gdb knows. They do not depend on the caller."""
        home = self.directory.program_home
        home.mkdir(mode=0o700, exist_ok=True)
        return {"PATH": PROGRAM_PATH, "HOME": str(home), "LANG": "C.UTF-8"}

    def await_program_end(self, timeout: float) -> None:
        """Wait until gdb has noticed the end of a killed program, at most ``timeout`` seconds."""
        _wait(lambda: self.gdb.call("state", timeout=timeout)["state"] != "running", timeout)

    def close(self) -> None:
        self.editor.close()

    def _report_limit(self, reason: str) -> None:
        """Show in Neovim why the program was ended."""
        with contextlib.suppress(CardAppError):
            text = f"the program was ended: {reason}"
            self.editor.lua("require('card.message').show(...)", text, "WarningMsg", timeout=0.5)

    def _await_debugger(self) -> None:
        """Wait for gdb and for termdebug, because gdb answers before termdebug has connected to it."""
        if not _wait(lambda: self.gdb.alive(0.5) and bool(self.editor.call("is_ready")), START_TIMEOUT):
            raise DebuggerFailed("gdb did not start in Neovim", code="debugger_dead")

    def _environment(self) -> dict[str, str]:
        """The environment of Neovim and gdb, which hides the learner's own configuration from them."""
        home = self.directory.editor_home
        environ = {name: value for name, value in os.environ.items() if name not in REMOVED_VARIABLES}
        for name in ("config", "data", "state", "cache", "runtime", "tmp"):
            (home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        environ |= {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "data", "state", "cache")}
        environ |= {"XDG_CONFIG_DIRS": str(home), "XDG_DATA_DIRS": str(home), "XDG_RUNTIME_DIR": str(home / "runtime")}
        environ |= {"TMPDIR": str(home / "tmp"), "INPUTRC": os.devnull, "SHELL": "/bin/sh"}
        environ |= {
            CONTAINER_VARIABLE: self.record.container_id,
            DIRECTORY_VARIABLE: str(self.directory.path),
            "CARDAPP_ROOT": str(ROOT),
        }
        environ |= {"CARDAPP_GDB_SOCKET": str(self.directory.gdb_socket)}
        state = self.directory.path.parent.parent
        environ.setdefault("CARD_STATE_DIR", str(state))
        environ.setdefault("CARD_API_SOCKET", str(state / "card-api.sock"))
        if not any("UTF-8" in environ.get(name, "").upper() for name in ("LC_ALL", "LC_CTYPE", "LANG")):
            environ |= {"LC_ALL": "C.UTF-8"}
        return environ


def _wait(condition: Callable[[], bool], timeout: float) -> bool:
    """Wait until ``condition`` is true. Returns False if ``timeout`` seconds pass before that."""
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(POLL)
    return True
