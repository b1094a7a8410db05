"""One request as it arrives: refused where two readers could read it in two ways, its body held within a bound."""

from __future__ import annotations

import re
import threading
from typing import Any

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.utilities import Error

FREE_BYTES = 16 * 1024
"""A body is not counted up to here, like the head before it: single ticks pass while big batches are refused."""

BODIES_BYTES = 128 * 1024 * 1024
"""Bytes of larger bodies under way at once: 16 of the largest. They lie in memory and temporary files before anybody
could ask for a token."""

_HOST = re.compile(r"[^\s,/?#@\\]*")
"""Several Host headers come as one, with a comma and a space between them."""


class Bodies:
    """The bytes that all the bodies of one listener may still take."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether there is room; if so it is taken."""
        with self._lock:
            has_room = size <= self._left
            if has_room:
                self._left -= size
        return has_room

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class TooManyBodies(Error):
    """What waitress is told of a body for which there is no room."""

    code = 429
    reason = "Too Many Requests"


class Parser(HTTPRequestParser):
    """``close`` any number of times; it gives back what the body took."""

    def __init__(self, adj: Any, bodies: Bodies) -> None:
        super().__init__(adj)
        self._bodies = bodies
        self._taken = 0
        self._is_refused = False

    def parse_header(self, header_plus: bytes) -> None:
        """Refuse a request with both framings, and one that does not name one host (RFC 9112, sections 6.1, 3.2)."""
        super().parse_header(header_plus)
        if self.version != "1.0" and "HOST" not in self.headers:
            raise ParsingError("HTTP/1.1 wants a Host header")
        if not _HOST.fullmatch(self.headers.get("HOST", "")):
            raise ParsingError("the Host header names no host, or several")
        if "TRANSFER_ENCODING" in self.headers:
            raise ParsingError("Transfer-Encoding needs HTTP/1.1")
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding exclude each other")

    def received(self, data: bytes) -> int:
        consumed: int = super().received(data)
        if self.body_bytes_received > FREE_BYTES and not self._is_refused:
            self._take_room()
        if self._is_refused and self.completed and self.error is None:
            self.error = TooManyBodies("too many bodies are arriving; send it again a little later, or in parts")
        return consumed

    def _take_room(self) -> None:
        more = self.body_bytes_received - self._taken
        if self._bodies.take(more):
            self._taken += more
            return
        # Read to its end, and not kept: closing before it would reset the connection, and the refusal would be lost.
        self._is_refused = True
        self.close()
        receiver: Any = self.body_rcv
        receiver.buf = _Nowhere()

    def close(self) -> None:
        super().close()
        self._bodies.give_back(self._taken)
        self._taken = 0


class _Nowhere:
    """A buffer that keeps nothing."""

    def append(self, _data: bytes) -> None:
        pass

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return 0
