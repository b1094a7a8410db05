"""The chosen session: the file that names it, and the connections to its MCP server.

The choice is read again at each call, because ``card-session select`` may have changed it.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cardapp import __version__, procfs
from cardapp.errors import McpError, SessionUnavailable, TooSlow
from cardapp.mcp.client import McpClient
from cardapp.schema import decode
from cardapp.session_client.session_tools import (
    BindingResult,
    DebuggerState,
    call_tool,
    result_faults,
    session_binding,
)
from cardapp.unix_socket import SocketIdentity, identity

CLIENT_INFO = {"name": "cardapp", "version": __version__}
CONNECT_SECONDS = 3.0
CALL_SECONDS = 3.0
REFUSAL_SECONDS = 1.0
"""For this time after a failed connection, other callers get the same error at once, so that they need not wait."""

_START_HINT = "start one with bin/card-session start CARD_DIR, or choose one with bin/card-session select NAME"


@dataclass(frozen=True)
class Choice:
    """A session's name and the path of its MCP socket."""

    name: str
    socket: str


def read_choice(path: Path) -> Choice:
    """Read which session is chosen. Raises :class:`SessionUnavailable`, which says why there is none and how to choose
    one."""
    try:
        document = decode(path.read_bytes())
    except FileNotFoundError as error:
        raise SessionUnavailable(f"no session is chosen: {_START_HINT}") from error
    except (OSError, ValueError) as error:
        raise SessionUnavailable(f"{path} cannot be read ({error}): {_START_HINT}", code="bad_choice") from error
    name = document.get("name") if isinstance(document, dict) else None
    socket = document.get("socket") if isinstance(document, dict) else None
    if not isinstance(name, str) or not isinstance(socket, str) or "\0" in socket:
        raise SessionUnavailable(f'{path} must hold {{"name": …, "socket": …}}: {_START_HINT}', code="bad_choice")
    return Choice(name, socket)


# -- connections ---------------------------------------------------------------------------------------------------

Target = tuple[Choice, SocketIdentity | None]
"""The chosen session and its present socket."""


@dataclass(frozen=True)
class _Connection:
    """A connection to the socket of ``target``. A thread began to open it at ``began`` (monotonic seconds). ``client``
    is done when it is open."""

    target: Target
    client: Future[McpClient]
    began: float

    def usable(self, target: Target) -> bool:
        if self.target != target:
            return False
        if not self.client.done():
            return True
        if self.client.exception() is not None:
            return time.monotonic() - self.began < REFUSAL_SECONDS
        return not self.client.result().closed.is_set()


