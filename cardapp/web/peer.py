"""Identifies the client of a connection: its account over TCP, its container over the Unix socket.

Both ends of a TCP connection are on this machine, so the kernel knows who owns the client's socket. Netlink
(sock_diag(7), ``struct inet_diag_req_v2``) returns the owner within microseconds. Where it is not available, the owner
is read from ``/proc/net/tcp`` and ``/proc/net/tcp6`` (proc(5)), which takes milliseconds.

The owner is valid only if the connection is established and a process still holds the client's socket. For a socket
that its process has closed, the kernel reports uid 0 and inode 0. Without this check, a client that sends, closes and
is accepted later would be taken for root.

The Unix socket is mounted in every container for the editor, so a card's program can use it too. The API types into the
editor of the chosen session, which may run commands on this machine. So a request from a container is refused unless
the container's session is the chosen one.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import pwd
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

from cardapp import procfs, unix_socket
from cardapp.errors import CardAppError, MissingRequirement
from cardapp.web.failures import ForeignSession, ForeignUser, InternalError, reporting
from cardapp.web.http import StartResponse, WsgiApp

MakeError = Callable[[], CardAppError]
"""Makes an error. It is called later, in a thread that may wait, because the error names an account, and the look-up of
an account's name may use the network."""
Address = tuple[str, int]
Admit = Callable[[socket.socket, Any], MakeError | None]
"""Takes a connection and its client's address. If all requests of the connection must be refused, returns the function
that makes the error; otherwise None."""
Lookup = Callable[[Address, Address], int | None]
"""Takes the client's and the server's address. Returns the uid of the client's socket; None if it is not known."""

ROOT_UID = 0

PEER = "cardapp.pid_space"
"""The key in the WSGI environment under which the result of :func:`pid_space_of` is stored."""
_ENDED = "ended"

_ESTABLISHED = 1
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NO_COOKIE = 0xFFFFFFFF
_ALL_STATES = 0xFFFFFFFF
_MESSAGE_HEADER = struct.Struct("=IHHII")
"""Length, type, flags, sequence number, port."""
_QUERY = struct.Struct("=BBBBI")
"""Family, protocol, extensions, padding, states."""
_STATE_AT = 17
_OWNER_AT = 16 + 4 + 48 + 12
"""Offset of uid and inode: after the message's header, four bytes, the socket's identity, and timers and queues."""

_TABLES = {4: ("/proc/net/tcp", "/proc/net/tcp6"), 6: ("/proc/net/tcp6",)}
"""The tables to search, by the IP version of the client's address. An IPv6 socket that is connected to an IPv4 address
is in the IPv6 table."""


_log = logging.getLogger(__name__)


class OwnerOnly:
    """Refuses connections of all accounts except the service's account and root. Call ``close`` at the end."""

    def __init__(self, netlink: Callable[[], Netlink] | None = None, tables: Lookup | None = None) -> None:
        """``netlink`` and ``tables`` are the ways to find an owner, in the order of preference.

        :raises MissingRequirement: the owner of a connection cannot be found on this machine.
        """
        self._uid = os.geteuid()
        self._account = account(self._uid)
        self._netlink: Netlink | None = None
        self._lookup = self._available(netlink or Netlink, tables or uid_in_tables)

    def refusal(self, accepted: socket.socket, client: Any) -> MakeError | None:
        """Returns the function that makes the error if the connection is refused; None if it is admitted. Raises no
        exception."""
        try:
            uid = self._lookup(client[:2], accepted.getsockname()[:2])
            if uid not in (ROOT_UID, self._uid):
                return lambda: self._foreign(uid)
            # If the client has reset this connection, the found owner may belong to a later client on the same port.
            return None if is_established(accepted) else closed_by_client
        except Exception:
            _log.exception("internal error: the account of a connection could not be looked up")
            return lambda: InternalError("the account of this connection could not be looked up: see the service's log")

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()

    def _available(self, netlink: Callable[[], Netlink], tables: Lookup) -> Lookup:
        with suppress(OSError):
            self._netlink = netlink()
            if _works(self._netlink.uid, self._uid):
                return self._netlink.uid
        self.close()
        if _works(tables, self._uid):
            return tables
        raise MissingRequirement(
            "the account of a connection can be found neither by sock_diag(7) nor in /proc/net/tcp: set "
            "CARD_API_PEERS=any to admit every account of this machine"
        )

    def _foreign(self, uid: int | None) -> ForeignUser:
        if uid is None:
            return closed_by_client()
        return ForeignUser(
            f"this connection comes from {account(uid)}; the service runs as {self._account} and admits only that "
            "account and root: run the client as one of them, or start the service with CARD_API_PEERS=any to admit "
            "every account of this machine"
        )


def anybody(_accepted: socket.socket, _client: Any) -> None:
    """Admits every connection."""


