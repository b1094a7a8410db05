"""A connection of the listener. At any time one thread owns it: the listener's loop, or the worker that answers its
request."""

from __future__ import annotations

import logging
import select
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from time import monotonic
from typing import Any

from marketdata.http.failures import Problem, internal_error
from marketdata.http.response_task import ApplicationTask, RefusalTask, Task
from marketdata.http.waitress_adapter import Admit, BodyBudget, RequestParser
from marketdata.http.workers import Workers
from marketdata.http.wsgi import HandOver, Part, WsgiApp

RECEIVE_BYTES = 64 * 1024
_SPOOL_READ_BYTES = 128 * 1024
MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""If more bytes than this are unsent, the worker waits until the client has read all of them. Up to
``MAX_UNSENT_IN_MEMORY`` unsent bytes are kept in memory. If there are more, all are kept in a temporary file."""
MAX_UNSENT_IN_MEMORY = 1024 * 1024
MIN_RATE = 256 * 1024
"""Bytes per second that a client must read while a worker waits, because meanwhile the worker, a database connection
and a transaction are occupied."""

NEXT_REQUEST_MS = 2
"""How long a worker waits for the next request on a connection that it has just served, if no request is queued and
another worker is idle. Most clients send the next request at once. The waiting worker then answers it, and no thread
has to wake another one. The kernel rounds the time up to its tick of 4 to 10 milliseconds."""

IDLE_SECONDS = 60.0
"""A connection without traffic is closed after this time."""

MIN_SPOOL_RATE = 64 * 1024
"""Bytes per second at which a spooled body must arrive on average. A body of 256 MiB may take an hour and ten
minutes."""

LINGER_BYTES = 64 * 1024 * 1024
LINGER_SECONDS = 30.0
"""After a refusal, the rest of the request is read and dropped up to these limits."""

_READ = select.EPOLLIN | select.EPOLLONESHOT
_WRITE = select.EPOLLOUT | select.EPOLLONESHOT

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What a client may take. The module's constants say what each means."""

    idle_seconds: float = IDLE_SECONDS
    linger_bytes: int = LINGER_BYTES
    linger_seconds: float = LINGER_SECONDS
    unsent_bytes: int = MAX_UNSENT_BYTES
    rate: int = MIN_RATE


USUAL = Limits()


@dataclass(frozen=True)
class Server:
    """The parts that all connections of a listener share."""

    application: WsgiApp
    options: Any
    """The options of waitress' parser."""
    bodies: BodyBudget
    admit: Admit
    refusal: Problem
    urgent: frozenset[str]
    workers: Workers
    poll: select.epoll
    limits: Limits
    connections: dict[int, Connection] = field(default_factory=dict)
    """The open connections by descriptor."""


