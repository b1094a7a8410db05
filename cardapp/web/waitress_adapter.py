"""Adapts waitress. Only this module uses members of waitress that its documentation does not name.

waitress reads requests and sends responses in one thread, the loop, and runs the application in worker threads. It
buffers requests and responses, so a slow client occupies a connection but no worker. This module adds:

- The head of a request is checked when it is complete. The size of the body is checked while it arrives.
- The connection of a WebSocket is handed over to the application.
- Invalid chunked coding, which waitress accepts in part, is refused. Errors are problem documents (RFC 9457).
- After a refusal the rest of the request is dropped before the connection is closed.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher, WSGITask
from waitress.utilities import BadRequest as MalformedChunk
from waitress.utilities import Error

from cardapp.errors import CardAppError
from cardapp.web import request_log
from cardapp.web.chunked_coding import ChunkedDecoder
from cardapp.web.failures import BadRequest, HeadersTooLarge, InternalError, UnknownCoding, problem
from cardapp.web.gate import Arrival, head_of, secured
from cardapp.web.http import HandOver, WsgiApp, status_line
from cardapp.web.peer import PEER, Admit, MakeError, pid_space_of

_ACCEPTED_AT_ONCE = 64

_KINDS: dict[int, type[CardAppError]] = {431: HeadersTooLarge, 500: InternalError, 501: UnknownCoding}
"""The error class of this application for each status of an error of waitress. All other statuses become
:class:`BadRequest`."""


@dataclass(frozen=True)
class Limits:
    """Limits of workers and connections. The times are in seconds. A connection that exceeds one of them is closed.

    Unread responses have three limits: ``unread_bytes`` for one response, ``total_unread_bytes`` for all of them,
    ``idle`` and ``response`` for how long they are kept.
    """

    workers: int = 32
    """Number of requests that can run at once. A request may wait for a replay (at most ``CARD_REPLAY_TIMEOUT``), or
    for a client that does not read. While sixteen requests wait, sixteen other clients can still be served."""
    connections: int = 4096
    """When one more is accepted, the connection that was idle longest is closed."""
    arrival: float = 120.0
    """The time within which a whole request must arrive. It is enough for an image over a slow connection."""
    response: float = 600.0
    """The time within which the client must read a whole response. Otherwise a client that reads slowly could keep a
    worker or a temporary file for as long as it likes."""
    idle: float = 60.0
    """The time that a connection may be without traffic, even if a part of a response is unread."""
    linger: float = 30.0
    linger_bytes: int = 64 * 1024 * 1024
    """After a refusal the rest of the request is read and dropped up to these two limits. If the connection was closed
    at once, the kernel would reset it, and a client that is still writing would lose the response."""
    bodies_bytes: int = 64 * 1024 * 1024
    """Total size of the request bodies that are kept at once."""
    unread_bytes: int = 32 * 1024 * 1024
    """When this many bytes of one response are unread, the response's worker waits for the client. Below this limit,
    neither the worker nor the read transaction of a report waits."""
    total_unread_bytes: int = 512 * 1024 * 1024
    """When more bytes than this are unread in all responses together, the connections with the most unread bytes are
    closed. So at most 16 workers wait at a time. waitress keeps a response of up to 1 MiB in memory, a longer one in a
    temporary file."""


@dataclass(frozen=True)
class Rules:
    """The rules of one listening socket. ``admit`` checks each new connection; its result is passed to ``arrival``,
    which makes the object that checks one request."""

    limits: Limits
    admit: Admit
    arrival: Callable[[MakeError | None], Arrival]


class _Refusal(Error):
    """An error that waitress answers with a problem document, like the application's errors."""

    def __init__(self, make: MakeError, request: Parser) -> None:
        super().__init__("")
        self._make = make
        self._request: Any = request

    def to_response(self, _ident: str | None = None) -> tuple[str, list[tuple[str, str]], Any]:
        reply = problem(self._make())
        assert isinstance(reply.body, bytes)
        method = getattr(self._request, "command", "")
        body = b"" if method == "HEAD" else reply.body
        target = getattr(self._request, "request_uri", "")
        logged = request_log.refused(self._request.peer, method, target, reply.status, len(body))
        length = ("Content-Length", str(len(reply.body)))
        headers = secured([("Content-Type", reply.media_type), length, *reply.headers, *logged])
        return status_line(reply.status), headers, body


class _StrictChunks(ChunkedReceiver):
    def __init__(self, buf: Any) -> None:
        super().__init__(buf)
        self._decoder = ChunkedDecoder(buf.append)

    def received(self, s: bytes) -> int:
        try:
            used = self._decoder.feed(s)
        except ValueError as error:
            self.error = MalformedChunk(str(error))
            return len(s)
        self.completed = self._decoder.is_complete
        return used


