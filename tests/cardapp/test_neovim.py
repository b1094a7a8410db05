"""The connection to Neovim, tested with peers that are silent or send invalid data."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from cardapp.errors import EditorUnavailable, TooSlow
from cardapp.neovim import NeovimConnection
from tests.functional.serving import until

API_INFO = [1, {"types": {name: {"id": number} for number, name in enumerate(("Buffer", "Window", "Tabpage"))}}]


@contextlib.contextmanager
def peer(path: Path, behaviour: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one connection with ``behaviour`` in a thread."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            accepted, _ = listener.accept()
            with accepted:
                behaviour(accepted)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, name="peer")
        thread.start()
        yield str(path)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        assert not thread.is_alive()


def requests(connection: socket.socket) -> Iterator[list[Any]]:
    unpacker = msgpack.Unpacker()
    while data := connection.recv(4096):
        unpacker.feed(data)
        yield from (message for message in unpacker if message[0] == 0)


def attached(reply: Callable[[int, str], bytes | None]) -> Callable[[socket.socket], None]:
    """Answer the first request as Neovim does, and later ones with ``reply(number, method)``; None disconnects."""

    def behaviour(connection: socket.socket) -> None:
        for _, number, method, _arguments in requests(connection):
            name = method.decode() if isinstance(method, bytes) else method
            answer = result(number, API_INFO) if name == "nvim_get_api_info" else reply(number, name)
            if answer is None:
                return
            connection.sendall(answer)

    return behaviour


def result(number: int, value: object) -> bytes:
    return bytes(msgpack.packb([1, number, None, value]))


def silent(connection: socket.socket) -> None:
    for _ in requests(connection):
        pass


def saying(greeting: bytes) -> Callable[[socket.socket], None]:
    def behaviour(connection: socket.socket) -> None:
        connection.sendall(greeting)
        silent(connection)

    return behaviour


def test_a_call_to_a_silent_peer_times_out_and_the_connection_can_be_closed(state_dir: Path) -> None:
    with peer(state_dir / "p", silent) as path:
        connection = NeovimConnection(path)
        with pytest.raises(TooSlow, match="busy"):
            connection.call("nvim_eval", "1", timeout=0.1)
        connection.close()
        assert connection.ended.is_set()


def test_a_peer_with_another_attach_reply_is_not_neovim(state_dir: Path) -> None:
    for name, greeting in (("bytes", b"\xc1" * 9), ("number", result(1, 7)), ("empty", result(1, [1, {}]))):
        with peer(state_dir / name, saying(greeting)) as path:
            connection = NeovimConnection(path)
            with pytest.raises(EditorUnavailable, match="is not Neovim"):
                connection.call("nvim_eval", "1", timeout=10)
            connection.close()


def test_an_end_and_garbage_after_the_attachment_end_the_connection(state_dir: Path) -> None:
    for name, reply, said in (("end", None, "Neovim ended"), ("garbage", b"\xc1" * 9, "is not Neovim")):
        with peer(state_dir / name, attached(lambda _number, _method, reply=reply: reply)) as path:
            connection = NeovimConnection(path)
            with pytest.raises(EditorUnavailable, match=said):
                connection.call("nvim_eval", "1", timeout=10)
            assert connection.ended.wait(10)
            connection.close()


def test_a_slow_request_for_the_mode_is_sent_once_and_the_mildest_remedy_is_named_first(state_dir: Path) -> None:
    asked: list[str] = []

    def note(number: int, method: str) -> bytes:
        asked.append(method)
        return b""

    with peer(state_dir / "p", attached(note)) as path:
        connection = NeovimConnection(path)

        def has_asked() -> list[str]:
            with pytest.raises(TooSlow, match=r"; try again.*<C-c>.*card-session reset`$"):
                connection.mode(0.1)
            return asked

        until(has_asked, 30)
        assert [has_asked() for _ in range(2)] == [["nvim_get_mode"]] * 2
        connection.close()
