"""The HTTP listener: waitress with one loop and a fixed set of workers.

waitress buffers requests and 16 MiB of each answer, so a slow client costs a connection; that of a longer answer costs
a worker too, and is bound to a least rate meanwhile. Ours on top: that rate, failures of the protocol as problems, a
bound on how long a request may take to arrive, and a stop that lets running requests end.
"""

from __future__ import annotations

import logging
import math
import resource
import socket
import threading
from collections.abc import Callable
from functools import partial
from heapq import nsmallest
from time import monotonic
from typing import Any

from waitress import wasyncore
from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher

from marketdata.api.failures import WsgiApp
from marketdata.api.listener.channel import RECEIVE_BYTES, Channel
from marketdata.api.listener.parser import BODIES_BYTES, Bodies
from marketdata.errors import StateError

WORKERS = 44
"""Requests that run at once. Nearly all of them wait: single ticks for the commit that they share, so that more workers
make fuller transactions (32 clients: twice the ticks of 8 workers), reads for one of the pool's 16 connections. A few
more than ingests may keep: what does not wait for a commit finds one of those."""

CONNECTIONS = 4096
"""Connections at once, as far as the process may have descriptors; beyond them the longest idle gives way."""
_OTHER_DESCRIPTORS = 256
"""Files, database connections and the rest, for which connections leave room."""
_CROWD = 64
"""So many newcomers more than there is room for wait until those that are in use end."""
BEGIN_SECONDS = 1.0
"""How long a connection may take until its first request while others wait for its place."""

HEADER_BYTES = 16 * 1024
ARRIVAL_SECONDS = 120.0
"""How long one request may take to arrive: a batch over a slow line does it, a client that drips bytes does not."""