class Connection:
    """A connection to one client. To wait for the client, the owner arms the listener's epoll object for one event on
    the connection. From then on the loop owns the connection, and reads until a request is complete. While a worker
    owns the connection, epoll is not armed for it."""

    def __init__(self, server: Server, accepted: socket.socket, address: Any) -> None:
        self.socket = accepted
        self.server = server
        self.addr = address
        self.request: RequestParser | None = None
        """The request that is arriving or being answered."""
        self.moved_at = monotonic()
        """The time of the last traffic, in monotonic seconds."""
        self.is_in_worker = False
        self.unsent = 0
        """Bytes of responses that the kernel has not accepted yet."""
        self.discarded = 0
        self.discarding_since: float | None = None
        self._arriving_since: float | None = None
        self._input = b""
        self._parts: list[Part] = []
        self._response: Task | None = None
        self._spool: SpooledTemporaryFile[bytes] | None = None
        self._sent_of_spool = 0
        self._is_last = self._lingers = self.is_cut = False
        self._descriptor = accepted.fileno()
        server.connections[self._descriptor] = self
        server.poll.register(self._descriptor, _READ)

    @property
    def is_open(self) -> bool:
        return self.socket.fileno() >= 0

    # -- ownership -----------------------------------------------------------------------------------------------------

    def proceed(self) -> None:
        """Called in the loop's thread, after an event."""
        self._run(in_worker=False)

    def service(self, *, is_reserved: bool) -> None:
        """Called in a worker: answer the request, and the next ones if they arrive soon."""
        self._run(in_worker=True, is_reserved=is_reserved)

    def _run(self, *, in_worker: bool, is_reserved: bool = False) -> None:
        try:
            while self.is_open and self._step(in_worker):
                in_worker = in_worker and not is_reserved
        except HandOver as upgrade:
            self._hand_over(upgrade)
        except OSError:  # the client has gone, or the listener was stopped
            self.close()
        except Exception:
            _log.exception("internal error with a connection")
            self.close()

    def _step(self, in_worker: bool) -> bool:
        """Do the next possible step. Returns False if another thread may own the connection now, or it is closed."""
        if self.is_cut:
            self.close()
            return False
        if self.unsent:
            self._send_spool()
            if self.unsent:
                return self._wait_for(_WRITE)
        if self._is_last:
            return self._end()
        request = self.request
        if request is not None and (request.is_held or request.completed):
            if not in_worker and not request.is_refused:
                self.is_in_worker = True
                self.server.workers.add(self, is_urgent=self._is_urgent)
                return False
            if request.is_held:
                request.decide(may_block=True)
                self._continue(request)
            else:
                self._answer(request)
            return True
        if self._input:
            self._parse()
            return True
        if in_worker and not self.server.workers.can_wait:
            return self._wait_for(_READ)
        try:
            self._input = self.socket.recv(RECEIVE_BYTES, 0 if in_worker else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return self._wait_for(_READ)
        if not self._input:
            self.close()
            return False
        self.moved_at = monotonic()
        self._parse()
        # The loop reads only once per event, so that one client does not delay the others.
        return in_worker or self._is_ready or self._wait_for(_READ)

    @property
    def _is_ready(self) -> bool:
        request = self.request
        return bool(self._input) or (request is not None and (request.is_held or request.completed))

    @property
    def _is_urgent(self) -> bool:
        request = self.request
        return request is not None and not request.is_held and request.path in self.server.urgent

    def _wait_for(self, event: int) -> bool:
        self.is_in_worker = False
        self.server.poll.modify(self._descriptor, event)  # from here on another thread may own it
        return False

    # -- requests ------------------------------------------------------------------------------------------------------

    def _parse(self) -> None:
        server = self.server
        if self.request is None:
            self.request = RequestParser(server.options, server.bodies, server.admit, server.refusal, str(self.addr[0]))
            self._arriving_since = self.moved_at
        request = self.request
        self._input = self._input[request.feed(self._input) :]
        if request.completed:
            self._arriving_since = None
            if request.empty:
                self.request = None
        self._continue(request)

    def _continue(self, request: RequestParser) -> None:
        if request.takes_continue():
            self.write_soon(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _answer(self, request: RequestParser) -> None:
        response = self._served(request)
        self._flush()
        request.close()
        self.request = self._response = None
        self.moved_at = monotonic()
        self._is_last = response.close_on_finish
        self._lingers = isinstance(response, RefusalTask)

    def _served(self, request: RequestParser) -> Task:
        response: Task = (RefusalTask if request.is_refused else ApplicationTask)(self, request)
        self._response = response
        try:
            response.service()
        except Exception:
            _log.exception("internal error while answering %r", request.path)
            if response.wrote_header or request.is_refused:
                response.close_on_finish = True
            else:
                request.refuse(self.server.refusal(internal_error()))
                return self._served(request)
        return response

    def _hand_over(self, upgrade: HandOver) -> None:
        """Give the socket away. If the client has already sent more, close the connection, because that input would be
        lost."""
        if self._input:
            self.close()
            return
        self.server.poll.unregister(self._descriptor)  # otherwise epoll would watch the duplicate
        taken = self.socket.dup()
        self.close()
        upgrade.take(taken)

    # -- responses -----------------------------------------------------------------------------------------------------

    @property
    def application(self) -> WsgiApp:
        return self.server.application

    def write_soon(self, data: Part) -> None:
        """Called by the tasks. Raises OSError if the client has gone or reads too slowly."""
        if data:
            self._parts.append(data)
            # The head of a response is not sent alone, but together with the first part of the body.
            if self._response is None or self._response.wrote_header:
                self._flush()
            if self.unsent > self.server.limits.unsent_bytes:
                self._wait_for_client()

    def _flush(self) -> None:
        """Send the collected parts; keep the bytes that the kernel does not accept at once."""
        parts, self._parts = self._parts, []
        if not parts:
            return
        sent = 0
        if not self.unsent:
            with suppress(BlockingIOError):
                sent = self.socket.sendmsg(parts, (), socket.MSG_DONTWAIT)
                self.moved_at = monotonic()
        if left := sum(map(len, parts)) - sent:
            if self._spool is None:
                self._spool = SpooledTemporaryFile(max_size=MAX_UNSENT_IN_MEMORY)  # noqa: SIM115
            self._spool.seek(0, 2)
            self._spool.write(b"".join(parts)[sent:])
            self.unsent += left
            self._send_spool()

    def _send_spool(self) -> None:
        assert self._spool is not None
        while self.unsent:
            self._spool.seek(self._sent_of_spool)
            try:
                sent = self.socket.send(self._spool.read(_SPOOL_READ_BYTES), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self.moved_at = monotonic()
            self._sent_of_spool += sent
            self.unsent -= sent
        self._drop_spool()

    def _drop_spool(self) -> None:
        if self._spool is not None:
            self._spool.close()
        self._spool, self._sent_of_spool, self.unsent = None, 0, 0

    def _wait_for_client(self) -> None:
        """Wait until the client has read everything. The temporary file is then empty."""
        deadline = monotonic() + self.unsent / self.server.limits.rate
        poll = select.poll()
        poll.register(self.socket, select.POLLOUT)
        while self.unsent:
            left = deadline - monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                self.close()
                raise TimeoutError("the client reads too slowly")
            self._send_spool()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _end(self) -> bool:
        """Close the connection. After a refusal, first shut down the sending side and drop the rest of the input (RFC
        9112, section 9.6). Otherwise the connection would be reset, and a client that still writes would lose the
        response."""
        if not self._lingers:
            self.close()
            return False
        if self.discarding_since is None:
            self.discarding_since = monotonic()
            self.discarded, self._input = len(self._input), b""
            self.socket.shutdown(socket.SHUT_WR)
        else:
            dropped = len(self.socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT))
            self.discarded += dropped
            if not dropped or self.discarded > self.server.limits.linger_bytes:
                self.close()
                return False
        return self._wait_for(_READ)

    def is_overdue(self, arrival_seconds: float) -> bool:
        """Whether the request takes too long to arrive, the connection is idle for too long, or the client keeps
        sending after a refusal."""
        now = monotonic()
        if self.request is not None:
            arrival_seconds = arrival_limit(arrival_seconds, self.request.spooled)
        if self._arriving_since is not None and now - self._arriving_since > arrival_seconds:
            return True
        if self.discarding_since is not None:
            return now - self.discarding_since > self.server.limits.linger_seconds
        return now - self.moved_at > self.server.limits.idle_seconds

    def is_unused(self, seconds: float) -> bool:
        """Whether no request is being answered and there was no traffic for ``seconds``."""
        return not (self.is_in_worker or self.unsent or self.is_cut) and monotonic() - self.moved_at >= seconds

    def cut(self) -> None:
        """Make the owner close the connection. Any thread may call this; closing the descriptor here could affect
        another connection that has got the same number."""
        self.is_cut = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Called in the owner's thread; may be called repeatedly."""
        if self.server.connections.get(self._descriptor) is self:
            del self.server.connections[self._descriptor]
        self.socket.close()
        self._drop_spool()
        if self.request is not None:
            self.request.close()


def arrival_limit(arrival_seconds: float, spooled: int) -> float:
    """How many seconds a request may take to arrive, if this many bytes of it are in a file."""
    return arrival_seconds + spooled / MIN_SPOOL_RATE
