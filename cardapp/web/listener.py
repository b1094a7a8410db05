"""The HTTP listener: one loop and one set of workers serve loopback TCP and the Unix socket.

The listener binds the sockets. Over TCP it admits only the owner and root, unless CARD_API_PEERS is ``any``. It closes
connections whose time limit has expired. If there are too many connections, it closes those that were idle longest. If
too many bytes of responses are unread, it closes the connections with the most unread bytes. When it stops, it lets
running requests end.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import os
import resource
import socket
import threading
from collections.abc import Callable
from functools import partial
from heapq import nlargest
from time import monotonic

from cardapp import private_directories, unix_socket
from cardapp.errors import StateError, UsageError
from cardapp.settings import Settings
from cardapp.web import request_log
from cardapp.web.app import intakes
from cardapp.web.gate import HEADER_BYTES, JSON_LIMIT, Arrival, BodyBudget, Gate, Tcp, Transport, Unix
from cardapp.web.http import WsgiApp
from cardapp.web.peer import Admit, OwnerOnly, anybody
from cardapp.web.waitress_adapter import Channel, Limits, Loop, Rules

_OTHER_DESCRIPTORS = 256
"""Number of descriptors that connections may not use. They are kept free for the database and other files."""

_SWEEP_SECONDS = 1.0
_STOP_SECONDS = 5.0
_DRAIN_SECONDS = 0.02

_PORT_TRIES = 5
_NO_ADDRESS = "address_absent"
_BIND_CODES = {
    errno.EADDRINUSE: "address_in_use",
    errno.EADDRNOTAVAIL: _NO_ADDRESS,
    errno.EAFNOSUPPORT: _NO_ADDRESS,
}

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` behind a gate on both transports. Call ``start`` once; ``stop`` may be called repeatedly."""

    def __init__(self, settings: Settings, app: WsgiApp, limits: Limits | None = None) -> None:
        self._settings = settings
        self._app = app
        self._limits = limits or Limits()
        room = max(_descriptors() - _OTHER_DESCRIPTORS, 2 * self._limits.workers)
        self._room = min(self._limits.connections, room)
        # The limit must admit the largest image if no other body is arriving.
        self._bodies = BodyBudget(max(self._limits.bodies_bytes, settings.evidence_max_bytes + JSON_LIMIT))
        self._stopping = threading.Event()
        self._resources = contextlib.ExitStack()
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None
        self._sweep_at = 0.0
        self._flush_until = 0.0
        self.port = 0
        """The bound TCP port; 0 before ``start``."""
        self.addresses: tuple[str, ...] = ()
        """The URLs of the bound TCP sockets, the configured one first; empty before ``start``."""

    def start(self) -> None:
        """Take the lock, bind the sockets and serve. If this raises StateError or MissingRequirement, the lock and the
        sockets are released."""
        settings = self._settings
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, private_directories.take_lock(settings.state_dir / "api.lock"))
            # TCP is bound first. If a second instance has the same port and the same Unix socket, it fails here, before
            # it replaces the Unix socket of the first instance.
            tcp = [undo.enter_context(each) for each in bind_tcp(settings.api_host, settings.api_port)]
            self.port = tcp[0].getsockname()[1]
            others = [each.getsockname()[0] for each in tcp[1:]]
            self.addresses = tuple(Tcp(host, self.port).address for host in (settings.api_host, *others))
            unix = undo.enter_context(unix_socket.bind(settings.api_socket, "CARD_API_SOCKET"))
            undo.callback(unix_socket.remove, settings.api_socket, unix_socket.identity(settings.api_socket))
            owner_only = OwnerOnly() if settings.api_peers == "owner" else None
            if owner_only is not None:
                undo.callback(owner_only.close)
            self._loop = Loop(self._limits.workers)
            undo.callback(self._loop.close)
            undo.callback(self._loop.end_workers, 0.0)
            loopback = Tcp(settings.api_host, self.port)
            for each in tcp:
                self._listen(each, loopback, owner_only.refusal if owner_only else anybody)
            self._listen(unix, Unix(loopback.address), anybody)
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="api-listener", daemon=True)
            self._thread.start()
            self._resources = undo.pop_all()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop accepting, wait at most ``timeout`` seconds for running requests, then close everything."""
        if self._thread is None or self._loop is None:
            return
        deadline = monotonic() + timeout
        self._loop.call(self._loop.stop_accepting)
        self._loop.end_workers(timeout)
        self._flush_until = max(deadline, monotonic() + _DRAIN_SECONDS)
        self._loop.call(self._stopping.set)
        self._thread.join(timeout + _STOP_SECONDS)
        self._thread = None
        self._resources.close()

    def _listen(self, bound: socket.socket, transport: Transport, admit: Admit) -> None:
        assert self._loop is not None
        gate = Gate(transport, intakes(self._settings.evidence_max_bytes))
        self._loop.listen(
            bound,
            request_log.logged(gate.guard(self._app)),
            Rules(self._limits, admit, partial(Arrival, gate, self._bodies)),
            ident=None,
            recv_bytes=64 * 1024,
            outbuf_high_watermark=self._limits.unread_bytes,
            max_request_header_size=HEADER_BYTES,
            max_request_body_size=1 << 62,  # no limit, because the gate checks the size
            connection_limit=self._room + _OTHER_DESCRIPTORS,  # reached only if no connection is idle: see _make_room
            channel_timeout=1 << 40,  # off, because it uses the wall clock; _close_overdue replaces it
            log_socket_errors=False,
        )

    # -- in the thread of the loop -----------------------------------------------------------------------------------

    def _run(self, loop: Loop) -> None:
        limits = self._limits
        pause = min(_SWEEP_SECONDS, limits.arrival, limits.response, limits.idle, limits.linger)
        while not self._stopping.is_set():
            self._turn(loop, pause)
        while any(channel.total_outbufs_len for channel in loop.connections()) and monotonic() < self._flush_until:
            self._turn(loop, _DRAIN_SECONDS)

    def _turn(self, loop: Loop, seconds: float) -> None:
        try:
            loop.turn(seconds)
            connections = loop.connections()
            self._make_room(connections)
            self._bound_unread(connections)
            if monotonic() >= self._sweep_at:
                self._sweep_at = monotonic() + seconds
                self._close_overdue(loop)
        except Exception:
            # An error in one connection must not end the service.
            _log.exception("internal error in the loop of the HTTP listener")
            self._stopping.wait(_DRAIN_SECONDS)

    def _make_room(self, connections: list[Channel]) -> None:
        """If there are too many connections, close those that were idle longest. So new clients can be served."""
        surplus = len(connections) - self._room
        if surplus > 0:
            unused = [channel for channel in connections if channel.is_unused()]
            for channel in nlargest(surplus, unused, key=Channel.idle_seconds):
                channel.drop()

    def _bound_unread(self, connections: list[Channel]) -> None:
        """Close the connections with the most unread bytes, until all others together have no more unread bytes than
        ``total_unread_bytes``."""
        unread = {channel: channel.total_outbufs_len for channel in connections if channel.total_outbufs_len}
        surplus = sum(unread.values()) - self._limits.total_unread_bytes
        for channel in sorted(unread, key=unread.__getitem__, reverse=True):
            if surplus <= 0:
                break
            surplus -= unread[channel]
            channel.drop()

    def _close_overdue(self, loop: Loop) -> None:
        for channel in loop.connections():
            if channel.is_overdue():
                channel.drop()


def _descriptors() -> int:
    """The maximum number of descriptors of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def bind_tcp(host: str, port: int, bind: Callable[[str, int], socket.socket] | None = None) -> list[socket.socket]:
    """Bind sockets to loopback on one port. They do not listen yet. If ``port`` is 0, a free port is chosen. ``bind``
    stands in for :func:`bound`.

    For 127.0.0.1 and localhost a second socket is bound to ``[::1]`` if IPv6 exists. A browser tries both addresses of
    ``localhost``. If one address were not bound, another account could serve it.
    """
    bind = bind or bound
    address = "127.0.0.1" if host == "localhost" else host
    if not ipaddress.ip_address(address).is_loopback:
        raise UsageError(
            f"CARD_API_HOST={host!r} is not a loopback address: reach the service by an ssh tunnel instead"
        )
    if address != "127.0.0.1":
        return [bind(address, port)]
    for _ in range(_PORT_TRIES if port == 0 else 1):
        first = bind(address, port)
        try:
            return [first, bind("::1", first.getsockname()[1])]
        except StateError as error:
            if error.code == _NO_ADDRESS:
                return [first]
            first.close()
            refused = error
    raise refused


def bound(address: str, port: int) -> socket.socket:
    """A TCP socket bound to ``address`` and ``port``. SO_REUSEADDR lets a restarted service bind its port again at
    once. On Linux it does not let two listening sockets share a port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as undo:
        try:
            found = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            found.bind((address, port))
        except OSError as error:
            raise StateError(
                f"port {port} of {address} cannot be used: {error.strerror}; stop the program that uses it, or set "
                "CARD_API_PORT (0 takes any free one)",
                code=_BIND_CODES.get(error.errno or 0, "address_unusable"),
            ) from error
        undo.pop_all()
        return found
