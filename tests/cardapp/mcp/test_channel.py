from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from cardapp.mcp.channel import Channel, ChannelClosed

PATIENCE = 20.0
Ends = tuple[Channel, Callable[[int], bytes], Callable[[bytes], int]]


@pytest.fixture(params=["socket", "socket file", "pipes"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """A channel, and how the other side reads and writes."""
    if request.param == "pipes":
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        channel = Channel(os.fdopen(in_read, "rb", buffering=0), os.fdopen(out_write, "wb", buffering=0))
        yield channel, lambda size: os.read(out_read, size), lambda data: os.write(in_write, data)
        channel.close()
        os.close(in_write)
        os.close(out_read)
        return
    ours, theirs = socket.socketpair()
    channel = Channel(ours, ours if request.param == "socket" else ours.makefile("wb", buffering=0))
    yield channel, theirs.recv, theirs.send
    channel.close()
    ours.close()
    theirs.close()


def test_bytes_go_both_ways(ends: Ends) -> None:
    channel, read, write = ends
    write(b"hello")
    assert channel.receive() == b"hello"
    channel.send(b"world", PATIENCE)
    assert read(100) == b"world"


def test_much_is_sent_whole_while_the_peer_reads(ends: Ends, background: Callable[..., Future[Any]]) -> None:
    channel, read, _ = ends
    data = bytes(range(256)) * 8192
    sending = background(channel.send, data, PATIENCE)
    received = bytearray()
    while len(received) < len(data):
        received += read(65536)
    sending.result(PATIENCE)
    assert received == data


def test_many_senders_do_not_mix(ends: Ends, background: Callable[..., Future[Any]]) -> None:
    channel, read, _ = ends
    lines = [bytes([ord("a") + n]) * 20_000 + b"\n" for n in range(4)]
    sending = [background(channel.send, line, PATIENCE) for line in lines]
    received = bytearray()
    while len(received) < sum(map(len, lines)):
        received += read(65536)
    for each in sending:
        each.result(PATIENCE)
    assert sorted(received.splitlines(keepends=True)) == lines


def test_a_peer_that_does_not_read_ends_the_channel(ends: Ends) -> None:
    channel, _, _ = ends
    with pytest.raises(ChannelClosed, match="read"):
        channel.send(b"x" * 10_000_000, 0.1)
    assert channel.receive() == b""
    with pytest.raises(ChannelClosed):
        channel.send(b"x", PATIENCE)


def test_shut_wakes_who_receives_and_who_sends(ends: Ends, background: Callable[..., Future[Any]]) -> None:
    channel, _, _ = ends
    receiving = background(channel.receive)
    sending = background(channel.send, b"x" * 10_000_000, 10 * PATIENCE)
    second = background(channel.send, b"y", 10 * PATIENCE)
    threading.Event().wait(0.05)  # let them start to wait; they must be woken either way
    channel.shut()
    channel.shut()
    assert receiving.result(PATIENCE) == b""
    for each in (sending, second):
        with pytest.raises(ChannelClosed):
            each.result(PATIENCE)


def test_what_is_closed_sends_and_receives_nothing(ends: Ends) -> None:
    channel, _, _ = ends
    channel.close()
    channel.close()
    channel.shut()
    assert channel.receive() == b""
    with pytest.raises(ChannelClosed):
        channel.send(b"x", PATIENCE)


def test_the_end_of_the_peer_is_an_end_of_file() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, ours)
    theirs.sendall(b"last")
    theirs.close()
    assert channel.receive() == b"last"
    assert channel.receive() == b""
    with pytest.raises(ChannelClosed, match="gone"):
        channel.send(b"x", PATIENCE)
    channel.close()
