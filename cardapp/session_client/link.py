"""Connections to the MCP server of the chosen session: one is kept for short calls, callers may open their own."""

from __future__ import annotations

import os
import re
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp import __version__, procfs
from cardapp.errors import (
    PEER_TEXT,
    CardAppError,
    CheckpointCancelled,
    CheckpointRejected,
    Conflict,
    DebuggerFailed,
    EditorBlocked,
    EditorUnavailable,
    McpError,
    McpTimeout,
    SessionUnavailable,
    SnapshotDrift,
    TooSlow,
)
from cardapp.mcp.client import McpClient
from cardapp.session_client import tool_results
from cardapp.session_client.choice import Choice, read_choice
from cardapp.unix_socket import SocketIdentity, identity

CLIENT_INFO = {"name": "cardapp", "version": __version__}
CONNECT_SECONDS = 3.0
CALL_SECONDS = 3.0
REFUSAL_SECONDS = 1.0
"""How long the error of a failed connection is given to further callers, so that they need not wait as well."""

BINDING_FIELDS = ("container_id", "instance", "profile", "target")


# The codes of the session that are not simply a failure of the debugger.
_FAILURES: dict[str, type[CardAppError]] = {
    "cancelled": CheckpointCancelled,
    "card_unreadable": Conflict,
    "editor_blocked": EditorBlocked,
    "editor_dead": EditorUnavailable,
    "replay_timeout": TooSlow,
    "source_drift": SnapshotDrift,
}

_CODE = re.compile("[a-z][a-z0-9_]{0,63}")
_Target = tuple[Choice, SocketIdentity | None]


@dataclass(frozen=True)
class _Connection:
    """A connection to the socket of ``target``, open or being opened since ``began`` (monotonic seconds)."""

    target: _Target
    client: Future[McpClient]
    began: float

    def usable(self, target: _Target) -> bool:
        if self.target != target:
            return False
        if not self.client.done():
            return True
        if self.client.exception() is not None:
            return time.monotonic() - self.began < REFUSAL_SECONDS
        return not self.client.result().closed.is_set()


