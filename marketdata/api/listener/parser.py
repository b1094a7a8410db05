"""One request as it arrives: ambiguous ones are refused, the caller is checked before a body is kept, and all bodies
together are bounded."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

from marketdata.api.failures import BadRequest, problem
from marketdata.api.http import Reply
from marketdata.api.listener.admission import Admit
from marketdata.api.waitress_adapter import RequestParser
from marketdata.errors import MarketError, Saturated, TooLarge

FREE_BYTES = 16 * 1024
"""A body up to this size is not counted, like the head before it: single ticks pass while big batches are refused."""

BODIES_BYTES = 128 * 1024 * 1024
"""Maximum total of the larger bodies that are arriving or being handled: 16 of the largest."""

_HOST = re.compile(r"[^\s,/?#@\\]*")
"""The values of a repeated Host header arrive joined by a comma and a space."""


class Bodies:
    """The bytes that all bodies of one listener together may still take."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take ``size`` bytes; False, and nothing is taken, when fewer are left."""
        with self._lock:
            has_room = size <= self._left
            if has_room:
                self._left -= size
        return has_room

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class Parser(RequestParser):
    """``admit`` decides on a request when its head is complete, unless its body is small and arrived with the head."""

    def __init__(self, options: Any, bodies: Bodies, admit: Admit) -> None:
        super().__init__(options)
        self._bodies = bodies
        self._admit = admit
        self._most = FREE_BYTES
        self._taken = 0
        self._aside = b""

    def receive(self, data: bytes) -> int:
        if self.is_held:
            self._aside += data
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
        return len(data)  # the refusal ends the connection: what follows is no request

    def decide(self, *, may_block: bool) -> None:
        """Admit the request, refuse it, or hold it while only a thread that may block can decide."""
        verdict = self._admit(self._head(), may_block)
        if verdict is None:
            self.is_held = True
            self.has_head = False  # no 100 Continue yet
        elif isinstance(verdict, Reply):
            self._refuse(verdict)
        else:
            self._most = max(verdict, FREE_BYTES)
            if self.content_length > self._most:
                self._refuse(problem(TooLarge.body(self._most)))

    def release(self) -> bytes:
        """End the holding; the bytes that arrived meanwhile."""
        self.is_held = False
        self.has_head = True
        aside, self._aside = self._aside, b""
        return aside

    def close(self) -> None:
        super().close()
        self._bodies.give_back(self._taken)
        self._taken = 0

    def _check_head(self, following: int) -> None:
        if not self.has_body:
            self.wants_continue = False  # waitress would send 100 Continue in place of the answer
        fault = self._ambiguity()
        if fault is not None:
            self._refuse(problem(fault))
        elif self.chunked or self.content_length > min(following, FREE_BYTES):
            self.decide(may_block=False)

    def _ambiguity(self) -> MarketError | None:
        """Whether the request names more or less than one host, or frames its body in two ways (RFC 9112, sections 3.2
        and 6.1)."""
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
        return {**fields, "REQUEST_METHOD": str(self.command), "PATH_INFO": path}

    def _count(self) -> None:
        size = self.body_bytes_received
        if size <= FREE_BYTES:
            return
        if size > self._most:
            self._refuse(problem(TooLarge.body(self._most)))
        elif self._bodies.take(size - self._taken):
            self._taken = size
        else:
            detail = "too many request bodies are arriving; send this one again a little later, or in parts"
            self._refuse(problem(Saturated(detail)))

    def _refuse(self, reply: Reply) -> None:
        """Answer with ``reply``, and drop the body."""
        self.fail(reply)
        self.is_complete = True
        self.wants_continue = False
        self.close()