class Parser(HTTPRequestParser):
    """Parses and checks one request while it arrives. ``close`` may be called repeatedly."""

    def __init__(self, arrival: Arrival, peer: str, adj: Any) -> None:
        self.error = None
        super().__init__(adj)
        self.began = monotonic()
        self.peer = peer
        self._arrival = arrival

    @property
    def error(self) -> Error | None:
        """Why the request is refused. The setter converts an error of waitress to an error of this application."""
        return self._error

    @error.setter
    def error(self, error: Any) -> None:
        if error is not None and not isinstance(error, _Refusal):
            kind = _KINDS.get(error.code, BadRequest)
            error = _Refusal(partial(kind, f"the request cannot be read: {error.body}"), self)
        self._error: _Refusal | None = error

    def received(self, data: bytes) -> int:
        was_head = not self.headers_finished
        used: int = super().received(data)
        body: Any = self.body_rcv
        found: Any = self  # the type stubs of waitress lack some attributes
        if self.error is None and self.headers_finished and not self.empty:
            if was_head:
                head = head_of(self.headers, found.command, found.path, found.request_uri, is_chunked=self.chunked)
                refused = self._arrival.check_head(head, has_body=body is not None)
            else:
                refused = self._arrival.count_body(len(body))
            self.error = _Refusal(refused, self) if refused else None
        if body is None or self.error is not None:
            self.expect_continue = False  # otherwise waitress would ask the client for the body
        if self.error is None:
            return used
        self.completed = True
        self.close()
        return len(data)  # drop the rest: it must not be parsed as a new request

    def parse_header(self, header_plus: bytes) -> None:
        """Refuse a request with both Content-Length and Transfer-Encoding (smuggling: RFC 9112, section 6.1)."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # from urlsplit() for brackets in the target, from int() for over 4300 digits
            raise ParsingError("the target or Content-Length is not valid") from error
        if "TRANSFER_ENCODING" in self.headers:
            raise ParsingError("Transfer-Encoding needs HTTP/1.1")
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding exclude each other")
        if self.chunked:
            receiver: Any = self.body_rcv
            self.body_rcv = _StrictChunks(receiver.getbuf())

    def close(self) -> None:
        super().close()
        self._arrival.close()


class _Task(WSGITask):
    def get_environment(self) -> dict[str, Any]:
        channel: Any = self.channel
        return {**super().get_environment(), PEER: channel.pid_space}

    def set_close_on_finish(self) -> None:
        """Keep the connection open after a response without a body (304). waitress would close it because
        Content-Length is missing, but such a response needs none (RFC 9112, section 6.3). Otherwise a page that polls
        with an entity tag would connect again for each request."""
        request: Any = self.request
        is_asked_for = self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or is_asked_for:
            super().set_close_on_finish()


class Channel(HTTPChannel):
    """One connection. Workers call ``service``; the loop's thread calls all other methods."""

    task_class = _Task

    def __init__(self, rules: Rules, server: Any, sock: socket.socket, addr: Any, *rest: Any, **more: Any) -> None:
        foreign = rules.admit(sock, addr)
        self.parser_class: Any = lambda adj: Parser(rules.arrival(foreign), addr[0], adj)
        self._limits = rules.limits
        self.pid_space = pid_space_of(sock)
        self._is_refused = False
        self._lingering_since: float | None = None
        self._dropped = 0
        self._moved = self._unsent_since = monotonic()
        super().__init__(server, sock, addr, *rest, **more)
        self._seen = self.last_activity

    def received(self, data: bytes) -> bool:
        if self._lingering_since is None:
            return bool(super().received(data))
        self._dropped += len(data)
        if self._dropped > self._limits.linger_bytes:
            self.drop()
        return False

    def idle_seconds(self) -> float:
        """Seconds without traffic, by the monotonic clock. waitress stores only the wall-clock time of the last
        traffic, so the seconds count from the first call after that traffic."""
        if self._seen != self.last_activity:
            self._seen, self._moved = self.last_activity, monotonic()
        return monotonic() - self._moved

    def is_unused(self) -> bool:
        """Whether the connection serves no request, so it can be closed to make room for another one."""
        return self._lingering_since is not None or not (self.requests or self.total_outbufs_len)

    def is_overdue(self) -> bool:
        """Whether a timeout has expired. Call it about once a second."""
        now, idle = monotonic(), self.idle_seconds()
        if self._lingering_since is not None:
            return now - self._lingering_since > self._limits.linger
        arriving: Any = self.request
        if arriving is not None and now - arriving.began > self._limits.arrival:
            return True
        if not self.total_outbufs_len:
            self._unsent_since = now
            return idle > self._limits.idle and not self.requests
        return idle > self._limits.idle or now - self._unsent_since > self._limits.response

    def service(self) -> None:
        self._is_refused = self.requests[0].error is not None
        self._unsent_since = monotonic()
        try:
            super().service()
        except HandOver as upgrade:
            vars(self)["server"].trigger.pull_trigger(partial(self._hand_over, upgrade))

    def _hand_over(self, upgrade: HandOver) -> None:
        """Hand over the connection (loop's thread only). If the client has sent more bytes already, they would be lost,
        so the connection is closed instead."""
        if self.connected and self.request is None and len(self.requests) == 1:
            upgrade.take(vars(self)["socket"].dup())
        self.drop()

    def handle_close(self) -> None:
        """Close the connection. After a refusal, only close the sending side when the response is sent. From then on,
        read and drop what the client sends, up to the limits ``linger`` and ``linger_bytes``. waitress calls this twice
        when it cannot send a response, because the client has left."""
        is_sent = self.connected and self.will_close and not self.total_outbufs_len
        if not (self._is_refused and is_sent and self._lingering_since is None):
            self.drop()
            return
        self.will_close = False  # waitress does not read while this is set
        self._lingering_since = monotonic()
        with suppress(OSError):  # if the connection is broken, the next read reports it
            vars(self)["socket"].shutdown(socket.SHUT_WR)

    def drop(self) -> None:
        """Close the connection now."""
        super().handle_close()
        if self.request is not None:
            self.request.close()
            self.request = None


