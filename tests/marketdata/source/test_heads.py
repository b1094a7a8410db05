"""Announcements of new blocks, from a scripted WebSocket server."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, Pong, RejectConnection, Request, TextMessage
from wsproto.utilities import LocalProtocolError

from marketdata.source.heads import Heads
from tests.functional.serving import until

BLOCK = json.dumps(
    {"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": "0x1", "result": {"number": "0x1b4"}}}
)
KEY = "a-very-secret-key"


class Node:
    """A node on a free port of this machine. ``status`` other than 101 refuses connections; ``answer`` is the answer to
    a subscription. ``asked`` are the requests and messages so far."""

    def __init__(self) -> None:
        self.status = 101
        self.answer: Any = {"jsonrpc": "2.0", "id": 1, "result": "0x1"}
        self.asked: list[Any] = []
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._current: tuple[socket.socket, WSConnection] | None = None
        self._thread = threading.Thread(target=self._serve, name="node", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):  # closed before
            self._listening.shutdown(socket.SHUT_RDWR)
        self.drop()
        self._thread.join(5)
        self._listening.close()

    def drop(self) -> None:
        if self._current is not None:
            with suppress(OSError):
                self._current[0].shutdown(socket.SHUT_RDWR)

    def send(self, event: Any) -> None:
        assert self._current is not None
        self.send_bytes(self._current[1].send(event))

    def send_bytes(self, data: bytes) -> None:
        assert self._current is not None
        self._current[0].sendall(data)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            protocol = WSConnection(ConnectionType.SERVER)
            with closing(connection), suppress(OSError, LocalProtocolError):
                self._current = (connection, protocol)
                while data := connection.recv(4096):
                    protocol.receive_data(data)
                    for event in protocol.events():
                        self._take(event)

    def _take(self, event: Any) -> None:
        self.asked.append(event)
        if isinstance(event, Request):
            refusal = RejectConnection(status_code=self.status)
            self.send(AcceptConnection() if self.status == 101 else refusal)
        elif isinstance(event, TextMessage):
            self.send(TextMessage(json.dumps(self.answer)))


@pytest.fixture
def node() -> Iterator[Node]:
    with closing(Node()) as found:
        yield found


class Woken:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def heads(node: Node, woken: Woken) -> Iterator[Heads]:
    found = Heads(f"ws://me:pass@127.0.0.1:{node.port}/v3/{KEY}?x=1", woken, min_pause=0.01)
    found.start()
    yield found
    assert found.stop(5)
    assert found.newest is None


def test_each_new_block_wakes_the_reader(node: Node, heads: Heads, woken: Woken) -> None:
    until(lambda: woken.times == 1)  # a block may have come before the subscription
    assert heads.newest is None
    request, subscription = node.asked
    assert request.target == f"/v3/{KEY}?x=1"
    assert (b"authorization", b"Basic bWU6cGFzcw==") in request.extra_headers
    assert json.loads(subscription.data)["params"] == ["newHeads"]
    for times in range(2, 5):
        node.send(TextMessage(BLOCK))
        until(lambda times=times: woken.times == times)
        assert heads.newest == 436
    node.send(TextMessage(BLOCK[:20], message_finished=False))
    node.send(TextMessage(BLOCK[20:]))
    until(lambda: woken.times == 5)
    node.send(Ping(b"?"))
    until(lambda: Pong(bytearray(b"?")) in node.asked)
    assert node.connections == 1


LOSSES: tuple[tuple[Callable[[Any], None], str], ...] = (
    (lambda node: node.drop(), ""),
    (lambda node: node.send(CloseConnection(1001)), "with code 1001"),
    (lambda node: node.send(TextMessage("{")), ""),
    (lambda node: node.send(TextMessage('{"error": {"code": -32601}}')), "refuses eth_subscribe"),
    (lambda node: node.send(TextMessage("[]")), "an unknown message"),
    (lambda node: node.send(TextMessage("[" * 100_000)), "recursion"),
    (lambda node: node.send(TextMessage(BLOCK.replace("0x1b4", "436"))), "is not a hexadecimal quantity"),
    (lambda node: node.send(TextMessage("x" * (2 << 20), message_finished=False)), "a message is too long"),
    (lambda node: node.send_bytes(b"\xff\xff\xff\xff"), ""),
)


def test_a_lost_connection_is_made_anew(
    node: Node, heads: Heads, woken: Woken, caplog: pytest.LogCaptureFixture
) -> None:
    until(lambda: woken.times == 1)
    for number, (lose, cause) in enumerate(LOSSES, start=1):
        caplog.clear()
        before = woken.times
        node.send(TextMessage(BLOCK))
        until(lambda before=before: woken.times == before + 1)
        assert heads.newest == 436
        lose(node)
        until(lambda number=number: node.connections == number + 1)
        until(lambda before=before: woken.times == before + 3)  # for the loss, and for the new subscription
        [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert line.startswith(f"127.0.0.1:{node.port} does not announce new blocks: ")
        assert cause in line
        assert KEY not in line


def test_silence_ends_the_connection_although_the_node_sends_pings(node: Node, woken: Woken) -> None:
    heads = Heads(f"ws://127.0.0.1:{node.port}", woken, silence_s=0.3, min_pause=0.01)
    heads.start()
    until(lambda: woken.times == 1)
    began = time.monotonic()
    node.send(TextMessage(BLOCK))  # the old deadline ends here

    def has_reconnected() -> bool:
        with suppress(OSError, LocalProtocolError):
            node.send(Ping(b""))
        return node.connections > 1

    until(has_reconnected)
    assert time.monotonic() - began >= 0.3
    assert heads.stop(5)


def test_pauses_between_refused_connections_grow(node: Node, woken: Woken, caplog: pytest.LogCaptureFixture) -> None:
    for number, node.status in enumerate((401, 503)):
        heads = Heads(f"ws://127.0.0.1:{node.port}/{KEY}", woken, min_pause=0.01)
        before, began = node.connections, time.monotonic()
        heads.start()
        until(lambda before=before: node.connections >= before + 5)
        assert time.monotonic() - began >= 0.01 + 0.02 + 0.04 + 0.08
        assert heads.newest is None
        assert heads.stop(5)
        line = caplog.messages[number]
        assert f"HTTP status {node.status}" in line
        assert KEY not in line
    assert len(caplog.messages) == 2
    assert woken.times == 0


def test_stop_ends_a_pause_and_needs_no_start(node: Node, woken: Woken, caplog: pytest.LogCaptureFixture) -> None:
    assert Heads(f"ws://127.0.0.1:{node.port}", woken).stop(1)
    node.close()
    heads = Heads(f"ws://127.0.0.1:{node.port}", woken, min_pause=60)
    heads.start()
    until(lambda: caplog.messages)
    assert heads.stop(30)
