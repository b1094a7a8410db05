"""One process, two listeners: waitress on loopback TCP and on the Unix socket, with one loop and one set of workers.

waitress buffers requests and answers, so a slow client costs a connection and no worker. Ours on top: failures of the
protocol as problems, a bound on how long a request may take to arrive, and a stop that lets running requests end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from time import monotonic, time
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import create_server
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask

from cardapp.errors import CardAppError, TooLarge
from cardapp.settings import Settings
from cardapp.web import sockets
from cardapp.web.app import intakes
from cardapp.web.failures import (
    BadRequest,
    HeadersTooLarge,
    InternalError,
    UnknownCoding,
    WsgiApp,
    problem,
    status_line,
)
from cardapp.web.gate import JSON_LIMIT, Intake, Tcp, Transport, Unix, gated, secured

Guard = Callable[[WsgiApp, Transport, Mapping[str, Intake]], WsgiApp]

WORKERS = 32
"""Sixteen clients at once, and beside them sixteen requests that wait for a replay (they hold a worker for up to
``CARD_REPLAY_TIMEOUT``)."""

CONNECTIONS = 512
HEADER_BYTES = 32 * 1024
IDLE_SECONDS = 60
"""A connection on which nothing moves for so long is closed, a client that does not read its answer too."""

ARRIVAL_SECONDS = 120.0
"""How long one request may take to arrive: a picture over a slow tunnel does it, a client that drips bytes does not."""

_POLL_SECONDS = 5.0
_DRAIN_POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` behind ``guard`` on both transports. ``start`` once; ``stop`` any number of times."""

    def __init__(
        self, settings: Settings, app: WsgiApp, *, guard: Guard = gated, arrival_seconds: float = ARRIVAL_SECONDS
    ) -> None:
        self._settings = settings
        self._app = app
        self._guard = guard
        self._arrival_seconds = arrival_seconds
        self._lifecycle = threading.Lock()
        self._stopping = threading.Event()
        self._map: dict[int, Any] = {}
        self._servers: list[Any] = []
        self._dispatcher: _Dispatcher | None = None
        self._thread: threading.Thread | None = None
        self._lock: int | None = None
        self._mark: tuple[int, int] | None = None
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
            unix = undo.enter_context(sockets.bind_unix(settings.api_socket))
            self._mark = sockets.mark_of(settings.api_socket)
            undo.callback(sockets.remove_own, settings.api_socket, self._mark)
            self._serve(tcp, unix)
            undo.pop_all()

    def stop(self, timeout: float = 5.0) -> None:
        """Accept nothing more, let running requests end for at most ``timeout`` seconds, then close everything."""
        deadline = monotonic() + timeout
        with self._lifecycle:
            if self._thread is None:
                return
            self._in_loop(self._close_servers)
            if self._mark is not None:
                sockets.remove_own(self._settings.api_socket, self._mark)
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
                connection_limit=CONNECTIONS,
                channel_timeout=IDLE_SECONDS,
                recv_bytes=64 * 1024,
                max_request_header_size=HEADER_BYTES,
                # waitress refuses what reaches its limit; the gate's own limits are the ones that are told.
                max_request_body_size=self._settings.evidence_max_bytes + JSON_LIMIT + 1,
                log_socket_errors=False,
            )
            server.channel_class = _Channel
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
                self._turn(min(_POLL_SECONDS, self._arrival_seconds))
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
            for channel in self._channels():
                if channel.is_overdue(self._arrival_seconds):
                    channel.handle_close()
        except Exception:
            # One broken connection must not end the service for all.
            _log.exception("the listener's loop met a surprise")
            self._stopping.wait(_DRAIN_POLL_SECONDS)

    def _channels(self) -> list[_Channel]:
        return [found for found in list(self._map.values()) if isinstance(found, _Channel)]

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
        """Let the workers finish for at most ``timeout`` seconds; what still queues is dropped."""
        shutdown: Callable[..., bool] = super().shutdown
        shutdown(timeout=timeout)


class _Parser(HTTPRequestParser):
    """Refuses what two readers could read in two ways: a request with both framings (RFC 9112, section 6.1)."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if "TRANSFER_ENCODING" in self.headers:
            raise ParsingError("Transfer-Encoding needs HTTP/1.1")
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding exclude each other")


class _ProblemTask(ErrorTask):
    """What waitress itself refuses, as the same problems with the same headers as everything else."""

    _KINDS: Mapping[int, type[CardAppError]] = {
        413: TooLarge,
        431: HeadersTooLarge,
        500: InternalError,
        501: UnknownCoding,
    }

    def execute(self) -> None:
        request: Any = self.request
        error = request.error
        kind = self._KINDS.get(error.code, BadRequest)
        reply = problem(kind(f"the request cannot be read: {error.body}"))
        assert isinstance(reply.body, bytes)
        self.status = status_line(reply.status)
        self.response_headers = secured([("Content-Type", reply.media_type), *reply.headers])
        self.set_close_on_finish()
        self.content_length = len(reply.body)
        self.write(reply.body)


class _Task(WSGITask):
    """Keeps the connection after an answer without a body (304), whose end needs no length (RFC 9112, section 6.3):
    a page that polls with its entity tag would otherwise connect anew each time."""

    def set_close_on_finish(self) -> None:
        request: Any = self.request
        asked = self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or asked:
            super().set_close_on_finish()


class _Channel(HTTPChannel):
    """One connection; knows for how long its request has been arriving."""

    parser_class = _Parser
    task_class = _Task
    error_task_class = _ProblemTask
    _arriving_since: float | None = None

    def received(self, data: bytes) -> bool:
        result: bool = super().received(data)
        if self.request is None:
            self._arriving_since = None
        elif self._arriving_since is None:
            self._arriving_since = monotonic()
        return result

    def is_overdue(self, arrival_seconds: float) -> bool:
        """Whether its request should have arrived by now, or its client has long stopped to read the answer."""
        if self._arriving_since is not None and monotonic() - self._arriving_since > arrival_seconds:
            return True
        return bool(self.total_outbufs_len) and time() - self.last_activity > IDLE_SECONDS

    def handle_close(self) -> None:
        super().handle_close()
        if self.request is not None:
            self.request.close()
            self.request = None
