"""The HTTP listener: one thread that reads from all connections, and a fixed number of workers.

Requests and up to 16 MiB of each response are buffered, so a slow client occupies a connection but no worker. A larger
response also occupies a worker, so its client must read at a minimum rate.
"""

from __future__ import annotations

import logging
import os
import resource
import select
import socket
import struct
import threading
from contextlib import ExitStack, suppress
from heapq import nsmallest
from time import monotonic

from marketdata.errors import StateError
from marketdata.http.connection import NEXT_REQUEST_MS, Connection, Server
from marketdata.http.failures import Problem, problem
from marketdata.http.reply import Headers
from marketdata.http.request_parser import BODIES_BYTES, Admit, BodyBudget, parser_options
from marketdata.http.workers import Workers
from marketdata.http.wsgi import WsgiApp

WORKERS = 44
"""Requests that run at once: 8 more than the maximum of concurrent ingests, so reads and health checks always find a
worker. Most workers only wait. Ingests wait for a shared commit, so more workers make larger transactions (with 32
clients, twice the ticks per second of 8 workers). Reads wait for one of the pool's 16 connections."""

CONNECTIONS = 4096
"""Maximum number of connections, if the process may have as many descriptors. Above it, those that were idle longest
are closed."""
_OTHER_DESCRIPTORS = 256
"""Descriptors left for files and database connections."""
_SPARED_CONNECTIONS = 64
"""Exception to ``BEGIN_SECONDS``: with so many connections above the maximum, any idle one is closed."""
BEGIN_SECONDS = 1.0
"""A connection that is idle for less than this is not closed for another one."""

ARRIVAL_SECONDS = 120.0
"""Longest time for one request to arrive: enough for a batch over a slow line, too short for a client that sends single
bytes."""

