"""Clients that hold connections, send or read slowly, close one side, or never read.

Other clients are served on both transports, and no threads or descriptors remain.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.web.waitress_adapter import Limits
from tests.functional.listening import WAIT, Served, answer, counts, ended, serve
from tests.functional.serving import Api, make_card, until
from tests.functional.test_crash import Server

__all__ = ["serve"]
pytestmark = pytest.mark.functional

PIECE = b"x" * 1_000_000


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Serves a quick page, a large response, and an endless one, behind the real gate."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    path = environ["PATH_INFO"]
    if path == "/endless":
        return endless()
    return [PIECE] * 8 if path == "/large" else [b"here"]


def endless() -> Iterator[bytes]:
    while True:
        yield PIECE


def assert_serves(served: Served) -> None:
    """A new client is served on both transports."""
    for transport in ("tcp", "unix"):
        assert served.status("GET / HTTP/1.1", "Connection: close", transport=transport) == 200


def test_a_thousand_open_connections_refuse_no_client(serve: Callable[..., Served]) -> None:
    served = serve(app)
    before = counts()
    held = [served.connect() for _ in range(1000)]
    for client in held[1::2]:
        client.sendall(b"GET / HTTP/1.1\r\nHo")
    assert_serves(served)
    held[0].sendall(served.head("GET / HTTP/1.1"))
    assert answer(held[0])[0] == 200, "a client that only waited is served too"
    served.leave()
    until(lambda: counts() <= before, WAIT)


def test_above_the_limit_the_longest_idle_connection_is_closed(serve: Callable[..., Served]) -> None:
    served = serve(app, connections=50, unread_bytes=1 << 24)
    first = served.connect()
    busy = served.send("GET /endless HTTP/1.1", transport="unix")
    assert busy.recv(10)
    held = [served.connect() for _ in range(100)]
    assert_serves(served)
    assert ended(first)
    assert busy.recv(10), "a connection with a running request is kept"
    held[-1].sendall(served.head("GET / HTTP/1.1"))
    assert answer(held[-1])[0] == 200


def test_a_low_descriptor_limit_refuses_no_client(card_environment: dict[str, str], state_dir: Path) -> None:
    """There are more connections than the hard limit allows. The service itself raises the soft limit to the hard
    limit."""
    limited = ["sh", "-c", 'ulimit -n 600 && ulimit -S -n 300 && exec "$@"', "sh"]
    own = {"CARD_SOURCE": str(make_card(state_dir / "card")), "CARD_STATE_DIR": str(state_dir / "state")}
    with (state_dir / "log").open("w") as log:
        server = Server(card_environment | own, inside=limited, log=log)
    port = int(server.address.rpartition(":")[2])
    try:
        with contextlib.ExitStack() as held:
            for _ in range(1000):
                held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WAIT))
            for path in ("/api/state", "/api/events", "/api/identity"):
                assert Api.tcp(port).request("GET", path).status == 200
            assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 450
    finally:
        server.kill()
    assert [line for line in (state_dir / "log").read_text().splitlines() if "started as root" not in line] == []


def test_clients_that_never_read_free_their_workers(serve: Callable[..., Served]) -> None:
    served = serve(app, workers=4, unread_bytes=1 << 20, idle=0.5)
    before = counts()
    for number in range(12):
        served.send("GET /endless HTTP/1.1", transport=("tcp", "unix")[number % 2])
    assert_serves(served)
    served.leave()
    until(lambda: counts() <= before, WAIT)


def test_a_large_response_that_is_not_read_occupies_no_worker(serve: Callable[..., Served]) -> None:
    served = serve(app, workers=4)
    slow = [served.send("GET /large HTTP/1.1") for _ in range(8)]
    assert_serves(served)
    assert len(answer(slow[0])[2]) == 8 * len(PIECE), "a client that reads later gets all of it"


def test_clients_that_do_not_read_leave_half_of_the_workers_free() -> None:
    assert Limits().total_unread_bytes <= Limits().unread_bytes * Limits().workers // 2


def test_above_the_total_of_unread_bytes_the_largest_responses_are_cut(serve: Callable[..., Served]) -> None:
    served = serve(app, workers=4, unread_bytes=1 << 40, total_unread_bytes=64 * len(PIECE))
    slow = served.send("GET /large HTTP/1.1")
    assert slow.recv(10)
    before = counts()[0]
    endless = [served.send("GET /endless HTTP/1.1") for _ in range(8)]
    assert_serves(served)  # no worker is left with a client that does not read
    # The clients' ends remain, and perhaps a file of the slow client's response. Each open connection has a file, too.
    until(lambda: counts()[0] <= before + 8 + 1, WAIT)
    assert all(ended(client) for client in endless)
    size = 10
    while size < 8 * len(PIECE) and (data := slow.recv(1 << 20)):
        size += len(data)
    assert size >= 8 * len(PIECE), "the smaller response is kept"


def test_half_closed_and_reset_connections_are_released(serve: Callable[..., Served]) -> None:
    served = serve(app)
    before = counts()
    for transport in ("tcp", "unix"):
        for data in (b"", b"GET / HT", served.head("POST / HTTP/1.1", "Content-Length: 9") + b"{"):
            half, reset = served.connect(transport), served.connect(transport)
            for client in (half, reset):
                client.sendall(data)
            half.shutdown(socket.SHUT_WR)
            assert ended(half)
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reset.close()
        asked = served.send("GET / HTTP/1.1", transport=transport)
        assert answer(asked)[0] == 200, "the connection must be accepted before it is half closed"
        asked.sendall(served.head("GET / HTTP/1.1"))
        asked.shutdown(socket.SHUT_WR)
        assert answer(asked)[0] == 200
    assert_serves(served)
    served.leave()
    until(lambda: counts() <= before, WAIT)


SOUND = [
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n0\r\n\r\n",
    b"GET http://localhost/%ff?a=%00 HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nCookie: a=b\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]
EDITS = st.tuples(st.sampled_from(SOUND), st.integers(0, 150), st.integers(0, 20), st.binary(max_size=12))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EDITS, min_size=1, max_size=2), st.sampled_from(["tcp", "unix"]))
def test_random_bytes_are_answered_or_the_connection_ends(
    drawn_served: Served, drawn: list[tuple[bytes, int, int, bytes]], transport: str
) -> None:
    own = f"localhost:{drawn_served.listener.port}".encode()
    with drawn_served.connect(transport) as client:
        with contextlib.suppress(OSError):  # the server may close the connection before it has read everything
            for request, place, length, inserted in drawn:
                sent = request.replace(b"Host: localhost", b"Host: " + own)
                client.sendall(sent[:place] + inserted + sent[place + length :])
            client.shutdown(socket.SHUT_WR)
        answered = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while data := client.recv(65536):
                answered += data
    found = {int(code) for code in re.findall(rb"(?m)^HTTP/1\.[01] ([0-9]+) ", answered)}
    assert found <= {100, 200, 400, 403, 404, 413, 415, 421, 422, 431, 501}


@pytest.fixture
def drawn_served(serve: Callable[..., Served]) -> Iterator[Served]:
    """A listener that still serves when all examples are drawn."""
    served = serve(app)
    yield served
    assert_serves(served)