class SessionLink:
    """Connects to the chosen session. One connection is kept for all calls, as long as the same socket is there."""

    def __init__(self, choice_path: Path) -> None:
        self._choice_path = choice_path
        self._lock = threading.Lock()
        self._kept: _Connection | None = None
        self._editor_socket: tuple[McpClient, str | None] | None = None

    def choice(self) -> Choice:
        return read_choice(self._choice_path)

    def target(self) -> Target:
        choice = self.choice()
        return choice, identity(choice.socket)

    def connect(self, choice: Choice, *, seconds: float = CONNECT_SECONDS) -> McpClient:
        """Open a connection, which the caller must close. Raises :class:`SessionUnavailable`, which says how to restore
        the session."""
        try:
            return McpClient.connect(
                choice.socket, timeout=seconds, client_info=CLIENT_INFO, check_result=result_faults
            )
        except (McpError, OSError) as error:
            raise SessionUnavailable(
                f"session {choice.name!r} does not answer at {choice.socket} ({error}): "
                f"restore it with bin/card-session reset {choice.name}; bin/card-session list shows all sessions"
            ) from error

    def call(self, tool: str, arguments: dict[str, Any], *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """Call a tool of the chosen session and return its structured result.

        If the session was restarted, the kept connection is replaced first. Raises :class:`SessionUnavailable`,
        :class:`TooSlow`, or the error for the session's failure (see ``session_tools.failure``).
        """
        return call_tool(self._held(seconds), tool, arguments, seconds=seconds)

    def binding(self, *, seconds: float = CALL_SECONDS) -> BindingResult:
        """The result of the chosen session's tool ``session_binding``."""
        return session_binding(self._held(seconds), seconds=seconds)

    def editor_socket(self) -> str | None:
        """The path of the session's Neovim socket. A server never changes this path, so it is asked once per
        connection."""
        client = self._held(CALL_SECONDS)
        known = self._editor_socket
        if known is None or known[0] is not client:
            found = session_binding(client, seconds=CALL_SECONDS)
            known = self._editor_socket = client, found["editor"]["socket"]
        path, mcp_socket = known[1], self.choice().socket
        # A program in a container can replace the server, and name the socket of another session's Neovim.
        if path is not None and os.path.dirname(path) != os.path.dirname(mcp_socket):
            raise SessionUnavailable(
                f"the session names {path} as its Neovim's socket, which is not in the folder of {mcp_socket}"
            )
        return path

    def pid_space(self) -> str | None:
        """The pid namespace of the chosen session's MCP server. Raises the errors of :meth:`call`."""
        pid = self._held(CALL_SECONDS).peer_pid
        return procfs.pid_space(pid) if pid is not None else None

    def target_reset(self) -> dict[str, Any]:
        # The tool may start Neovim and gdb again, which takes seconds on a busy machine.
        return self.call("target_reset", {}, seconds=20.0)

    def pane_fit(self, cols: int | None, rows: int | None) -> dict[str, Any]:
        wanted = {"cols": cols, "rows": rows}
        return self.call("pane_fit", {name: size for name, size in wanted.items() if size is not None})

    def pane_follow(self, cols: int, rows: int) -> None:
        """Give the session's pane the size of a page's panel, unless it has the size of a terminal."""
        self.call("pane_fit", {"cols": cols, "rows": rows, "follow_panel": True})

    def debugger_state(self) -> DebuggerState:
        return cast("DebuggerState", self.call("debugger_state", {}))

    def await_move(self, stop_id: str, seconds: float, cancel: threading.Event) -> None:
        """Wait until the program leaves the stop ``stop_id``, at most ``seconds``.

        Raises the errors of :meth:`call`, for example when the session ends or when ``cancel`` is set.
        """
        arguments = {"unless_stop_id": stop_id, "wait_ms": round(1000 * seconds)}
        limit = seconds + CALL_SECONDS
        call_tool(self._held(CALL_SECONDS), "debugger_state", arguments, seconds=limit, cancel=cancel)

    def is_paused(self) -> bool:
        """Whether the server of the kept connection runs in a paused container."""
        kept = self._kept
        if kept is None or not kept.client.done() or kept.client.exception() is not None:
            return False
        pid = kept.client.result().peer_pid
        return pid is not None and procfs.is_frozen(pid)

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        _close(kept)

    def held(self) -> tuple[Target, McpClient]:
        """The chosen session with its socket, and the kept connection to it, which is opened if there is none.

        Raises the errors of :meth:`call`.
        """
        target = self.target()
        return target, self._connected(target, CONNECT_SECONDS)

    def _held(self, seconds: float) -> McpClient:
        return self._connected(self.target(), seconds)

    def _connected(self, target: Target, seconds: float) -> McpClient:
        """The kept connection, or a new one. The first caller opens the new connection, and other callers wait for
        it."""
        with self._lock:
            kept = self._kept
            if kept is not None and kept.usable(target):
                mine = None
            else:
                mine = self._kept = _Connection(target, Future(), time.monotonic())
        if mine is None:
            assert kept is not None
            return self._awaited(kept, seconds)
        _close(kept)
        return self._opened(mine, seconds)

    def _opened(self, connection: _Connection, seconds: float) -> McpClient:
        try:
            client = self.connect(connection.target[0], seconds=min(seconds, CONNECT_SECONDS))
        except BaseException as error:
            connection.client.set_exception(error)
            raise
        connection.client.set_result(client)
        with self._lock:
            replaced = self._kept is not connection
        if replaced:
            client.close()  # during the opening this link was closed, or another session was chosen
        return client

    def _awaited(self, connection: _Connection, seconds: float) -> McpClient:
        try:
            return connection.client.result(seconds)
        except TimeoutError as error:
            raise TooSlow("the session takes too long to open a connection; see bin/card-session list") from error


def _close(connection: _Connection | None) -> None:
    """Close an open connection. A connection that is still being opened is closed by the thread that opens it."""
    if connection is not None and connection.client.done() and connection.client.exception() is None:
        connection.client.result().close()