class _Dispatcher(ThreadedTaskDispatcher):
    """The workers, as daemon threads. The queue of waitress is kept, because with sixteen clients a queue of the
    standard library takes 20 % more time."""

    def start_new_thread(self, target: Callable[[int], object], thread_no: int) -> None:
        threading.Thread(target=target, name=f"api-{thread_no}", args=(thread_no,), daemon=True).start()

    def end(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds, by the monotonic clock, for running requests. Drop the queued requests."""
        deadline = monotonic() + timeout
        self.set_thread_count(0)
        with self.lock:
            while self.threads and (remaining := deadline - monotonic()) > 0:
                self.thread_exit_cv.wait(remaining)
            self.queue.clear()


class Loop:
    """The loop and its workers. Call ``listen`` for each socket, then ``turn`` repeatedly from one thread, then
    ``close``. Other threads may call ``call`` and ``end_workers``."""

    def __init__(self, workers: int) -> None:
        # waitress logs a warning for each queued request, but queueing is normal while replays run.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._sockets: dict[int, Any] = {}
        self._servers: list[Any] = []
        self._dispatcher = _Dispatcher()
        self._dispatcher.set_thread_count(workers)

    def listen(self, bound: socket.socket, app: WsgiApp, rules: Rules, **adjustments: Any) -> None:
        """Serve ``app`` on ``bound``; ``adjustments`` are documented arguments of waitress."""
        server: Any = create_server(
            app, map=self._sockets, _dispatcher=self._dispatcher, sockets=[bound], **adjustments
        )
        server.channel_class = partial(Channel, rules)
        server.handle_accept = partial(self._accept_some, server.handle_accept)
        self._servers.append(server)

    def turn(self, seconds: float) -> None:
        """Wait up to ``seconds`` for ready connections; read from them and write to them."""
        wasyncore.poll2(seconds, self._sockets)

    def connections(self) -> list[Channel]:
        return [found for found in list(self._sockets.values()) if isinstance(found, Channel)]

    def call(self, action: Callable[[], object]) -> None:
        """Run ``action`` in the loop's thread, without waiting for it."""
        with suppress(OSError):  # the loop may have run the action and ended before the trigger was written
            self._servers[0].trigger.pull_trigger(action)

    def stop_accepting(self) -> None:
        """Close the listening sockets (loop's thread only). The triggers stay open: they wake the loop."""
        for server in self._servers:
            wasyncore.dispatcher.close(server)

    def end_workers(self, timeout: float) -> None:
        self._dispatcher.end(timeout)

    def close(self) -> None:
        for channel in self.connections():
            channel.drop()
        wasyncore.close_all(self._sockets, ignore_all=True)
        for server in self._servers:
            server.trigger.close()

    def _accept_some(self, accept_one: Callable[[], None]) -> None:
        """Accept up to 64 connections at once. waitress accepts one per turn of the loop."""
        for _ in range(_ACCEPTED_AT_ONCE):
            before = len(self._sockets)
            accept_one()
            if len(self._sockets) == before:
                return
