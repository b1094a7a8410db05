"""The way to the chosen session's MCP server: one kept connection for short calls, own ones for those who need them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp import __version__
from cardapp.errors import (
    DebuggerFailed,
    McpError,
    McpTimeout,
    SessionUnavailable,
    TooSlow,
)
from cardapp.mcp.client import McpClient
from cardapp.session.choice import Choice, SocketMark, mark, read_choice

CLIENT_INFO = {"name": "cardapp", "version": __version__}
CONNECT_SECONDS = 3.0
CALL_SECONDS = 3.0
BINDING_FIELDS = ("container_id", "instance", "profile", "target")


@dataclass(frozen=True)
class _Kept:
    choice: Choice
    mark: SocketMark | None
    client: McpClient


class SessionLink:
    """Finds, opens and keeps connections to whatever session is chosen at the moment of the call."""

    def __init__(self, choice_path: Path) -> None:
        self._choice_path = choice_path
        self._lock = threading.Lock()
        self._kept: _Kept | None = None
        self._editor_socket: tuple[McpClient, str | None] | None = None

    def choice(self) -> Choice:
        return read_choice(self._choice_path)

    def connect(self, choice: Choice) -> McpClient:
        """A new connection that the caller closes; :class:`SessionUnavailable` names the way back."""
        try:
            return McpClient.connect(choice.socket, timeout=CONNECT_SECONDS, client_info=CLIENT_INFO)
        except (McpError, OSError) as error:
            raise SessionUnavailable(
                f"session {choice.name!r} does not answer at {choice.socket} ({error}): "
                f"bring it back with bin/card-session start, or look with bin/card-session list"
            ) from error

    def call(self, tool: str, arguments: dict[str, Any], *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """Call a tool of the chosen session and return its structured result.

        A connection that died since its last use is replaced once: sessions restart. Errors:
        :class:`SessionUnavailable`, :class:`TooSlow`, :class:`DebuggerFailed` with the session's own code.
        """
        return call_tool(self._client(), tool, arguments, seconds=seconds)

    def binding(self, *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """All that ``session_binding`` tells of the chosen session."""
        return self.call("session_binding", {}, seconds=seconds)

    def editor_socket(self) -> str | None:
        """The path of the session's Neovim socket; asked once of each server, which never moves it."""
        client = self._client()
        known = self._editor_socket
        if known is None or known[0] is not client:
            told = call_tool(client, "session_binding", {}, seconds=CALL_SECONDS)
            known = self._editor_socket = client, told["editor"]["socket"]
        return known[1]

    def describe(self) -> dict[str, Any]:
        """``GET /api/session``."""
        choice = self.choice()
        told = self.binding()
        return {
            "name": choice.name,
            "binding": binding_of(told),
            "runtime": told["runtime"],
            "mcp_socket": choice.socket,
            "card": told["card"],
        }

    def target_reset(self) -> dict[str, Any]:
        # Bringing back a dead Neovim or gdb takes a second or two on a busy machine.
        return self.call("target_reset", {}, seconds=20.0)

    def pane_fit(self, cols: int | None, rows: int | None) -> dict[str, Any]:
        wanted = {"cols": cols, "rows": rows}
        return self.call("pane_fit", {name: size for name, size in wanted.items() if size is not None})

    def debugger_state(self) -> dict[str, Any]:
        return self.call("debugger_state", {})

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.client.close()

    def _client(self) -> McpClient:
        choice = self.choice()
        now = mark(choice.socket)
        with self._lock:
            kept = self._kept
            if kept is not None and kept.choice == choice and kept.mark == now and not kept.client.closed.is_set():
                return kept.client
            client = self.connect(choice)
            self._kept = _Kept(choice, now, client)
        if kept is not None:
            kept.client.close()
        return client


def binding_of(told: dict[str, Any]) -> dict[str, str]:
    """The four fields that say which container this is."""
    return {name: told[name] for name in BINDING_FIELDS}


def call_tool(client: McpClient, tool: str, arguments: dict[str, Any], *, seconds: float) -> dict[str, Any]:
    """One short tool call on ``client``, its failures as ours."""
    try:
        result = client.call_tool(tool, arguments, timeout=seconds, maximum=seconds)
    except McpTimeout as error:
        raise TooSlow(f"the session did not answer {tool} within {seconds:g} s: bin/card-session reset") from error
    except McpError as error:
        raise SessionUnavailable(f"the session broke off during {tool} ({error}): bin/card-session list") from error
    if result.is_error:
        raise failure(result.structured, result.text)
    structured: dict[str, Any] = result.structured
    return structured


def failure(structured: Any, text: str) -> DebuggerFailed:
    """A tool's own failure as an error that keeps the session's code and data."""
    data = dict(structured) if isinstance(structured, dict) else {}
    code = str(data.pop("code", "debugger_failed"))
    reason = str(data.pop("reason", text))
    return DebuggerFailed(reason, code=code, extra={"session": data} if data else None)
