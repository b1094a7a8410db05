"""A connection as this service keeps it: what it refuses to parse, when it is closed, and how its failures are told."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import ErrorTask, WSGITask

from cardapp.errors import CardAppError, TooLarge
from cardapp.web.failures import BadRequest, HeadersTooLarge, InternalError, UnknownCoding, problem, status_line
from cardapp.web.gate import secured

IDLE_SECONDS = 60
"""A connection on which nothing moves for so long is closed, a client that does not read its answer too; likewise one
that falls so far behind ``LEAST_RATE``."""

ARRIVAL_SECONDS = 120.0
"""How long one request may take to arrive: a picture over a slow tunnel does it, a client that drips bytes does not."""

UNREAD_BYTES = 1 << 30
"""Bytes of all answers that may lie in temporary files until their clients take them. Only beyond this does a worker
wait for a client, at waitress' 16 MiB: until then it, and the read transaction of a report, end at their own pace."""

LEAST_RATE = 256 * 1024
"""Bytes per second that a client has to take of its answer while a worker waits to write the rest."""

CROWDED_SECONDS = 5.0
"""In place of ``IDLE_SECONDS`` for a client that falls behind ``LEAST_RATE``, while requests queue for a worker. The
system's buffers empty in bursts of up to a megabyte."""


class Patience(NamedTuple):
    """Seconds until a connection is closed: see the constants."""

    arrival: float = ARRIVAL_SECONDS
    idle: float = IDLE_SECONDS
    crowded: float = CROWDED_SECONDS


class Parser(HTTPRequestParser):
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


class Channel(HTTPChannel):
    """One connection; knows for how long its request has been arriving, and how its client keeps up with an answer."""

    parser_class = Parser
    task_class = _Task
    error_task_class = _ProblemTask
    _arriving_since: float | None = None
    _is_waited_for = False
    _paid_until = 0.0
    """The moment up to which the client has taken what ``LEAST_RATE`` asks for."""

    def __init__(self, unread_bytes: int, *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._unread_bytes = unread_bytes

    def received(self, data: bytes) -> bool:
        result: bool = super().received(data)
        if self.request is None:
            self._arriving_since = None
        elif self._arriving_since is None:
            self._arriving_since = monotonic()
        return result

    @property
    def last_activity(self) -> float:
        """When something moved here, in monotonic seconds, whatever time waitress notes."""
        return self._moved

    @last_activity.setter
    def last_activity(self, _wall: float) -> None:
        self._moved = monotonic()

    def write_soon(self, data: bytes) -> int:
        if not self.total_outbufs_len:
            self._paid_until = monotonic()  # until now there was nothing to take
        written: int = super().write_soon(data)
        return written

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        self._paid_until = min(self._paid_until + sent / LEAST_RATE, monotonic())
        return sent

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Where waitress lets a worker wait until its client has taken enough; here only with much unread by all."""
        if self.total_outbufs_len <= self.adj.outbuf_high_watermark or self._unread() < self._unread_bytes:
            return
        inherited: Any = super()  # whose annotations leave this out
        self._is_waited_for = True
        try:
            inherited._flush_outbufs_below_high_watermark()
        finally:
            self._is_waited_for = False

    def _unread(self) -> int:
        """Bytes of answers on all connections of this one's loop."""
        connections: Any = vars(self)["_map"]  # which the annotations leave out too
        return sum(found.total_outbufs_len for found in list(connections.values()) if isinstance(found, Channel))

    def is_overdue(self, patience: Patience, *, crowded: bool) -> bool:
        """Whether its request should have arrived by now, nothing moves on it, or its client does not read on."""
        now = monotonic()
        if self._arriving_since is not None and now - self._arriving_since > patience.arrival:
            return True
        if not self.total_outbufs_len:
            return not self.requests and now - self._moved > patience.idle
        if self._is_waited_for and now - self._paid_until > (patience.crowded if crowded else patience.idle):
            return True
        return now - self._moved > patience.idle

    def is_unused(self, seconds: float) -> bool:
        """Whether for so long nothing moved on it, and no answer to it is under way."""
        is_quiet = not (self.requests or self.total_outbufs_len)
        return is_quiet and monotonic() - self._moved >= seconds

    def handle_close(self) -> None:
        super().handle_close()
        if self.request is not None:
            self.request.close()
            self.request = None
