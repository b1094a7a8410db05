from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from cardapp.mcp.transport import Transport, TransportClosed
from tests.cardapp.mcp.conftest import PATIENCE

Ends = tuple[Transport, Callable[[int], bytes], Callable[[bytes], int]]


@pytest.fixture(params=["socket", "pipes"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """A transport, and functions that read and write at the other end."""
    if request.param == "pipes":
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        transport = Transport(os.fdopen(in_read, "rb", buffering=0), os.fdopen(out_write, "wb", buffering=0))
        yield transport, lambda size: os.read(out_read, size), lambda data: os.write(in_write, data)
        transport.close()
        os.close(in_write)
        os.close(out_read)
        return
    ours, theirs = socket.socketpair()
    # The writer of a socket may also be a file object on it.
    transport = Transport(ours, ours.makefile("wb", buffering=0))
    yield transport, theirs.recv, theirs.send
    transport.close()
    ours.close()
    theirs.close()


def test_bytes_go_both_ways_and_messages_of_many_senders_are_not_mixed(
    ends: Ends, background: Callable[..., Future[Any]]
) -> None:
    transport, read, write = ends
    write(b"hello")
    assert transport.receive() == b"hello"
    lines = [bytes([ord("a") + n]) * 500_000 + b"\n" for n in range(4)]
    sending = [background(transport.send, line, PATIENCE) for line in lines]
    received = bytearray()
    while len(received) < sum(map(len, lines)):
        received += read(65536)
    for each in sending:
        each.result(PATIENCE)
    assert sorted(received.splitlines(keepends=True)) == lines


def test_a_peer_that_does_not_read_ends_the_transport(ends: Ends) -> None:
    transport, _, _ = ends
    with pytest.raises(TransportClosed, match="read"):
        transport.send(b"x" * 10_000_000, 0.1)
    assert transport.receive() == b""
    with pytest.raises(TransportClosed):
        transport.send(b"x", PATIENCE)


def test_shut_wakes_receivers_and_senders(ends: Ends, background: Callable[..., Future[Any]]) -> None:
    transport, read, _ = ends
    receiving = background(transport.receive)
    sending = background(transport.send, b"x" * 10_000_000, 10 * PATIENCE)
    assert read(1) == b"x"
    second = background(transport.send, b"y", 10 * PATIENCE)
    transport.shut()
    transport.shut()
    assert receiving.result(PATIENCE) == b""
    for each in (sending, second):
        with pytest.raises(TransportClosed):
            each.result(PATIENCE)


def test_receive_returns_nothing_when_the_peer_has_ended() -> None:
    ours, theirs = socket.socketpair()
    transport = Transport(ours, ours)
    theirs.sendall(b"last")
    theirs.close()
    assert transport.receive() == b"last"
    assert transport.receive() == b""
    with pytest.raises(TransportClosed, match="gone"):
        transport.send(b"x", PATIENCE)
    transport.close()
