"""One connection: a worker stays with it for the next request, and slow or idle clients are cut off."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Self

from marketdata.api.failures import (
    BadRequest,
    HeadersTooLarge,
    InternalError,
    UnknownCoding,
    internal_error,
    problem,
    status_line,
)
from marketdata.api.http import Reply
from marketdata.api.listener.admission import Admit
from marketdata.api.listener.parser import Bodies, Parser
from marketdata.api.waitress_adapter import Cause, Connection
from marketdata.errors import MarketError, TooLarge

RECEIVE_BYTES = 64 * 1024
IDLE_SECONDS = 60
"""How long a connection may stay without any bytes sent or received, and how far a client may fall behind
``LEAST_RATE``."""

LEAST_RATE = 256 * 1024
"""Bytes per second that a client must take of an answer while a worker waits to write the rest. A stream beyond
waitress' buffer of 16 MiB occupies a worker, a database connection and its transaction until it ends."""

CROWDED_SECONDS = 5.0
"""Replaces ``IDLE_SECONDS`` for a client that falls behind ``LEAST_RATE`` while requests queue for a worker. Shorter
would be unfair: the system's buffers empty in bursts of up to a megabyte."""

STAY_MS = 2
"""How long a worker waits for the next request on the connection that it has just served, when no request queues and
another worker is idle. The kernel rounds it up to its clock ticks, 4 to 10 milliseconds."""

LINGER_BYTES = 64 * 1024 * 1024
LINGER_SECONDS = 30.0
"""How much is read and dropped, and for how long, after a request was refused before it was read to its end."""

_PROTOCOL_ERRORS: Mapping[int, type[MarketError]] = {
    413: TooLarge,
    431: HeadersTooLarge,
    500: InternalError,
    501: UnknownCoding,
}


class _Socket(socket.socket):
    """The worker reads with a 2 ms receive timeout, which saves one switch of the GIL. All other calls are
    non-blocking."""

    @classmethod
    def of(cls, accepted: socket.socket) -> Self:
        made = cls(accepted.family, accepted.type, accepted.proto, accepted.detach())
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, STAY_MS * 1000))
        return made

    def receive(self, size: int) -> bytes:
        """What arrives within ``STAY_MS``; BlockingIOError when nothing does."""
        return super().recv(size)

    def recv(self, size: int, flags: int = 0) -> bytes:
        return super().recv(size, flags | socket.MSG_DONTWAIT)

    def send(self, data: Any, flags: int = 0) -> int:
        return super().send(data, flags | socket.MSG_DONTWAIT)

    def send_parts(self, *parts: bytes) -> int:
        return self.sendmsg(parts, (), socket.MSG_DONTWAIT)


