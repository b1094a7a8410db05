"""The HTTP listener. One thread reads from all connections, and a fixed number of workers answers the requests.

Requests and up to 16 MiB of each response are buffered, so a slow client occupies a connection but no worker. A larger
response occupies a worker until it is sent, so its client must read at a minimum rate.
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
from functools import partial
from heapq import nsmallest
from time import monotonic

from marketdata.errors import StateError
from marketdata.http.connection import NEXT_REQUEST_MS, USUAL, Connection, Limits, Server
from marketdata.http.failures import Problem, problem
from marketdata.http.waitress_adapter import BODIES_BYTES, Admit, BodyBudget, parser_options
from marketdata.http.workers import Workers
from marketdata.http.wsgi import WsgiApp

WORKERS = 44
"""Maximum number of requests that run at the same time. Most workers only wait: ingests for a shared commit, reads for
one of the pool's 16 connections. More workers make larger shared transactions: with 32 clients, 44 workers store twice
as many ticks per second as 8. The API limits concurrent ingests to 8 fewer than this."""

CONNECTIONS = 4096
"""Maximum number of connections, if the process may open enough descriptors. Above the maximum, the connections that
were idle longest are closed."""
_OTHER_DESCRIPTORS = 256
"""Descriptors that are kept free for files and database connections."""
BEGIN_SECONDS = 1.0
"""A connection that is idle for less than this is not closed for another one, unless ``_SPARED_CONNECTIONS`` more than
the maximum are open."""
_SPARED_CONNECTIONS = 64

ARRIVAL_SECONDS = 120.0
"""Longest time for one request to arrive: enough for a batch over a slow line, too short for a client that sends single
bytes."""

_SOCKET_OPTIONS: tuple[tuple[int, int, int | bytes], ...] = (
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, NEXT_REQUEST_MS * 1000)),
)
"""Options of the listening socket; accepted sockets inherit them. With the timeout, a worker waits for the next request
in recv(2) and needs no poll(2), which saves one switch of the GIL. All other calls have MSG_DONTWAIT."""
_QUEUE = 1024
_ACCEPTED_AT_ONCE = 64
_PAUSE_SECONDS = 0.002
"""How long a process leaves new connections to the others that share its socket."""
_POLL_SECONDS = 5.0
_DRAIN_POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` on one address.

    Call ``start`` once; ``stop`` may be called repeatedly. ``admit`` decides whether a body is accepted. ``body_bytes``
    is the maximum size of one body, ``bodies_bytes`` of all bodies together. ``reserved`` is the number of descriptors
    that are kept free for connections that were handed over. ``refusal`` makes the reply if the listener itself refuses
    a request. Requests for the paths ``urgent`` must not block; one more worker is kept for them. ``name`` is part of
    the threads' names and of the names of the settings for the address. ``shared`` is a listening socket of
    :func:`listening` that several processes accept from; without it the listener makes its own.
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
        urgent: frozenset[str] = frozenset(),
        name: str = "api",
        shared: socket.socket | None = None,
        limits: Limits = USUAL,
    ) -> None:
        self._address = (host, port)
        self._shared = shared
        options = parser_options(body_bytes)
        self._bodies = BodyBudget(bodies_bytes)
        self._make_server = partial(
            Server, app, options, bodies=self._bodies, admit=admit, refusal=refusal,
            urgent=urgent, limits=limits,
        )  # fmt: skip
        self._arrival_seconds = arrival_seconds
        self._worker_count = workers or WORKERS
        self._room = min(connections, max(descriptors() - reserved - _OTHER_DESCRIPTORS, 2 * self._worker_count))
        self._name = name
        self._stopping = threading.Event()
        self._lifecycle = threading.Lock()
        self._server: Server | None = None
        self._bound: socket.socket | None = None
        self._wake = -1
        self._thread: threading.Thread | None = None
        self._flush_until = 0.0
        self._sweep_at = 0.0
        self._accepting = threading.Lock()
        self._accept_at = 0.0
        """While this process leaves new connections to others: when it accepts again, in monotonic seconds."""
        self.port = 0
        """The bound TCP port; 0 before ``start``."""

    def start(self) -> None:
        """Bind the address and serve. Raises :class:`StateError` if the address cannot be bound."""
        with self._lifecycle, ExitStack() as undo:
            bound = undo.enter_context(self._shared or listening(*self._address, self._name))
            self.port = bound.getsockname()[1]
            poll = undo.enter_context(select.epoll())
            workers = Workers(self._worker_count, self._name)
            undo.callback(workers.end, 0.0)
            server = self._make_server(workers=workers, poll=poll)
            self._wake = os.eventfd(0)
            undo.callback(os.close, self._wake)
            poll.register(self._wake, select.EPOLLIN)
            poll.register(bound, self._accepting_events)
            self._server, self._bound = server, bound
            self._thread = threading.Thread(
                target=self._loop, args=(server, bound), name=f"{self._name}-listener", daemon=True
            )
            self._thread.start()
            undo.pop_all()

    def backlog(self) -> int:
        """The number of requests that wait for a worker."""
        return self._server.workers.backlog if self._server is not None else 0

    def stop(self, timeout: float = 5.0) -> None:
        """Accept no more connections, let running requests end for at most ``timeout`` seconds, then close all."""
        deadline = monotonic() + timeout
        with self._lifecycle:
            if self._thread is None or self._server is None or self._bound is None:
                return
            with self._accepting:
                if not self._accept_at:
                    self._server.poll.unregister(self._bound)
                self._bound.close()
            self._server.workers.end(max(deadline - monotonic(), 0.0))
            self._flush_until = max(deadline, monotonic() + _DRAIN_POLL_SECONDS)
            os.eventfd_write(self._wake, 1)  # first, because the loop closes the descriptor once it sees the flag
            self._stopping.set()
            self._thread.join(timeout + _POLL_SECONDS)
            self._thread = None

    @property
    def bodies_left(self) -> int:
        """How many bytes of counted bodies are free."""
        return self._bodies.left

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
            if self._accept_at and monotonic() >= self._accept_at:
                self._accept_again(server, bound)
            pause = self._accept_at - monotonic() if self._accept_at else seconds
            for descriptor, _ in server.poll.poll(max(min(seconds, pause), 0.0)):
                connection = server.connections.get(descriptor)
                if connection is not None:
                    connection.proceed()
                elif descriptor == accepting:
                    self._accept(server, bound)
            if len(server.connections) > self._room:
                self._make_room()
            if monotonic() >= self._sweep_at:
                self._sweep_at = monotonic() + min(_POLL_SECONDS, self._arrival_seconds)
                if self._shared is not None and not self._accept_at:
                    self._accept(server, bound)  # the process that was woken for a connection may not react
                for each in self.connections():
                    if not each.is_in_worker and each.is_overdue(self._arrival_seconds):
                        each.cut()
        except Exception:
            # One broken connection must not end the service for all.
            _log.exception("internal error in the listener's loop")
            self._stopping.wait(_DRAIN_POLL_SECONDS)

    @property
    def _accepting_events(self) -> int:
        # Of the processes that share a socket, the kernel wakes only one for a new connection.
        return select.EPOLLIN | (0 if self._shared is None else select.EPOLLEXCLUSIVE)

    def _accept(self, server: Server, bound: socket.socket) -> None:
        with suppress(BlockingIOError):
            for _ in range(_ACCEPTED_AT_ONCE if self._shared is None else 1):
                try:
                    Connection(server, *bound.accept())
                except BlockingIOError:
                    raise
                except OSError:  # the client has gone, there is no descriptor, or the listener was stopped
                    self._stopping.wait(_DRAIN_POLL_SECONDS)
                    return
        if self._shared is not None:
            self._leave_the_next_to_others(server, bound)

    def _leave_the_next_to_others(self, server: Server, bound: socket.socket) -> None:
        """After an accepted connection, let the other processes accept the next ones, because a kept-alive connection
        stays with its process.

        The kernel wakes the process that has waited longest, so this one begins to wait anew. If another connection has
        arrived already, another process was woken for it, but this one would be quicker. So it pauses.
        """
        with self._accepting:
            if bound.fileno() < 0:
                return
            server.poll.unregister(bound)
            queue = select.poll()
            queue.register(bound, select.POLLIN)
            has_next = bool(queue.poll(0))
            self._accept_at = monotonic() + _PAUSE_SECONDS if has_next else 0.0
            if not has_next:
                server.poll.register(bound, self._accepting_events)

    def _accept_again(self, server: Server, bound: socket.socket) -> None:
        with self._accepting:
            self._accept_at = 0.0
            if bound.fileno() >= 0:
                server.poll.register(bound, self._accepting_events)

    def _make_room(self) -> None:
        """Close the unused connections above the maximum, starting with those that were idle longest."""
        for spared, seconds in ((0, BEGIN_SECONDS), (_SPARED_CONNECTIONS, 0.0)):
            kept = [each for each in self.connections() if not each.is_cut]
            unused = [each for each in kept if each.is_unused(seconds)]
            for each in nsmallest(len(kept) - self._room - spared, unused, key=lambda each: each.moved_at):
                each.cut()


def listening(host: str, port: int, name: str) -> socket.socket:
    """Returns a socket that listens on the address. ``name`` is part of the names of the settings for the address.
    Raises :class:`StateError` if the address cannot be bound."""
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
    """Returns the maximum number of open descriptors of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
