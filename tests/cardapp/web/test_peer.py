"""The owner of a connection: by netlink and by the tables of /proc, for every state of the client's socket."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from cardapp.errors import MissingRequirement
from cardapp.web.failures import InternalError
from cardapp.web.peer import (
    Address,
    Lookup,
    Netlink,
    OwnerOnly,
    query,
    uid_in_answer,
    uid_in_rows,
    uid_in_tables,
)
from tests.capabilities import need
from tests.functional.listening import IPV6, has_ipv6
from tests.functional.serving import until

ROW = "  22: 0100007F:1F90 0100007F:C350 {state} 00000000:00000000 00:00000000 00000000  {uid}   0 {inode} 1 0 20 4\n"


@pytest.fixture
def lookups() -> Iterator[dict[str, Lookup]]:
    """Both ways to find the owner of a connection."""
    netlink = Netlink()
    yield {"sock_diag": netlink.uid, "proc": uid_in_tables}
    netlink.close()


@contextmanager
def pair(host: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's and the server's end of a connection to ``host``, which may be an IPv4 address in IPv6 form."""
    mapped = host.startswith("::ffff")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.create_server(("127.0.0.1" if mapped else host, 0), family=socket.AF_INET if mapped else family)
    with server, socket.socket(family) as client:
        client.connect((host, server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            yield client, accepted


def ends(accepted: socket.socket) -> tuple[Address, Address]:
    return accepted.getpeername()[:2], accepted.getsockname()[:2]


@pytest.fixture(params=["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def host(request: pytest.FixtureRequest) -> str:
    need(request.param != "::1" or has_ipv6(), IPV6)
    return str(request.param)


def test_a_connection_has_the_owner_of_its_socket_while_it_is_open(host: str, lookups: dict[str, Lookup]) -> None:
    for name, lookup in lookups.items():
        with pair(host) as (client, accepted):
            addresses = ends(accepted)
            assert [lookup(*addresses) for _ in range(3)] == [os.geteuid()] * 3, name
            if os.geteuid() == 0:  # only root can give a socket to another account
                os.fchown(client.fileno(), 65534, -1)
                assert lookup(*addresses) == 65534, name
            client.shutdown(socket.SHUT_WR)
            assert lookup(*addresses) is None, "half closed"
            client.close()
            assert lookup(*addresses) is None, "closed: the kernel says uid 0"
            accepted.close()
            assert lookup(*addresses) is None, "no row at all"


def test_an_address_that_only_listens_is_no_client(lookups: dict[str, Lookup]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for lookup in lookups.values():
            assert lookup(server.getsockname(), ("127.0.0.1", 1)) is None


def test_a_late_answer_is_not_taken_for_the_next() -> None:
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 4)
    netlink = Netlink(kernel)
    with pair("127.0.0.1") as (_, accepted):
        kernel.send(query(("127.0.0.1", 9), ("127.0.0.1", 9), 77))
        assert netlink.uid(*ends(accepted)) == os.geteuid()
    netlink.close()


def silent_netlink() -> Netlink:
    """The other end of its socket is closed, so nothing answers."""
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    other.close()
    return Netlink(ours)


def no_netlink() -> Netlink:
    raise PermissionError("netlink is not allowed here")


def test_the_tables_replace_netlink_where_it_finds_nothing() -> None:
    for netlink in (silent_netlink, no_netlink):
        owner_only = OwnerOnly(netlink)
        with pair("127.0.0.1") as (client, accepted):
            assert owner_only.refusal(accepted, accepted.getpeername()) is None
            client.shutdown(socket.SHUT_WR)
            refused = owner_only.refusal(accepted, accepted.getpeername())
            assert refused is not None
            assert "could not be determined" in refused().detail
        owner_only.close()
        with pytest.raises(MissingRequirement, match="CARD_API_PEERS=any"):
            OwnerOnly(netlink, lambda _client, _server: None)


def test_a_lookup_that_fails_admits_nobody() -> None:
    trial: list[Address] = []

    def broken(client: Address, _server: Address) -> int:
        if trial:
            raise RuntimeError("a defect")
        trial.append(client)
        return os.geteuid()

    owner_only = OwnerOnly(no_netlink, broken)
    with pair("127.0.0.1") as (_, accepted):
        refused = owner_only.refusal(accepted, accepted.getpeername())
    assert refused is not None
    assert isinstance(refused(), InternalError)


def test_only_a_held_established_socket_counts() -> None:
    for state, uid, inode, expected in (
        (1, 1000, 5, 1000), (1, 0, 5, 0), (1, 0, 0, None), (4, 1000, 5, None), (5, 0, 0, None), (10, 0, 5, None)
    ):  # fmt: skip
        answer = bytearray(88)
        answer[17] = state
        struct.pack_into("=II", answer, 80, uid, inode)
        assert uid_in_answer(bytes(answer)) == expected
        row = ROW.format(state=f"{state:02X}", uid=uid, inode=inode)
        assert uid_in_rows(["  sl  local_address ...\n", row], "0100007F:1F90", "0100007F:C350") == expected
        assert uid_in_rows([row], "0100007F:C350", "0100007F:1F90") is None


def take_over(server: socket.socket, second: socket.socket) -> bool:
    """Connect, reset the connection, and bind ``second`` to its port. The kernel frees the port a moment later, and
    another process may take it first."""
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.connect(server.getsockname())
        port = first.getsockname()[1]
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        second.bind(("127.0.0.1", port))
        return True
    server.accept()[0].close()
    return False


def test_a_port_that_a_reset_connection_left_to_another_one_admits_nobody() -> None:
    """The lookup finds the later connection from the same port, not the one that was accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as second:
        second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        until(lambda: take_over(server, second), 30)
        second.connect(server.getsockname())
        accepted, address = server.accept()
        owner_only, netlink = OwnerOnly(), Netlink()
        with accepted:
            assert netlink.uid(address, accepted.getsockname()) == os.geteuid()
            refused = owner_only.refusal(accepted, address)
        owner_only.close()
        netlink.close()
    assert refused is not None
    assert "closed its side" in refused().detail
