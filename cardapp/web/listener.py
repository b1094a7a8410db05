"""One process, two listeners: waitress on loopback TCP and on the Unix socket, with one loop and one set of workers.

waitress buffers requests and answers, so a slow client costs a connection and no worker, until all unread answers reach
a bound. Ours on top: that bound, and how slowly a client may read beyond it; failures of the protocol as problems, a
bound on how long a request may take to arrive, and a stop that lets running requests end.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import resource
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from heapq import nsmallest
from time import monotonic
from typing import Any

from waitress import wasyncore
from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher

from cardapp import unix_socket
from cardapp.settings import Settings
from cardapp.web import sockets
from cardapp.web.app import intakes
from cardapp.web.connections import UNREAD_BYTES, Channel, Patience
from cardapp.web.failures import WsgiApp
from cardapp.web.gate import JSON_LIMIT, Intake, Tcp, Transport, Unix, gated

Guard = Callable[[WsgiApp, Transport, Mapping[str, Intake]], WsgiApp]

WORKERS = 32
"""Sixteen clients at once, and beside them sixteen requests that wait for a replay (they hold a worker for up to
``CARD_REPLAY_TIMEOUT``)."""

CONNECTIONS = 4096
"""Connections at once, as far as the process may have descriptors; beyond them the longest idle gives way."""

_CROWD = 64
"""So many newcomers more than there is room for wait until those that are in use end."""
BEGIN_SECONDS = 1.0
"""How long a connection may take until its first request while others wait for its place."""

_ACCEPTED_AT_ONCE = 64
_OTHER_DESCRIPTORS = 256
"""Files, database connections and the rest, for which connections leave room."""

HEADER_BYTES = 32 * 1024
_POLL_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_DRAIN_POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` behind ``guard`` on both transports. ``start`` once; ``stop`` any number of times."""

    def __init__(
        self,
        settings: Settings,
        app: WsgiApp,
        *,
        guard: Guard = gated,
        patience: Patience | None = None,
        connections: int = CONNECTIONS,
        unread_bytes: int = UNREAD_BYTES,
    ) -> None:
        self._settings = settings
        self._app = app
        self._guard = guard
        self._patience = patience or Patience()
        self._room = min(connections, max(_descriptors() - _OTHER_DESCRIPTORS, 2 * WORKERS))
        self._unread_bytes = unread_bytes
        self._look_at = 0.0
        self._lifecycle = threading.Lock()
        self._stopping = threading.Event()
        self._map: dict[int, Any] = {}
        self._servers: list[Any] = []
        self._dispatcher: _Dispatcher | None = None
        self._thread: threading.Thread | None = None
        self._lock: int | None = None
        self._socket_file: unix_socket.SocketIdentity | None = None
        self._flush_until = 0.0
        self.port = 0
        """The bound TCP port; 0 before ``start``."""

    def start(self) -> None:
        """Take the lock, bind both, serve. A StateError says what is in the way; nothing stays behind then."""
        settings = self._settings
        with self._lifecycle, contextlib.ExitStack() as undo:
            self._lock = sockets.take_lock(settings.state_dir / "api.lock")
            undo.callback(self._release)
            # TCP first: of two instances that would share the Unix socket's path only one gets past this.
            tcp = undo.enter_context(sockets.bind_tcp(settings.api_host, settings.api_port))
            self.port = tcp.getsockname()[1]
            unix = undo.enter_context(unix_socket.bind(settings.api_socket, "CARD_API_SOCKET"))
            self._socket_file = unix_socket.identity(settings.api_socket)
            undo.callback(unix_socket.remove, settings.api_socket, self._socket_file)
            self._serve(tcp, unix)
            undo.pop_all()

    def stop(self, timeout: float = 5.0) -> None:
        """Accept nothing more, let running requests end for at most ``timeout`` seconds, then close everything."""
        deadline = monotonic() + timeout
        with self._lifecycle:
            if self._thread is None:
                return
            self._in_loop(self._close_servers)
            unix_socket.remove(self._settings.api_socket, self._socket_file)
            if self._dispatcher is not None:
                self._dispatcher.end(max(deadline - monotonic(), 0.0))
            self._flush_until = max(deadline, monotonic() + _DRAIN_POLL_SECONDS)
            # The loop ends itself: whoever woke it after its end would find its trigger closed.
            self._in_loop(self._stopping.set)
            self._thread.join(timeout + _POLL_SECONDS)
            self._thread = None
            self._release()

    # -- starting ----------------------------------------------------------------------------------------------------

    def _serve(self, tcp: socket.socket, unix: socket.socket) -> None:
        self._dispatcher = _Dispatcher()
        self._dispatcher.set_thread_count(WORKERS)
        allowed = intakes(self._settings.evidence_max_bytes)
        loopback = Tcp(self._settings.api_host, self.port)
        places: tuple[tuple[socket.socket, Transport], ...] = ((tcp, loopback), (unix, Unix(loopback.address)))
        for bound, transport in places:
            server: Any = create_server(
                self._guard(self._app, transport, allowed),
                map=self._map,
                _dispatcher=self._dispatcher,
                sockets=[bound],
                ident=None,
                connection_limit=self._room + _OTHER_DESCRIPTORS,  # if all are in use; else see _make_room
                recv_bytes=64 * 1024,
                max_request_header_size=HEADER_BYTES,
                # waitress refuses what reaches its limit; the gate's own limits are the ones that are told.
                max_request_body_size=self._settings.evidence_max_bytes + JSON_LIMIT + 1,
                log_socket_errors=False,
            )
            server.channel_class = partial(Channel, self._unread_bytes)
            # waitress reckons idleness by the wall clock, which may be set; the loop here does by its own.
            server.next_channel_cleanup = math.inf
            server.handle_accept = partial(_accept_some, server.handle_accept, self._map)
            self._servers.append(server)
        self._thread = threading.Thread(target=self._loop, name="api-listener", daemon=True)
        self._thread.start()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn(min(_POLL_SECONDS, *self._patience))
            while self._unsent() and monotonic() < self._flush_until:
                self._turn(_DRAIN_POLL_SECONDS)
        finally:
            for channel in self._channels():
                channel.handle_close()
            wasyncore.close_all(self._map, ignore_all=True)
            for server in self._servers:
                server.trigger.close()

    def _turn(self, seconds: float) -> None:
        try:
            wasyncore.poll2(seconds, self._map)
            if len(self._map) > self._room:
                self._make_room()
            if monotonic() >= self._look_at:
                self._look_at = monotonic() + min(_LOOK_SECONDS, *self._patience)
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
        crowded = self._dispatcher is not None and bool(self._dispatcher.queue)
        for channel in self._channels():
            if channel.is_overdue(self._patience, crowded=crowded):
                channel.handle_close()

    def _channels(self) -> list[Channel]:
        return [found for found in list(self._map.values()) if isinstance(found, Channel)]

    def _unsent(self) -> bool:
        return any(channel.total_outbufs_len for channel in self._channels())

    def _close_servers(self) -> None:
        """In the loop's thread: no new connections. The triggers stay, they wake the loop until the end."""
        for server in self._servers:
            wasyncore.dispatcher.close(server)

    def _in_loop(self, action: Callable[[], None]) -> None:
        """Run ``action`` in the loop's thread and wait for it."""
        done = threading.Event()

        def act() -> None:
            try:
                action()
            finally:
                done.set()

        self._servers[0].trigger.pull_trigger(act)
        done.wait(_POLL_SECONDS)


class _Dispatcher(ThreadedTaskDispatcher):
    def __init__(self) -> None:
        super().__init__()
        # A queue is normal while replays run; waitress would warn at every single one.
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


def _accept_some(accept_one: Callable[[], None], channels: Mapping[int, Any]) -> None:
    """Who comes behind many others would otherwise wait for a turn of the loop for each of them."""
    for _ in range(_ACCEPTED_AT_ONCE):
        before = len(channels)
        accept_one()
        if len(channels) == before:
            return


def _descriptors() -> int:
    """How many this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
