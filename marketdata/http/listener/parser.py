"""Checks a request while it arrives: refuses ambiguous framing, authenticates before the body is kept, and limits the
total size of all bodies."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

from marketdata.errors import MarketError, Saturated, TooLarge
from marketdata.http.failures import BadRequest, Problem
from marketdata.http.listener.admission import Admit
from marketdata.http.reply import Reply
from marketdata.http.request_log import VARIABLE, identify
from marketdata.http.waitress_adapter import RequestParser

UNCOUNTED_BYTES = 16 * 1024
"""A body up to this size does not count, so single ticks are accepted while large batches are refused."""

BODIES_BYTES = 128 * 1024 * 1024
"""Maximum total of the counted bodies that are arriving or being handled: 16 bodies of the maximum size."""

_HOST = re.compile(r"[^\s,/?#@\\]*")
"""One host. waitress joins the values of a repeated Host header with a comma, which does not match."""


class BodyBudget:
    """Limits the total size of all request bodies of a listener. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

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


class Parser(RequestParser):
    """Calls ``admit`` when the head is complete, unless the body is small and arrived together with the head."""

    def __init__(self, options: Any, bodies: BodyBudget, admit: Admit, refusal: Problem, address: str) -> None:
        """``address`` is the client's."""
        super().__init__(options)
        self._bodies = bodies
        self._admit = admit
        self._refusal = refusal
        self._address = address
        self._body_limit = UNCOUNTED_BYTES
        self._reserved = 0
        self._held_bytes = b""

    def receive(self, data: bytes) -> int:
        if self.is_held:
            self._held_bytes += data
            return len(data)
        is_body = self.has_head
        consumed = self.parse(data)
        if not self.is_refused:
            if is_body:
                self._count()
            elif self.has_head and not self.is_blank:
                self._check_head(len(data) - consumed)
        if not self.is_refused:
            return consumed
        self.wants_continue = False
        return len(data)  # drop the rest: the connection is closed after the refusal

    def decide(self, *, may_block: bool) -> None:
        """Accept or refuse the request; hold it if ``admit`` has to block and ``may_block`` is False."""
        verdict = self._admit(self._head(), may_block)
        if verdict is None:
            self.is_held = True
            self.has_head = False  # prevents 100 Continue
        elif isinstance(verdict, Reply):
            self._refuse(verdict)
        else:
            self._body_limit = max(verdict, UNCOUNTED_BYTES)
            if self.content_length > self._body_limit:
                self._refuse(self._refusal(TooLarge.body(self._body_limit)))

    def release(self) -> bytes:
        """Stop holding the request; returns the bytes that arrived while it was held."""
        self.is_held = False
        self.has_head = True
        held, self._held_bytes = self._held_bytes, b""
        return held

    def close(self) -> None:
        super().close()
        self._bodies.release(self._reserved)
        self._reserved = 0

    def _check_head(self, following: int) -> None:
        if not self.has_body:
            self.wants_continue = False  # waitress would send 100 Continue in place of the answer
        fault = self._ambiguity()
        if fault is not None:
            self._refuse(self._refusal(fault))
        elif self.chunked or self.content_length > min(following, UNCOUNTED_BYTES):
            self.decide(may_block=False)

    def _ambiguity(self) -> MarketError | None:
        """The error for a request that does not name exactly one host (RFC 9112, section 3.2), or whose body length is
        ambiguous (section 6.1)."""
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
        plain = ("CONTENT_TYPE", "CONTENT_LENGTH")
        fields = {name if name in plain else f"HTTP_{name}": value for name, value in self.headers.items()}
        own = {"REQUEST_METHOD": str(self.command), "PATH_INFO": path, "REMOTE_ADDR": self._address}
        return {**fields, **own, VARIABLE: identify(self)}

    def _count(self) -> None:
        size = self.body_bytes_received
        if size <= UNCOUNTED_BYTES:
            return
        if size > self._body_limit:
            self._refuse(self._refusal(TooLarge.body(self._body_limit)))
        elif self._bodies.reserve(size - self._reserved):
            self._reserved = size
        else:
            detail = "too many request bodies are arriving; send this one again a little later, or in parts"
            self._refuse(self._refusal(Saturated(detail)))

    def _refuse(self, reply: Reply) -> None:
        """Answer with ``reply`` and drop the body."""
        self.fail(reply)
        self.is_complete = True
        self.wants_continue = False
        self.close()
