from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import McpClosed
from cardapp.mcp.client import McpClient
from cardapp.mcp.server import CallContext, McpServer, Tool, UnixListener
from tests.cardapp.mcp.conftest import PATIENCE
from tests.cardapp.mcp.example_server import example_server
from tests.functional.session_process import eventually

ANY = {"type": "object"}


def mcp_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mcp-")]


@pytest.fixture
def path(state_dir: Path) -> Path:
    return state_dir / "mcp.sock"


@pytest.fixture
def listen(path: Path) -> Iterator[Callable[..., UnixListener]]:
    """``listen(server, …)`` listens at ``path``. At the end no thread of the package may be left."""
    started: list[UnixListener] = []

    def start(server: McpServer | None = None, **options: Any) -> UnixListener:
        started.append(UnixListener(path, server or example_server(), **options))
        started[-1].start()
        return started[-1]

    yield start
    for listener in started:
        listener.stop(PATIENCE)
    assert mcp_threads() == []


def connect(path: Path) -> McpClient:
    return McpClient.connect(path, timeout=PATIENCE)


def add(client: McpClient, a: int, b: int) -> Any:
    return client.call_tool("add", {"a": a, "b": b}, timeout=PATIENCE, maximum=PATIENCE).structured


def test_the_socket_is_private_and_removed_at_the_stop(path: Path, listen: Callable[..., UnixListener]) -> None:
    previous = os.umask(0)
    try:
        listener = listen()
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    listener.stop(PATIENCE)
    listener.stop(PATIENCE)
    assert not path.exists()


def test_many_peers_are_served_at_once(path: Path, listen: Callable[..., UnixListener], background: Any) -> None:
    listen()
    clients = [connect(path) for _ in range(5)]
    sums: list[Future[Any]] = [background(add, client, n, n) for n, client in enumerate(clients)]
    assert [each.result(PATIENCE) for each in sums] == [{"sum": 2 * n} for n in range(5)]
    for client in clients:
        client.close()


def test_a_connection_above_the_limit_is_closed(path: Path, listen: Callable[..., UnixListener]) -> None:
    listen(max_connections=1)
    first = connect(path)
    with pytest.raises(McpClosed):
        connect(path)
    assert add(first, 1, 1) == {"sum": 2}
    first.close()


def test_a_stop_disconnects_cancels_calls_and_leaves_no_thread(
    path: Path, listen: Callable[..., UnixListener], background: Any
) -> None:
    begun = threading.Event()

    def handler(_arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        begun.set()
        assert context.cancelled.wait(PATIENCE)
        return {}

    listener = listen(McpServer("h", "1", [Tool("h", "H", "", ANY, ANY, handler)]))
    client, idle = connect(path), connect(path)
    running = background(client.call_tool, "h", {}, timeout=PATIENCE, maximum=PATIENCE)
    assert begun.wait(PATIENCE)
    listener.stop(PATIENCE)
    assert "mcp-listener" not in mcp_threads()
    assert "mcp-peer" not in mcp_threads()
    with pytest.raises(McpClosed):
        running.result(PATIENCE)
    assert idle.closed.wait(PATIENCE)
    client.close()
    idle.close()


def test_a_peer_that_does_not_read_blocks_neither_others_nor_the_stop(
    path: Path, listen: Callable[..., UnixListener]
) -> None:
    listener = listen()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(path))
        deaf.setblocking(False)
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 1000
        stuffed = 0
        try:
            while stuffed < 50_000_000:
                stuffed += deaf.send(ping)
        except BlockingIOError:
            pass
        assert stuffed < 50_000_000, "the server must have stopped reading by now"
        client = connect(path)
        assert add(client, 1, 1) == {"sum": 2}
        client.close()
        listener.stop(PATIENCE)
        assert mcp_threads() == []


def test_the_threads_and_descriptors_of_a_peer_end_with_it(path: Path, listen: Callable[..., UnixListener]) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    listener = listen()
    listening = opened()
    for _ in range(5):
        client = connect(path)
        assert add(client, 1, 1) == {"sum": 2}
        client.close()
        eventually(lambda: mcp_threads() == ["mcp-listener"])
        assert opened() == listening
    listener.stop(PATIENCE)
    assert opened() == before
