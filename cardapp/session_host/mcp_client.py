"""Connects to a session's MCP server for the commands of ``card-session``: calls a tool, or relays any MCP client."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cardapp import __version__, unix_socket
from cardapp.errors import McpError, SessionUnavailable
from cardapp.mcp.client import McpClient, ToolResult
from cardapp.session_host.directory import SessionDirectory

CALL_TIMEOUT = 60.0
BUSY_PAUSE = 0.1


def call(directory: SessionDirectory, tool: str, *, timeout: float = CALL_TIMEOUT) -> dict[str, Any]:
    """Call a tool of the session and return its result. Raises :class:`SessionUnavailable` if the call fails."""
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
    """Call ``tool``, and call it again while the server replies that it is busy."""
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while True:
        result = client.call_tool(tool, {}, timeout=timeout, maximum=timeout)
        busy = result.is_error and result.structured.get("code") == "busy"
        if not busy or time.monotonic() > deadline:
            return result
        pause.wait(BUSY_PAUSE)


def relay(path: Path, reader: int = 0, writer: int = 1) -> int:
    """Copy ``reader`` to the session and its replies to ``writer`` until the session closes the connection; returns 0.

    The end of ``reader`` is passed on to the session.
    """
    # The default selector uses epoll, which refuses regular files and /dev/null.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as session, selectors.PollSelector() as selector:
        try:
            with unix_socket.pinned(path) as pinned:
                session.connect(pinned)
        except OSError as error:
            raise SessionUnavailable(
                f"no server listens on {path} ({error.strerror}); restore it with bin/card-session reset"
            ) from error
        selector.register(session, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is session:
                    data = session.recv(1 << 16)
                    if not data:
                        return 0
                    _write(writer, data)
                else:
                    data = os.read(reader, 1 << 16)
                    if data:
                        session.sendall(data)
                    else:
                        selector.unregister(reader)
                        session.shutdown(socket.SHUT_WR)
                        sys.stdout.flush()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
