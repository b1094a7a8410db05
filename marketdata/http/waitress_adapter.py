"""Adapts waitress' parser of requests. Only this module imports waitress.

The parser refuses ambiguous framing, asks for permission before it keeps the body, and limits the total size of all
bodies.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from waitress.adjustments import Adjustments
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver, FixedStreamReceiver
from waitress.utilities import BadRequest as MalformedRequest
from waitress.utilities import Error

from marketdata.errors import MarketError, Saturated, TooLarge
from marketdata.http.chunked_coding import ChunkedDecoder, MalformedChunk
from marketdata.http.failures import BadRequest, HeadersTooLarge, Problem, UnknownCoding
from marketdata.http.reply import Reply
from marketdata.http.request_log import VARIABLE, identify
from marketdata.http.spool import Spool
from marketdata.http.wsgi import variable

Admit = Callable[[Mapping[str, str], bool], int | Spool | Reply | None]
"""``admit(head, may_block)`` returns the maximum size of the body in bytes, or the spool that keeps it, or the reply
that refuses the request.

It returns None if the decision needs the database and ``may_block`` is False. ``head`` contains ``REMOTE_ADDR`` and the
variables of the WSGI environment that come from the request's head.
"""

UNCOUNTED_BYTES = 16 * 1024
"""A body up to this size is not counted, so single ticks are accepted even while large batches are refused."""

BODIES_BYTES = 128 * 1024 * 1024
"""Maximum total of the counted bodies that are arriving or being handled: 16 bodies of the maximum size."""

HEADER_BYTES = 16 * 1024

_PROTOCOL_ERRORS: Mapping[int, type[MarketError]] = {431: HeadersTooLarge, 501: UnknownCoding}

_FOLDED = re.compile(rb"\n[ \t]")
"""A line that begins with white space (RFC 9112, section 5.2). waitress would append it to the line before it, and
another program may read it as a field or as the end of the head."""

_HOST = re.compile(r"[^\s,/?#@\\]*")
"""One host. waitress joins the values of a repeated Host header with a comma, and a comma does not match."""


def parser_options(body_bytes: int) -> Any:
    """The options of waitress; ``body_bytes`` is the maximum size of a body."""
    return Adjustments(
        ident=None,
        max_request_header_size=HEADER_BYTES,
        max_request_body_size=body_bytes + 1,  # waitress refuses a body of this size or more
        log_socket_errors=False,
    )


class BodyBudget:
    """Limits the total size of all request bodies of a listener. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """The bytes that are free."""
        return self._left

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes; returns False and reserves nothing if fewer are free."""
        with self._lock:
            has_room = size <= self._left
            if has_room:
                self._left -= size
        return has_room

    def release(self, size: int) -> None:
        with self._lock:
            self._left += size


class _StrictChunks(ChunkedReceiver):
    def __init__(self, buffer: Any) -> None:
        super().__init__(buffer)
        self._decoder = ChunkedDecoder(buffer.append)

    def received(self, data: bytes) -> int:
        try:
            return self._decoder.feed(data)
        except MalformedChunk as error:
            self.error = MalformedRequest(str(error))
            return len(data)
        finally:
            self.completed = self._decoder.is_complete


class RequestParser(HTTPRequestParser):
    """Parses one request. ``admit`` is called when the head is complete, unless a small body arrived with the head.

    Inherited: ``completed`` (the whole request has arrived, or it is refused), ``empty`` (only blank lines have
    arrived) and ``close`` (drops the body; may be called repeatedly).
    """

    path = ""
    is_held = False
    """Whether the request waits for ``decide(may_block=True)``."""

    def __init__(self, options: Any, bodies: BodyBudget, admit: Admit, refusal: Problem, address: str) -> None:
        """``address`` is the client's IP address."""
        super().__init__(options)
        self._bodies = bodies
        self._admit = admit
        self._refusal = refusal
        self._address = address
        self._body_limit = UNCOUNTED_BYTES
        self._reserved = 0
        self._spool: Spool | None = None
        self._reply: Reply | None = None

    @property
    def spooled(self) -> int:
        """The size of the body so far, if a spool keeps it."""
        return len(self._spool) if self._spool is not None else 0

    @property
    def is_refused(self) -> bool:
        return self.error is not None

    @property
    def reply(self) -> Reply:
        """The reply to a refused request. An error of waitress is translated."""
        if self._reply is not None:
            return self._reply
        error: Any = self.error
        if error.code == 413:
            return self._refusal(TooLarge.body(self.adj.max_request_body_size - 1))
        kind = _PROTOCOL_ERRORS.get(error.code, BadRequest)
        return self._refusal(kind(f"the request cannot be read: {error.body}"))

    def feed(self, data: bytes) -> int:
        """Parse ``data``. Returns the number of its bytes that belong to this request."""
        is_body = self.headers_finished
        if self._spool is not None:
            self.body_bytes_received = 0  # waitress would count the frames of chunks, too
        try:
            consumed: int = self.received(data)
        except OSError as error:
            if self._spool is None:
                raise
            self.refuse(self._refusal(self._spool.refusal(error)))
            return len(data)
        if self.error is None:
            if is_body:
                self._count()
            elif self.headers_finished and not self.empty:
                self._check_head(len(data) - consumed)
        return consumed

    def takes_continue(self) -> bool:
        """Whether 100 Continue must be sent now; True at most once."""
        is_due = bool(self.expect_continue and self.headers_finished and not (self.is_held or self.completed))
        if is_due:
            self.expect_continue = False
        return is_due

    def decide(self, *, may_block: bool) -> None:
        """Accept or refuse the request, or hold it if ``admit`` must block and ``may_block`` is False."""
        verdict = self._admit(self._head(), may_block)
        self.is_held = verdict is None
        if isinstance(verdict, Reply):
            self.refuse(verdict)
        elif verdict is not None:
            if isinstance(verdict, Spool):
                self._keep_in(verdict)
                verdict = verdict.limit
            self._body_limit = max(verdict, UNCOUNTED_BYTES)
            if self.content_length > self._body_limit:
                self.refuse(self._refusal(TooLarge.body(self._body_limit)))

    def reserve(self, size: int) -> bool:
        """Count ``size`` bytes, which the application makes of the body, until ``close``. Returns False if there are
        too many bodies."""
        has_room = self._bodies.reserve(size)
        if has_room:
            self._reserved += size
        return has_room

    def refuse(self, reply: Reply) -> None:
        """Refuse the request with ``reply`` and drop the body."""
        self._reply = reply
        self.error = Error(reply.media_type)
        self.completed = True
        self.close()

    def close(self) -> None:
        super().close()
        self._bodies.release(self._reserved)
        self._reserved = 0

    def parse_header(self, header_plus: bytes) -> None:
        if _FOLDED.search(header_plus):
            raise ParsingError("a header line begins with white space")
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # from urlsplit, or because a number has more than 4300 digits
            raise ParsingError("the request line or Content-Length is malformed") from error
        if self.body_rcv is not None and self.chunked:
            self.body_rcv = _StrictChunks(self.body_rcv.getbuf())

    def _keep_in(self, spool: Spool) -> None:
        self._spool = spool
        buffer: Any = spool
        self.body_rcv = _StrictChunks(buffer) if self.chunked else FixedStreamReceiver(self.content_length, buffer)

    def _check_head(self, following: int) -> None:
        fault = self._ambiguity()
        if fault is not None:
            self.refuse(self._refusal(fault))
        elif self.chunked or self.content_length > min(following, UNCOUNTED_BYTES):
            self.decide(may_block=False)

    def _ambiguity(self) -> MarketError | None:
        """Returns an error if the request does not name exactly one host (RFC 9112, section 3.2), or if the length of
        its body is ambiguous (section 6.1)."""
        headers = self.headers
        if self.version != "1.0" and "HOST" not in headers:
            return BadRequest("HTTP/1.1 requires a Host header")
        if not _HOST.fullmatch(headers.get("HOST", "")):
            return BadRequest("the Host header must name one host")
        if "TRANSFER_ENCODING" in headers:
            return BadRequest("Transfer-Encoding requires HTTP/1.1")
        if self.chunked and "CONTENT_LENGTH" in headers:
            return BadRequest("Content-Length and Transfer-Encoding exclude each other")
        return None

    def _head(self) -> Mapping[str, str]:
        path = "/" + self.path.lstrip("/") if self.path.startswith("/") else self.path
        fields = {variable(name): value for name, value in self.headers.items()}
        derived = {"REQUEST_METHOD": str(self.command), "PATH_INFO": path, "REMOTE_ADDR": self._address}
        return {**fields, **derived, VARIABLE: identify(self)}

    def _count(self) -> None:
        size = self.body_bytes_received if self._spool is None else self.spooled
        if size <= UNCOUNTED_BYTES:
            return
        if size > self._body_limit:
            self.refuse(self._refusal(TooLarge.body(self._body_limit)))
        elif self._spool is not None:
            return  # it is not in memory
        elif self._bodies.reserve(size - self._reserved):
            self._reserved = size
        else:
            detail = "too many request bodies are arriving; send this one again a little later, or in parts"
            self.refuse(self._refusal(Saturated(detail)))