_POLL_SECONDS = 5.0
_DRAIN_POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` on one address. ``start`` once; ``stop`` any number of times."""

    def __init__(
        self,
        app: WsgiApp,
        host: str,
        port: int,
        *,
        body_bytes: int,
        bodies_bytes: int = BODIES_BYTES,
        arrival_seconds: float = ARRIVAL_SECONDS,
        connections: int = CONNECTIONS,
    ) -> None:
        self._app = app
        self._address = (host, port)
        self._body_bytes = body_bytes
        self._bodies = Bodies(bodies_bytes)
        self._arrival_seconds = arrival_seconds
        self._room = min(connections, max(_descriptors() - _OTHER_DESCRIPTORS, 2 * WORKERS))
        self._stopping = threading.Event()
        self._lifecycle = threading.Lock()
        self._map: dict[int, Any] = {}
        self._server: Any = None
        self._dispatcher: _Dispatcher | None = None
        self._thread: threading.Thread | None = None
        self._flush_until = 0.0
        self._sweep_at = 0.0
        self.port = 0
        """The bound TCP port; 0 before ``start``."""

    def start(self) -> None:
        """Bind and serve; a :class:`StateError` says why the address cannot be had."""
        with self._lifecycle:
            bound = _bind(*self._address)
            self.port = bound.getsockname()[1]
            self._dispatcher = _Dispatcher()
            self._dispatcher.set_thread_count(WORKERS)
            self._server = create_server(
                self._app,
                map=self._map,
                _dispatcher=self._dispatcher,
                sockets=[bound],
                ident=None,
                connection_limit=self._room + _OTHER_DESCRIPTORS,  # if all are in use; else see _make_room
                recv_bytes=RECEIVE_BYTES,
                max_request_header_size=HEADER_BYTES,
                # waitress refuses what reaches its limit; ours is the largest body that is taken.
                max_request_body_size=self._body_bytes + 1,
                log_socket_errors=False,
                clear_untrusted_proxy_headers=False,  # nobody looks at them
            )
            self._server.channel_class = partial(Channel, self._bodies)
            # waitress reckons idleness by the wall clock, which may be set; the loop here does by its own.
            self._server.next_channel_cleanup = math.inf
            self._thread = threading.Thread(target=self._loop, name="api-listener", daemon=True)
            self._thread.start()

    def backlog(self) -> int:
        """Requests that have arrived and wait for a worker."""
        return len(self._dispatcher.queue) if self._dispatcher is not None else 0

    def stop(self, timeout: float = 5.0) -> None:
        """Accept nothing more, let running requests end for at most ``timeout`` seconds, then close everything."""
        deadline = monotonic() + timeout
        with self._lifecycle:
            if self._thread is None or self._dispatcher is None:
                return
            self._in_loop(lambda: wasyncore.dispatcher.close(self._server))
            self._dispatcher.end(max(deadline - monotonic(), 0.0))
            self._flush_until = max(deadline, monotonic() + _DRAIN_POLL_SECONDS)
            self._stopping.set()
            self._server.trigger.pull_trigger()
            self._thread.join(timeout + _POLL_SECONDS)
            self._thread = None

    def _loop(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn(min(_POLL_SECONDS, self._arrival_seconds))
            while self._unsent() and monotonic() < self._flush_until:
                self._turn(_DRAIN_POLL_SECONDS)
        finally:
            for channel in self._channels():
                channel.handle_close()
            wasyncore.close_all(self._map, ignore_all=True)
            self._server.trigger.close()

    def _turn(self, seconds: float) -> None:
        try:
            wasyncore.poll2(seconds, self._map)
            if len(self._map) > self._room:
                self._make_room()
            if monotonic() >= self._sweep_at:
                self._sweep_at = monotonic() + min(_POLL_SECONDS, self._arrival_seconds)
                self._close_overdue()
        except Exception:
            # One broken connection must not end the service for all.
            _log.exception("the listener's loop met a surprise")
            self._stopping.wait(_DRAIN_POLL_SECONDS)

    def _make_room(self) -> None:
        """Whoever holds connections that he does not use must not keep others out. Who has just come is given a moment,
        unless very many come at once."""
        for more, seconds in ((0, BEGIN_SECONDS), (_CROWD, 0.0)):
            surplus = len(self._map) - self._room - more
            if surplus > 0:
                unused = [channel for channel in self._channels() if channel.is_unused(seconds)]
                for channel in nsmallest(surplus, unused, key=lambda channel: channel.last_activity):
                    channel.handle_close()

    def _close_overdue(self) -> None:
        crowded = self.backlog() > 0
        for channel in self._channels():
            if channel.is_overdue(self._arrival_seconds, crowded=crowded):
                channel.handle_close()

    def _channels(self) -> list[Channel]:
        return [found for found in list(self._map.values()) if isinstance(found, Channel)]

    def _unsent(self) -> bool:
        return any(channel.total_outbufs_len for channel in self._channels())

    def _in_loop(self, action: Callable[[], None]) -> None:
        """Run ``action`` in the loop's thread and wait for it."""
        done = threading.Event()

        def act() -> None:
            try:
                action()
            finally:
                done.set()

        self._server.trigger.pull_trigger(act)
        done.wait(_POLL_SECONDS)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise StateError(
            f"{host}:{port} cannot be listened on: {error.strerror}; set MARKET_API_HOST or MARKET_API_PORT",
            code="address_in_use",
        ) from error
    return bound


class _Dispatcher(ThreadedTaskDispatcher):
    def __init__(self) -> None:
        super().__init__()
        # A queue is normal under load; waitress would warn at every single one.
        self.queue_logger = logging.getLogger(f"{__name__}.queue")
        self.queue_logger.setLevel(logging.ERROR)

    def start_new_thread(self, target: Callable[[int], object], thread_no: int) -> None:
        threading.Thread(target=target, name=f"api-{thread_no}", args=(thread_no,), daemon=True).start()

    def end(self, timeout: float) -> None:
        """Let the workers finish for at most ``timeout`` seconds, by a clock that nobody sets; what still queues is
        dropped."""
        deadline = monotonic() + timeout
        self.set_thread_count(0)
        with self.lock:
            while self.threads and (remaining := deadline - monotonic()) > 0:
                self.thread_exit_cv.wait(remaining)
            while self.queue:
                queued: Any = self.queue.popleft()
                queued.cancel()


def _descriptors() -> int:
    """How many this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