def account(uid: int) -> str:
    """An account as messages name it: ``alice (uid 1000)``."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def is_established(accepted: socket.socket) -> bool:
    """Whether both sides of the connection are open (tcp(7), ``TCP_INFO``, whose first byte is the state)."""
    return accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED


def closed_by_client() -> ForeignUser:
    """The error for a connection whose account cannot be found any more."""
    return ForeignUser(
        "the account of this connection could not be determined, because the client closed its side: keep the "
        f"connection open until it has the response; only {account(os.geteuid())} and root may use this service "
        "(CARD_API_PEERS)"
    )


class Netlink:
    """One netlink socket for all lookups. The kernel answers during the call of ``send``, so ``recv`` never waits."""

    def __init__(self, connected: socket.socket | None = None) -> None:
        """``connected`` leads to the kernel, or to what stands in for it. It must not block."""
        self._socket = connected or socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, _NETLINK_SOCK_DIAG
        )
        self._sequences = count(1)

    def uid(self, client: Address, server: Address) -> int | None:
        sequence = next(self._sequences) & 0xFFFFFFFF
        try:
            self._socket.send(query(client, server, sequence))
            while True:
                answer = self._socket.recv(4096)
                _, kind, _, answered, _ = _MESSAGE_HEADER.unpack_from(answer)
                if answered == sequence:
                    return uid_in_answer(answer) if kind == _SOCK_DIAG_BY_FAMILY else None
        except OSError:
            return None

    def close(self) -> None:
        self._socket.close()


def query(client: Address, server: Address, sequence: int) -> bytes:
    """The netlink message that asks for the socket of ``client`` that is connected to ``server``."""
    source, destination = (ipaddress.ip_address(address) for address, _ in (client, server))
    family = socket.AF_INET6 if source.version == 6 else socket.AF_INET
    identity = struct.pack(
        "!HH16s16s", client[1], server[1], source.packed, destination.packed
    ) + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)  # fmt: skip
    body = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + identity
    return (
        _MESSAGE_HEADER.pack(_MESSAGE_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, sequence, 0) + body
    )


def uid_in_answer(answer: bytes) -> int | None:
    """The owner in the kernel's answer to :func:`query`; None if it is not valid."""
    uid, inode = struct.unpack_from("=II", answer, _OWNER_AT)
    return uid if answer[_STATE_AT] == _ESTABLISHED and inode else None


def uid_in_tables(client: Address, server: Address) -> int | None:
    """The owner according to the kernel's tables; None if it is not found. A table that cannot be read is skipped."""
    for table in _TABLES[ipaddress.ip_address(client[0]).version]:
        with suppress(OSError), Path(table).open(encoding="ascii") as rows:
            mapped = table.endswith("6")
            found = uid_in_rows(rows, _hexadecimal(client, mapped=mapped), _hexadecimal(server, mapped=mapped))
            if found is not None:
                return found
    return None


def uid_in_rows(rows: Iterable[str], local: str, remote: str) -> int | None:
    """The owner in rows of ``/proc/net/tcp``; None if it is not found or not valid. The columns are: number, local and
    remote address, state, three others, uid, timeouts, inode."""
    for row in rows:
        columns = row.split()
        if columns[1:3] == [local, remote]:
            is_held = int(columns[3], 16) == _ESTABLISHED and columns[9] != "0"
            return int(columns[7]) if is_held else None
    return None


def _hexadecimal(address: Address, *, mapped: bool) -> str:
    """An address in the notation of the tables: words of 32 bits in the machine's byte order, and the port. ``mapped``
    is true for the IPv6 table, which contains IPv4 addresses as mapped IPv6 addresses."""
    host = ipaddress.ip_address(address[0])
    packed = ipaddress.IPv6Address(f"::ffff:{host}").packed if mapped and host.version == 4 else host.packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _works(lookup: Lookup, uid: int) -> bool:
    """Whether ``lookup`` finds the owner of a connection that this function makes. The answer of a kernel without the
    module for sock_diag cannot be told apart from the answer for an unknown connection, so a trial is needed."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(socket.create_connection(server.getsockname())) as client,
    ):
        return lookup(client.getsockname(), server.getsockname()) == uid


def pid_space_of(accepted: socket.socket) -> str | None:
    """The pid namespace of the process that connected to a Unix socket. None for TCP, and for a process of another
    account. The other account can only be root, because the socket's file is private to its owner, and root may do
    anything.
    """
    if accepted.family != socket.AF_UNIX:
        return None
    pid, uid = unix_socket.peer(accepted)
    return (procfs.pid_space(pid) or _ENDED) if uid == os.geteuid() else None


def only_chosen_container(app: WsgiApp, chosen: Callable[[], str | None]) -> WsgiApp:
    """Returns ``app`` with a check: a request from a container is refused unless its session is the chosen one.

    ``chosen`` returns the pid namespace of the chosen session. It is called when a request is complete, because another
    session may be chosen while the request arrives.
    """
    own = procfs.pid_space(os.getpid())

    def guarded(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        space = environ.get(PEER)
        if space not in (None, own) and space != chosen():
            raise ForeignSession(
                "this request comes from a container whose session is not the chosen one: choose it, outside of the "
                "container, with bin/card-session select NAME"
            )
        return app(environ, start_response)

    return reporting(guarded)