class Channel(Connection):
    """From the arrival of a request on, the worker that serves it also reads the next one: a client that keeps its
    connection usually sends it at once, and no thread has to wake another."""

    _arriving_since: float | None = None
    _is_waited_for = False
    _paid_until = 0.0
    """Until when the bytes that the client has taken satisfy ``LEAST_RATE``."""
    _discarded = 0
    _discarding_since: float | None = None

    def __init__(
        self,
        bodies: Bodies,
        body_bytes: int,
        admit: Admit,
        server: Any,
        accepted: socket.socket,
        *rest: Any,
        **named: Any,
    ) -> None:
        connection = _Socket.of(accepted)
        super().__init__(server, connection, *rest, **named)
        connection.setblocking(True)
        self._bodies = bodies
        self._body_bytes = body_bytes
        self._admit = admit
        self.moved_at = monotonic()
        """When bytes were last sent or received, in monotonic seconds."""

    def new_request(self, options: Any) -> Parser:
        return Parser(options, self._bodies, self._admit)

    def refusal(self, cause: Cause) -> tuple[str, list[tuple[str, str]], bytes]:
        reply = cause if isinstance(cause, Reply) else problem(self._protocol_error(*cause))
        assert isinstance(reply.body, bytes)
        return status_line(reply.status), [("Content-Type", reply.media_type), *reply.headers], reply.body

    def _protocol_error(self, status: int, reason: str) -> MarketError:
        kind = _PROTOCOL_ERRORS.get(status, BadRequest)
        if kind is TooLarge:
            return TooLarge.body(self._body_bytes)
        if kind is InternalError:
            return internal_error()
        return kind(f"the request cannot be read: {reason}")

    # -- a worker's turn -----------------------------------------------------------------------------------------------

    def attend(self) -> None:
        self._advance()
        while self._has_next():
            self._advance()
        self.leave()

    def _advance(self) -> None:
        """Answer one request, or decide on one whose caller the loop's thread could not check."""
        request = self.arriving
        if self.has_request:
            self.serve()
            self.moved_at = monotonic()
        elif request is not None and request.is_held:
            request.decide(may_block=True)
            self.resume()

    def _has_next(self) -> bool:
        """Whether there is more to do here, now or within a moment, while nothing else needs this worker."""
        workers = self.workers
        while self.connected and not (self.lingers or self.has_output or workers.is_wanted):
            if self.has_request or self.is_held:
                return True
            if not workers.has_idle or not self._receive():
                return False
        return False

    def _receive(self) -> bool:
        """Receive what the client sends within ``STAY_MS``; False when it sends nothing."""
        try:
            data = self.socket.receive(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except (OSError, AttributeError):  # ended by the client, or closed by the loop, which removes the socket
            data = b""
        if data:
            self.received(data)
        else:
            self.will_close = True
        return True

    # -- progress ------------------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> bool:
        self.moved_at = monotonic()
        result = super().received(data)
        if self.arriving is None:
            self._arriving_since = None
        elif self._arriving_since is None:
            self._arriving_since = self.moved_at
        return result

    def discard(self, data: bytes) -> None:
        self._discarded += len(data)
        if self._discarded > LINGER_BYTES:
            self.handle_close()

    def write_now(self, head: bytes, body: bytes) -> None:
        """Send a whole answer. Only what the system does not take at once is buffered: the copies of the buffers cost
        more than a cached answer."""
        sent = 0
        with self.outbuf_lock:
            if self.connected and not self.unsent:
                with suppress(OSError):  # write_soon meets the same error and handles it
                    sent = self.socket.send_parts(head, body)
                self.moved_at = monotonic()
            if sent < len(head) + len(body):
                self.write_soon((head + body)[sent:])

    def write_soon(self, data: bytes) -> int:
        if not self.unsent:
            self._paid_until = monotonic()  # until now there was nothing to take
        written: int = super().write_soon(data)
        return written

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        if sent:
            self.moved_at = monotonic()
        self._paid_until = min(self._paid_until + sent / LEAST_RATE, monotonic())
        return sent

    def wait_for_client(self, wait: Callable[[], None]) -> None:
        self._is_waited_for = True
        try:
            wait()
        finally:
            self._is_waited_for = False

    # -- limits of time ------------------------------------------------------------------------------------------------

    def is_overdue(self, arrival_seconds: float, *, crowded: bool) -> bool:
        """Whether the connection is to be closed: its request takes too long to arrive, no bytes move, its client does
        not take its answer, or ignores a refusal."""
        now = monotonic()
        if self._arriving_since is not None and now - self._arriving_since > arrival_seconds:
            return True
        if self._is_waited_for and now - self._paid_until > (CROWDED_SECONDS if crowded else IDLE_SECONDS):
            return True
        if self.is_discarding:
            self._discarding_since = self._discarding_since or now
            return now - self._discarding_since > LINGER_SECONDS
        is_waiting = bool(self.unsent) or not self.has_request
        return is_waiting and now - self.moved_at > IDLE_SECONDS

    def is_unused(self, seconds: float) -> bool:
        """Whether for so long no bytes moved, and no answer is under way."""
        is_quiet = not (self.has_request or self.attended or self.unsent)
        return is_quiet and monotonic() - self.moved_at >= seconds
