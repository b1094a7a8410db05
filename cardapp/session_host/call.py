"""Calls the MCP server of a session, for the commands of ``card-session``."""

from __future__ import annotations

import threading
import time
from typing import Any

from cardapp import __version__
from cardapp.errors import McpError, SessionUnavailable
from cardapp.mcp.client import McpClient, ToolResult
from cardapp.session_host.directory import SessionDirectory

CALL_TIMEOUT = 60.0
BUSY_PAUSE = 0.1


def call(directory: SessionDirectory, tool: str, *, timeout: float = CALL_TIMEOUT) -> dict[str, Any]:
    """The result of ``tool`` of the session; :class:`SessionUnavailable` if the call fails."""
    advice = f"restore it with bin/card-session reset {directory.name}"
    try:
        client = McpClient.connect(
            str(directory.mcp_socket), timeout=timeout, client_info={"name": "card-session", "version": __version__}
        )
        try:
            result = _call_when_free(client, tool, timeout)
        finally:
            client.close()
    except (McpError, OSError) as error:
        raise SessionUnavailable(f"session {directory.name} does not answer ({error}); {advice}") from error
    if result.is_error:
        raise SessionUnavailable(result.text)
    found: dict[str, Any] = result.structured
    return found


def _call_when_free(client: McpClient, tool: str, timeout: float) -> ToolResult:
    """The result of ``tool``. It is called again while the server is busy: that does not mean that it has ended."""
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while True:
        result = client.call_tool(tool, {}, timeout=timeout, maximum=timeout)
        busy = result.is_error and result.structured.get("code") == "busy"
        if not busy or time.monotonic() > deadline:
            return result
        pause.wait(BUSY_PAUSE)
