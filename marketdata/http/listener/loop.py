"""The HTTP listener: one thread that reads and writes all connections, and a fixed number of workers.

Requests and up to 16 MiB of each answer are buffered, so a slow client occupies a connection but no worker. A larger
answer also occupies a worker, so its client must read at a minimum rate.
"""

from __future__ import annotations

import logging
import resource
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from heapq import nsmallest
from time import monotonic

from marketdata.errors import StateError
from marketdata.http.failures import Problem, WsgiApp, problem
from marketdata.http.listener.admission import Admit
from marketdata.http.listener.channel import RECEIVE_BYTES, Channel
from marketdata.http.listener.parser import BODIES_BYTES, BodyBudget
from marketdata.http.listener.workers import Workers
from marketdata.http.reply import Headers
from marketdata.http.waitress_adapter import Server

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

HEADER_BYTES = 16 * 1024
ARRIVAL_SECONDS = 120.0
"""Longest time for one request to arrive: enough for a batch over a slow line, too short for a client that sends single
bytes."""

_POLL_SECONDS = 5.0
_DRAIN_POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` on one address.

    Call ``start`` once; ``stop`` may be called repeatedly. ``admit`` decides whether a body is accepted. ``body_bytes``
    is the maximum size of one body, ``bodies_bytes`` that of all bodies together. ``reserved`` descriptors are those of
    connections that were handed over. ``refusal`` makes the answers that are not the application's, which have the
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
        self._body_bytes = body_bytes
        self._bodies = BodyBudget(bodies_bytes)
        self._connect = partial(Channel, self._bodies, body_bytes, admit, refusal, refusal_headers, urgent)
        self._arrival_seconds = arrival_seconds
        self._worker_count = workers or WORKERS
        self._room = min(connections, max(descriptors() - reserved - _OTHER_DESCRIPTORS, 2 * self._worker_count))
        self._name = name
        self._stopping = threading.Event()
        self._lifecycle = threading.Lock()
        self._server: Server | None = None
        self._workers: Workers | None = None
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
            self._workers = Workers(self._worker_count, self._name)
            undo.callback(self._workers.end, 0.0)
            self._server = Server(
                self._app,
                bound,
                self._workers,
                self._connect,
                ident=None,
                connection_limit=self._room + _OTHER_DESCRIPTORS,  # never reached: _make_room closes connections before
                recv_bytes=RECEIVE_BYTES,
                max_request_header_size=HEADER_BYTES,
                max_request_body_size=self._body_bytes + 1,  # waitress refuses a body of this size or more
                log_socket_errors=False,
                clear_untrusted_proxy_headers=False,  # the application does not use them
            )
            self._thread = threading.Thread(
                target=self._loop, args=(self._server,), name=f"{self._name}-listener", daemon=True
            )
            self._thread.start()
            undo.pop_all()

    def backlog(self) -> int:
        """Requests that have arrived and wait for a worker."""
        return self._workers.backlog if self._workers is not None else 0

    def stop(self, timeout: float = 5.0) -> None:
        """Accept no more connections, let running requests end for at most ``timeout`` seconds, then close all."""
        deadline = monotonic() + timeout
        with self._lifecycle:
            if self._thread is None or self._workers is None or self._server is None:
                return
            self._in_loop(self._server, self._server.stop_accepting)
            self._workers.end(max(deadline - monotonic(), 0.0))
            self._flush_until = max(deadline, monotonic() + _DRAIN_POLL_SECONDS)
            # Set it in the loop's thread. Set here, the loop could end and close its trigger before it is woken.
            self._in_loop(self._server, self._stopping.set)
            self._thread.join(timeout + _POLL_SECONDS)
            self._thread = None

    def channels(self) -> list[Channel]:
        """The open connections."""
        found = self._server.connections() if self._server is not None else []
        return [each for each in found if isinstance(each, Channel)]

    def _loop(self, server: Server) -> None:
        try:
            while not self._stopping.is_set():
                self._turn(server, min(_POLL_SECONDS, self._arrival_seconds))
            while self._has_unsent() and monotonic() < self._flush_until:
                self._turn(server, _DRAIN_POLL_SECONDS)
        finally:
            server.close()

    def _turn(self, server: Server, seconds: float) -> None:
        try:
            server.turn(seconds)
            if len(server) > self._room:
                self._make_room(server)
            if monotonic() >= self._sweep_at:
                self._sweep_at = monotonic() + min(_POLL_SECONDS, self._arrival_seconds)
                self._close_overdue()
        except Exception:
            # One broken connection must not end the service for all.
            _log.exception("internal error in the listener's loop")
            self._stopping.wait(_DRAIN_POLL_SECONDS)

    def _make_room(self, server: Server) -> None:
        """Close unused connections above the maximum, those that were idle longest first.

        A connection that was idle for less than ``BEGIN_SECONDS`` is closed only if ``_SPARED_CONNECTIONS`` is
        exceeded.
        """
        for spared, seconds in ((0, BEGIN_SECONDS), (_SPARED_CONNECTIONS, 0.0)):
            surplus = len(server) - self._room - spared
            if surplus > 0:
                unused = [channel for channel in self.channels() if channel.is_unused(seconds)]
                for channel in nsmallest(surplus, unused, key=lambda channel: channel.moved_at):
                    channel.handle_close()

    def _close_overdue(self) -> None:
        crowded = self.backlog() > 0
        for channel in self.channels():
            if channel.is_overdue(self._arrival_seconds, crowded=crowded):
                channel.handle_close()

    def _has_unsent(self) -> bool:
        return any(channel.unsent for channel in self.channels())

    def _in_loop(self, server: Server, action: Callable[[], None]) -> None:
        """Run ``action`` in the loop's thread and wait for it."""
        done = threading.Event()

        def act() -> None:
            try:
                action()
            finally:
                done.set()

        server.wake(act)
        done.wait(_POLL_SECONDS)


def _bind(host: str, port: int, name: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
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