class SessionLink:
    """Connects to the session that is chosen at the time of each call."""

    def __init__(self, choice_path: Path) -> None:
        self._choice_path = choice_path
        self._lock = threading.Lock()
        self._kept: _Connection | None = None
        self._editor_socket: tuple[McpClient, str | None] | None = None

    def choice(self) -> Choice:
        return read_choice(self._choice_path)

    def connect(self, choice: Choice, *, seconds: float = CONNECT_SECONDS) -> McpClient:
        """A new connection, which the caller closes; :class:`SessionUnavailable` says how to restore the session."""
        try:
            return McpClient.connect(
                choice.socket, timeout=seconds, client_info=CLIENT_INFO, check_result=tool_results.faults
            )
        except (McpError, OSError) as error:
            raise SessionUnavailable(
                f"session {choice.name!r} does not answer at {choice.socket} ({error}): "
                f"restore it with bin/card-session reset {choice.name}; bin/card-session list shows all sessions"
            ) from error

    def call(self, tool: str, arguments: dict[str, Any], *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """Call a tool of the chosen session and return its structured result.

        If the session was restarted, the kept connection is replaced first. Errors: :class:`SessionUnavailable`,
        :class:`TooSlow`, :class:`DebuggerFailed` with the session's own code.
        """
        return call_tool(self._client(seconds), tool, arguments, seconds=seconds)

    def binding(self, *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """The result of the chosen session's tool ``session_binding``."""
        return self.call("session_binding", {}, seconds=seconds)

    def editor_socket(self) -> str | None:
        """The path of the session's Neovim socket. It is read once per connection: a server never changes it."""
        client = self._client(CALL_SECONDS)
        known = self._editor_socket
        if known is None or known[0] is not client:
            found = call_tool(client, "session_binding", {}, seconds=CALL_SECONDS)
            known = self._editor_socket = client, found["editor"]["socket"]
        path, own = known[1], self.choice().socket
        # A program in a container can take the server's place, and name the socket of another session's Neovim.
        if path is not None and os.path.dirname(path) != os.path.dirname(own):
            raise SessionUnavailable(f"the session names {path} as its Neovim's socket, which is not beside {own}")
        return path

    def pid_space(self) -> str | None:
        """The pid namespace of the chosen session's MCP server; raises like :meth:`call` if it does not answer."""
        pid = self._client(CALL_SECONDS).peer_pid
        return procfs.pid_space(pid) if pid is not None else None

    def describe(self) -> dict[str, Any]:
        """The body of ``GET /api/session``."""
        choice = self.choice()
        found = self.binding()
        return {
            "name": choice.name,
            "binding": binding_of(found),
            "runtime": found["runtime"],
            "mcp_socket": choice.socket,
            "card": found["card"],
        }

    def target_reset(self) -> dict[str, Any]:
        # The tool may start Neovim and gdb again, which takes seconds on a busy machine.
        return self.call("target_reset", {}, seconds=20.0)

    def pane_fit(self, cols: int | None, rows: int | None) -> dict[str, Any]:
        wanted = {"cols": cols, "rows": rows}
        return self.call("pane_fit", {name: size for name, size in wanted.items() if size is not None})

    def debugger_state(self) -> dict[str, Any]:
        return self.call("debugger_state", {})

    def await_move(self, stop_id: str, seconds: float, cancel: threading.Event) -> None:
        """Wait until the program leaves the stop ``stop_id``, at most ``seconds``.

        Raises like :meth:`call`, also when the session ends and when ``cancel`` is set.
        """
        arguments = {"unless_stop_id": stop_id, "wait_ms": round(1000 * seconds)}
        limit = seconds + CALL_SECONDS
        call_tool(self._client(CALL_SECONDS), "debugger_state", arguments, seconds=limit, cancel=cancel)

    def is_paused(self) -> bool:
        """Whether the server of the kept connection is in a container that is paused."""
        kept = self._kept
        if kept is None or not kept.client.done() or kept.client.exception() is not None:
            return False
        pid = kept.client.result().peer_pid
        return pid is not None and procfs.is_frozen(pid)

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        _close(kept)

    def _client(self, seconds: float) -> McpClient:
        """The kept connection, or a new one: the first caller opens it while the others wait."""
        choice = self.choice()
        target = (choice, identity(choice.socket))
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
            client.close()  # meanwhile this link was closed, or another session was chosen
        return client

    def _awaited(self, connection: _Connection, seconds: float) -> McpClient:
        try:
            return connection.client.result(seconds)
        except TimeoutError as error:
            raise TooSlow("the session takes too long to open a connection; see bin/card-session list") from error


def _close(connection: _Connection | None) -> None:
    """Close a connection that is open. One that is being opened is closed by the thread that opens it."""
    if connection is not None and connection.client.done() and connection.client.exception() is None:
        connection.client.result().close()


def binding_of(found: dict[str, Any]) -> dict[str, str]:
    """The four fields of a ``session_binding`` result that identify the container."""
    return {name: found[name] for name in BINDING_FIELDS}


def call_tool(
    client: McpClient,
    tool: str,
    arguments: dict[str, Any],
    *,
    seconds: float,
    cancel: threading.Event | None = None,
) -> dict[str, Any]:
    """One short tool call on ``client``, whose errors are translated to this application's."""
    try:
        result = client.call_tool(tool, arguments, timeout=seconds, maximum=seconds, cancel=cancel)
    except McpTimeout as error:
        raise TooSlow(
            f"the session did not answer {tool} within {seconds:g} s; reset it with bin/card-session reset"
        ) from error
    except McpError as error:
        raise SessionUnavailable(
            f"the session failed during {tool} ({error}): restore it with bin/card-session reset"
        ) from error
    if result.is_error:
        raise failure(result.structured, result.text)
    structured: dict[str, Any] = result.structured
    return structured


def failure(structured: Any, text: str) -> CardAppError:
    """The error that fits the code of a tool's failure. Code and data are kept if they have the agreed shape."""
    data = dict(structured) if isinstance(structured, dict) else {}
    code, reason = str(data.pop("code", "")), str(data.pop("reason", "") or text)[:PEER_TEXT]
    if not _CODE.fullmatch(code):
        code = DebuggerFailed.code
    if code == "binding_mismatch":  # the session was replaced after its binding was read
        code, kind = "container_changed", CheckpointRejected
    else:
        kind = _FAILURES.get(code, DebuggerFailed)  # type: ignore[assignment]
    return kind(
        reason or "the session failed without a reason; reset it with bin/card-session reset",
        code=code,
        extra={"session": data} if data else None,
    )
