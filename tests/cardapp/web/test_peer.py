"""The owner of a connection: by netlink and by the tables of /proc, for every state of the client's socket."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from cardapp.web import peer
from cardapp.web.peer import Lookup, Netlink, OwnerOnly, account, query, uid_in_answer, uid_in_rows, uid_in_tables

ROW = "  22: 0100007F:1F90 0100007F:C350 {state} 00000000:00000000 00:00000000 00000000  {uid}   0 {inode} 1 0 20 4\n"


@pytest.fixture(params=["sock_diag", "proc"])
def lookup(request: pytest.FixtureRequest) -> Iterator[Lookup]:
    if request.param == "proc":
        yield uid_in_tables
        return
    netlink = Netlink()
    yield netlink.uid
    netlink.close()


@pytest.fixture(params=["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's and the server's end of a connection; the last of the three is IPv6 to an IPv4 address."""
    mapped = request.param.startswith("::ffff")
    try:
        server = socket.create_server(
            ("127.0.0.1" if mapped else request.param, 0),
            family=socket.AF_INET if mapped or "." in request.param else socket.AF_INET6,
        )
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")
    with server, socket.socket(socket.AF_INET6 if ":" in request.param else socket.AF_INET) as client:
        client.connect((request.param, server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            yield client, accepted


def looked_up(lookup: Lookup, accepted: socket.socket) -> int | None:
    return lookup(accepted.getpeername()[:2], accepted.getsockname()[:2])


def test_an_open_connection_has_its_owner(lookup: Lookup, pair: tuple[socket.socket, socket.socket]) -> None:
    for _ in range(3):
        assert looked_up(lookup, pair[1]) == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket to another account")
def test_the_owner_is_that_of_the_socket(lookup: Lookup, pair: tuple[socket.socket, socket.socket]) -> None:
    os.fchown(pair[0].fileno(), 65534, -1)
    assert looked_up(lookup, pair[1]) == 65534


def test_a_client_that_left_has_no_owner(lookup: Lookup, pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    addresses = accepted.getpeername()[:2], accepted.getsockname()[:2]
    client.shutdown(socket.SHUT_WR)
    assert lookup(*addresses) is None, "half closed"
    client.close()
    assert lookup(*addresses) is None, "closed: the kernel says uid 0"
    accepted.close()
    assert lookup(*addresses) is None, "no row at all"


def test_an_address_that_only_listens_is_no_client(lookup: Lookup) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert lookup(server.getsockname(), ("127.0.0.1", 1)) is None


def test_a_late_answer_is_not_taken_for_the_next(pair: tuple[socket.socket, socket.socket]) -> None:
    netlink = Netlink()
    addresses = pair[1].getpeername()[:2], pair[1].getsockname()[:2]
    netlink._socket.send(query(("127.0.0.1", 9), ("127.0.0.1", 9), 77))
    assert netlink.uid(*addresses) == os.geteuid()
    netlink.close()


def test_a_lookup_without_an_answer_does_not_wait() -> None:
    netlink = Netlink()
    netlink._socket.close()
    netlink._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    netlink._socket.setblocking(False)
    with other:
        assert netlink.uid(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    netlink.close()


def test_the_query_is_laid_out_as_the_kernel_reads_it() -> None:
    message = query(("127.0.0.1", 0x1234), ("127.0.0.1", 0x5678), 9)
    assert len(message) == struct.unpack_from("=I", message)[0] == 72
    assert message[16:24] == struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    assert message[24:28] == b"\x12\x34\x56\x78"
    assert message[28:44] == message[44:60] == b"\x7f\0\0\1".ljust(16, b"\0")
    assert message[60:] == b"\0\0\0\0" + b"\xff" * 8


@pytest.mark.parametrize(
    ("state", "uid", "inode", "expected"),
    [(1, 1000, 5, 1000), (1, 0, 5, 0), (1, 0, 0, None), (4, 1000, 5, None), (5, 0, 0, None), (10, 0, 5, None)],
)
def test_only_a_held_established_socket_counts(state: int, uid: int, inode: int, expected: int | None) -> None:
    answer = bytearray(88)
    answer[17] = state
    struct.pack_into("=II", answer, 80, uid, inode)
    assert uid_in_answer(bytes(answer)) == expected
    row = ROW.format(state=f"{state:02X}", uid=uid, inode=inode)
    assert uid_in_rows(["  sl  local_address ...\n", row], "0100007F:1F90", "0100007F:C350") == expected
    assert uid_in_rows([row], "0100007F:C350", "0100007F:1F90") is None


def test_accounts_are_named() -> None:
    assert account(0) == "root (uid 0)"
    assert account(4_000_000_000) == "uid 4000000000"


def test_the_tables_replace_netlink_where_it_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without the module for sock_diag answers each query as for a connection that does not exist."""
    monkeypatch.setattr(peer, "uid_in_answer", lambda _answer: None)
    owner_only = peer.OwnerOnly()
    assert owner_only._lookup is uid_in_tables
    owner_only.close()


def bind_when_free(client: socket.socket, port: int) -> None:
    """The kernel frees the port of a reset connection a moment later."""
    for _ in range(200):
        try:
            client.bind(("127.0.0.1", port))
            return
        except OSError:
            threading.Event().wait(0.01)
    pytest.fail("the port was not freed")


def test_a_port_that_a_reset_connection_left_to_another_one_admits_nobody() -> None:
    """The lookup finds the later connection from the same port, not the one that was accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as first, socket.socket() as second:
        for client in (first, second):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.connect(server.getsockname())
        port = first.getsockname()[1]
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()
        bind_when_free(second, port)
        second.connect(server.getsockname())
        accepted, address = server.accept()
        owner_only = OwnerOnly()
        with accepted:
            assert owner_only._lookup(address, accepted.getsockname()) == os.geteuid()
            refused = owner_only.refusal(accepted, address)
        owner_only.close()
    assert refused is not None
    assert "closed its side" in refused().detail
