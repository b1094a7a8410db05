"""Calls of a session whose MCP server is busy or absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cardapp.errors import SessionUnavailable
from cardapp.mcp.server import CallContext, McpServer, Tool, ToolFailure, UnixListener
from cardapp.session_host import mcp_client
from cardapp.session_host.directory import SessionDirectory, State

NOTHING = {"type": "object"}


class Busy:
    """A server that refuses the first two calls of its tool as busy."""

    def __init__(self, directory: SessionDirectory) -> None:
        self.calls = 0
        tool = Tool("t", "T", "T.", NOTHING, {"type": "object", "required": ["calls"]}, self.handle)
        self.listener = UnixListener(directory.mcp_socket, McpServer("busy", "1", [tool]))

    def handle(self, _arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        self.calls += 1
        if self.calls < 3:
            raise ToolFailure("busy", "try again later")
        return {"calls": self.calls}


@pytest.fixture
def directory(state_dir: Any) -> SessionDirectory:
    state = State.of({"CARD_STATE_DIR": str(state_dir)})
    state.create()
    found = state.session("s")
    found.create()
    return found


@pytest.fixture
def busy(directory: SessionDirectory) -> Iterator[Busy]:
    server = Busy(directory)
    server.listener.start()
    yield server
    server.listener.stop(5.0)


def test_a_busy_session_is_called_again(busy: Busy, directory: SessionDirectory) -> None:
    assert mcp_client.call(directory, "t") == {"calls": 3}


def test_a_session_that_stays_busy_is_unavailable(busy: Busy, directory: SessionDirectory) -> None:
    busy.calls = -1000
    with pytest.raises(SessionUnavailable, match="try again later"):
        mcp_client.call(directory, "t", timeout=1.0)
    assert busy.calls > -1000 + 1


def test_a_session_without_a_server_is_unavailable(directory: SessionDirectory) -> None:
    with pytest.raises(SessionUnavailable, match="card-session reset s"):
        mcp_client.call(directory, "t")
