"""The client of the channel to gdb, against peers that refuse, hang up or stay silent."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardapp.errors import TooSlow
from cardapp.session_host.gdb_client import Cancelled, ChannelError, DebuggerGone, GdbChannel

Serve = Callable[[Callable[[socket.socket], None]], GdbChannel]


@pytest.fixture
def serve(state_dir: Path) -> Iterator[Serve]:
    """Makes a channel to a peer. The given function handles each connection of the peer."""
    path = state_dir / "gdb.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def peer(handle: Callable[[socket.socket], None]) -> GdbChannel:
            def run() -> None:
                connection, _ = listener.accept()
                with connection:
                    handle(connection)

            threading.Thread(target=run, daemon=True).start()
            return GdbChannel(path)

        yield peer


def answer(text: bytes) -> Callable[[socket.socket], None]:
    def handle(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(text)

    return handle


def until_closed(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def test_a_request_returns_the_reply_of_gdb(serve: Serve) -> None:
    heard: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        heard.append(connection.recv(4096))
        connection.sendall(b'{"ok": [1, ')
        connection.sendall(b"2]}\n")

    assert serve(handle).call("read", timeout=30, what=3) == [1, 2]
    assert json.loads(heard[0]) == {"do": "read", "with": {"what": 3}}


def test_a_refusal_keeps_its_code_and_data(serve: Serve) -> None:
    channel = serve(answer(b'{"error": "target_exited", "reason": "it ended", "exit_code": 3}\n'))
    with pytest.raises(ChannelError, match="it ended") as refused:
        channel.call("run", timeout=30)
    assert (refused.value.code, refused.value.extra) == ("target_exited", {"exit_code": 3})


def test_a_socket_without_a_debugger_is_debugger_gone(tmp_path: Path) -> None:
    with pytest.raises(DebuggerGone):
        GdbChannel(tmp_path / "none.sock").call("ping", timeout=1)
    assert not GdbChannel(tmp_path / "none.sock").alive()
    assert GdbChannel(tmp_path / "none.sock").condition()


def test_a_peer_that_hangs_up_is_debugger_gone_and_a_silent_one_too_slow(serve: Serve) -> None:
    for text in (b"", b'{"ok": 1'):
        with pytest.raises(DebuggerGone, match="ended during"):
            serve(answer(text)).call("ping", timeout=30)
    with pytest.raises(TooSlow):
        serve(until_closed).call("ping", timeout=0.1)


def test_a_cancelled_wait_raises_cancelled(serve: Serve) -> None:
    cancel = threading.Event()
    with serve(until_closed).begin("run") as pending:
        threading.Timer(0.1, cancel.set).start()
        with pytest.raises(Cancelled):
            pending.result(60, cancel)
