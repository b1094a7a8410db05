"""One connection: its worker also receives the next request; connections of slow or idle clients are closed."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Self

from marketdata.errors import MarketError, TooLarge
from marketdata.http.failures import (
    BadRequest,
    HeadersTooLarge,
    InternalError,
    Problem,
    UnknownCoding,
    internal_error,
    status_line,
)
from marketdata.http.listener.admission import Admit
from marketdata.http.listener.parser import BodyBudget, Parser
from marketdata.http.reply import Headers, Reply
from marketdata.http.waitress_adapter import Cause, Connection

RECEIVE_BYTES = 64 * 1024
IDLE_SECONDS = 60
"""A connection is closed after this long without traffic, and when its client is this far behind ``MIN_RATE``."""

MIN_RATE = 256 * 1024
"""Bytes per second that a client must read while a worker blocks on it. An answer that exceeds waitress' buffer of
16 MiB occupies a worker, a database connection and a transaction until it ends."""

CROWDED_SECONDS = 5.0
"""Replaces ``IDLE_SECONDS`` for a client behind ``MIN_RATE`` while requests queue for a worker. Not shorter, because
the buffers of the kernel empty in bursts of up to a megabyte."""

NEXT_REQUEST_MS = 2
"""How long a worker waits for the next request on the connection that it has just served, if no request is queued and
another worker is idle. The kernel rounds this up to its tick of 4 to 10 milliseconds."""

LINGER_BYTES = 64 * 1024 * 1024
LINGER_SECONDS = 30.0
"""After a refusal the rest of the request is read and dropped up to these bounds."""

_PROTOCOL_ERRORS: Mapping[int, type[MarketError]] = {
    413: TooLarge,
    431: HeadersTooLarge,
    500: InternalError,
    501: UnknownCoding,
}


class _Socket(socket.socket):
    """A blocking socket with a receive timeout of 2 ms, used by ``receive``. All other methods do not block.

    Waiting in recv(2) instead of poll(2) and recv(2) saves one switch of the GIL.
    """

    @classmethod
    def of(cls, accepted: socket.socket) -> Self:
        made = cls(accepted.family, accepted.type, accepted.proto, accepted.detach())
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, NEXT_REQUEST_MS * 1000))
        return made

    def receive(self, size: int) -> bytes:
        """Wait up to ``NEXT_REQUEST_MS`` for data; BlockingIOError if none arrives."""
        return super().recv(size)

    def recv(self, size: int, flags: int = 0) -> bytes:
        return super().recv(size, flags | socket.MSG_DONTWAIT)

    def send(self, data: Any, flags: int = 0) -> int:
        return super().send(data, flags | socket.MSG_DONTWAIT)

    def send_parts(self, *parts: bytes) -> int:
        return self.sendmsg(parts, (), socket.MSG_DONTWAIT)


class Channel(Connection):
    """A connection whose worker also reads the next request.

    Most clients send the next request at once, so no thread has to wake another one for it.
    """

    _arriving_since: float | None = None
    _is_blocking = False
    _rate_met_until = 0.0
    """The client has read at ``MIN_RATE`` up to this time; when it is in the past, the client is behind."""
    _discarded = 0
    _discarding_since: float | None = None

    def __init__(
        self,
        bodies: BodyBudget,
        body_bytes: int,
        admit: Admit,
        refusal: Problem,
        refusal_headers: Headers,
        urgent: frozenset[str],
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
        self._refusal = refusal
        self._refusal_headers = refusal_headers
        self._urgent = urgent
        self.moved_at = monotonic()
        """The time of the last traffic, in monotonic seconds."""

    def new_request(self, options: Any) -> Parser:
        return Parser(options, self._bodies, self._admit, self._refusal, self.address)

    def refusal(self, cause: Cause) -> tuple[str, list[tuple[str, str]], bytes]:
        reply = cause if isinstance(cause, Reply) else self._refusal(self._protocol_error(*cause))
        assert isinstance(reply.body, bytes)
        fields = [("Content-Type", reply.media_type), *reply.headers, *self._refusal_headers]
        return status_line(reply.status), fields, reply.body

    def _protocol_error(self, status: int, reason: str) -> MarketError:
        kind = _PROTOCOL_ERRORS.get(status, BadRequest)
        if kind is TooLarge:
            return TooLarge.body(self._body_bytes)
        if kind is InternalError:
            return internal_error()
        return kind(f"the request cannot be read: {reason}")

    @property
    def is_urgent(self) -> bool:
        """Whether the next request is for a path that must be answered while all workers are busy."""
        return self.next_path in self._urgent

    # -- in a worker ---------------------------------------------------------------------------------------------------

    def run_in_worker(self) -> None:
        self._advance()
        while self._has_next():
            self._advance()
        self.return_to_loop()

    def _advance(self) -> None:
        """Answer one complete request, or authenticate a held one: the loop's thread must not block on the database."""
        request = self.arriving
        if self.has_request:
            self.serve()
            self.moved_at = monotonic()
        elif request is not None and request.is_held:
            request.decide(may_block=True)
            self.resume()

    def _has_next(self) -> bool:
        """Whether a request has arrived, or arrives within ``NEXT_REQUEST_MS``. False if a task is queued."""
        workers = self.workers
        if workers.is_reserved_thread():
            return False
        while self.connected and not (self.lingers or self.has_output or workers.has_pending):
            if self.has_request or self.is_held:
                return True
            if not workers.has_idle or not self._receive():
                return False
        return False

    def _receive(self) -> bool:
        """Receive data for up to ``NEXT_REQUEST_MS``; False if none arrives."""
        try:
            data = self.socket.receive(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except (OSError, AttributeError):  # reset by the client, or closed by the loop, which deletes the attribute
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
        """Send a whole answer and buffer only the part that the kernel does not accept at once.

        Copying into waitress' buffers takes longer than producing an answer from the cache.
        """
        sent = 0
        with self.outbuf_lock:
            if self.connected and not self.unsent:
                with suppress(OSError):  # write_soon gets the same error and handles it
                    sent = self.socket.send_parts(head, body)
                self.moved_at = monotonic()
            if sent < len(head) + len(body):
                self.write_soon((head + body)[sent:])

    def write_soon(self, data: bytes) -> int:
        if not self.unsent:
            self._rate_met_until = monotonic()  # there was nothing to read before
        written: int = super().write_soon(data)
        return written

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        if sent:
            self.moved_at = monotonic()
        self._rate_met_until = min(self._rate_met_until + sent / MIN_RATE, monotonic())
        return sent

    def wait_for_client(self, wait: Callable[[], None]) -> None:
        self._is_blocking = True
        try:
            wait()
        finally:
            self._is_blocking = False

    # -- timeouts ------------------------------------------------------------------------------------------------------

    def is_overdue(self, arrival_seconds: float, *, crowded: bool) -> bool:
        """Whether the connection has to be closed.

        Reasons: its request takes too long to arrive, there is no traffic, its client reads the answer too slowly, or
        its client keeps sending after a refusal. ``crowded``: requests queue for a worker.
        """
        now = monotonic()
        if self._arriving_since is not None and now - self._arriving_since > arrival_seconds:
            return True
        if self._is_blocking and now - self._rate_met_until > (CROWDED_SECONDS if crowded else IDLE_SECONDS):
            return True
        if self.is_discarding:
            self._discarding_since = self._discarding_since or now
            return now - self._discarding_since > LINGER_SECONDS
        is_waiting = bool(self.unsent) or not self.has_request
        return is_waiting and now - self.moved_at > IDLE_SECONDS

    def is_unused(self, seconds: float) -> bool:
        """Whether no request is being served and there was no traffic for ``seconds``."""
        is_quiet = not (self.has_request or self.is_in_worker or self.unsent)
        return is_quiet and monotonic() - self.moved_at >= seconds