_SOCKET_OPTIONS: tuple[tuple[int, int, int | bytes], ...] = (
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, NEXT_REQUEST_MS * 1000)),
)
"""Of the listening socket, from which the accepted ones inherit them. Waiting in recv(2) instead of poll(2) and recv(2)
saves one switch of the GIL; all other calls have MSG_DONTWAIT."""
_QUEUE = 1024
_ACCEPTED_AT_ONCE = 64
_POLL_SECONDS = 5.0
_DRAIN_POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` on one address.

    Call ``start`` once; ``stop`` may be called repeatedly. ``admit`` decides whether a body is accepted. ``body_bytes``
    is the maximum size of one body, ``bodies_bytes`` that of all bodies together. ``reserved`` descriptors are those of
    connections that were handed over. ``refusal`` makes the responses that are not the application's, which have the
    ``refusal_headers``, too. Requests for the paths ``urgent`` must not block: a further worker is kept for them.
    ``name`` is part of the names of the threads and of the settings for the address.
    """

    def __init__(
        self,
        app: WsgiApp,
        host: str,
        port: int,
        *,
        admit: Admit,
        body_bytes: int,
        bodies_bytes: int = BODIES_BYTES,
        arrival_seconds: float = ARRIVAL_SECONDS,
        connections: int = CONNECTIONS,
        workers: int | None = None,
        reserved: int = 0,
        refusal: Problem = problem,
        refusal_headers: Headers = (),
        urgent: frozenset[str] = frozenset(),
        name: str = "api",
    ) -> None:
        self._app = app
        self._address = (host, port)
        self._admit = admit
        self._body_bytes = body_bytes
        self._bodies = BodyBudget(bodies_bytes)
        self._arrival_seconds = arrival_seconds
        self._worker_count = workers or WORKERS
        self._room = min(connections, max(descriptors() - reserved - _OTHER_DESCRIPTORS, 2 * self._worker_count))
        self._refusal, self._refusal_headers = refusal, refusal_headers
        self._urgent = urgent
        self._name = name
        self._stopping = threading.Event()
        self._lifecycle = threading.Lock()
        self._server: Server | None = None
        self._bound: socket.socket | None = None
        self._wake = -1
        self._thread: threading.Thread | None = None
        self._flush_until = 0.0
        self._sweep_at = 0.0
        self.port = 0
        """The bound TCP port; 0 before ``start``."""

    def start(self) -> None:
        """Bind and serve; raises :class:`StateError` when the address cannot be bound."""
        with self._lifecycle, ExitStack() as undo:
            bound = undo.enter_context(_bind(*self._address, self._name))
            self.port = bound.getsockname()[1]
            poll = undo.enter_context(select.epoll())
            workers = Workers(self._worker_count, self._name)
            undo.callback(workers.end, 0.0)
            options = parser_options(self._body_bytes)
            server = Server(
                self._app, options, self.port, options.server_name, self._bodies, self._body_bytes,
                self._admit, self._refusal, self._refusal_headers, self._urgent, workers, poll,
            )  # fmt: skip
            self._wake = os.eventfd(0)
            undo.callback(os.close, self._wake)
            poll.register(self._wake, select.EPOLLIN)
            poll.register(bound, select.EPOLLIN)
            self._server, self._bound = server, bound
            self._thread = threading.Thread(
                target=self._loop, args=(server, bound), name=f"{self._name}-listener", daemon=True
            )
            self._thread.start()
            undo.pop_all()

    def backlog(self) -> int:
        """Requests that have arrived and wait for a worker."""
        return self._server.workers.backlog if self._server is not None else 0

    def stop(self, timeout: float = 5.0) -> None:
        """Accept no more connections, let running requests end for at most ``timeout`` seconds, then close all."""
        deadline = monotonic() + timeout
        with self._lifecycle:
            if self._thread is None or self._server is None or self._bound is None:
                return
            self._server.poll.unregister(self._bound)
            self._bound.close()
            self._server.workers.end(max(deadline - monotonic(), 0.0))
            self._flush_until = max(deadline, monotonic() + _DRAIN_POLL_SECONDS)
            os.eventfd_write(self._wake, 1)  # first, because the loop closes the descriptor once it sees the flag
            self._stopping.set()
            self._thread.join(timeout + _POLL_SECONDS)
            self._thread = None

    def connections(self) -> list[Connection]:
        """The open connections."""
        return list(self._server.connections.values()) if self._server is not None else []

    def _loop(self, server: Server, bound: socket.socket) -> None:
        try:
            while not self._stopping.is_set():
                self._turn(server, bound, min(_POLL_SECONDS, self._arrival_seconds))
            server.poll.unregister(self._wake)
            while any(each.unsent for each in self.connections()) and monotonic() < self._flush_until:
                self._turn(server, bound, _DRAIN_POLL_SECONDS)
        finally:
            for each in self.connections():
                each.cut()  # wakes a worker that still waits for its client
                each.close()
            server.poll.close()
            os.close(self._wake)

    def _turn(self, server: Server, bound: socket.socket, seconds: float) -> None:
        try:
            accepting = bound.fileno()
            for descriptor, _ in server.poll.poll(seconds):
                connection = server.connections.get(descriptor)
                if connection is not None:
                    connection.proceed()
                elif descriptor == accepting:
                    self._accept(server, bound)
            if len(server.connections) > self._room:
                self._make_room()
            if monotonic() >= self._sweep_at:
                self._sweep_at = monotonic() + min(_POLL_SECONDS, self._arrival_seconds)
                for each in self.connections():
                    if not each.is_in_worker and each.is_overdue(self._arrival_seconds):
                        each.cut()
        except Exception:
            # One broken connection must not end the service for all.
            _log.exception("internal error in the listener's loop")
            self._stopping.wait(_DRAIN_POLL_SECONDS)

    def _accept(self, server: Server, bound: socket.socket) -> None:
        with suppress(BlockingIOError):
            for _ in range(_ACCEPTED_AT_ONCE):
                try:
                    Connection(server, *bound.accept())
                except BlockingIOError:
                    raise
                except OSError:  # the client has gone, there is no descriptor, or the listener was stopped
                    self._stopping.wait(_DRAIN_POLL_SECONDS)
                    return

    def _make_room(self) -> None:
        """Close unused connections above the maximum, those that were idle longest first.

        A connection that was idle for less than ``BEGIN_SECONDS`` is closed only if ``_SPARED_CONNECTIONS`` is
        exceeded.
        """
        for spared, seconds in ((0, BEGIN_SECONDS), (_SPARED_CONNECTIONS, 0.0)):
            kept = [each for each in self.connections() if not each.is_cut]
            unused = [each for each in kept if each.is_unused(seconds)]
            for each in nsmallest(len(kept) - self._room - spared, unused, key=lambda each: each.moved_at):
                each.cut()


def _bind(host: str, port: int, name: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in _SOCKET_OPTIONS:
            bound.setsockopt(*option)
        bound.bind((host, port))
        bound.listen(_QUEUE)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        setting = f"MARKET_{name.upper()}"
        raise StateError(
            f"cannot listen on {host}:{port}: {error.strerror}; set {setting}_HOST or {setting}_PORT",
            code="address_in_use",
        ) from error
    return bound


def descriptors() -> int:
    """The maximum number of open descriptors of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
