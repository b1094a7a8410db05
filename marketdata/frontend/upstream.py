"""Connections to the data API: HTTP/1.1 over a bounded number of sockets, kept alive between requests."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from typing import TypeVar
from urllib.parse import urlsplit

from marketdata.frontend.problems import UpstreamFailed, UpstreamSlow
from marketdata.frontend.times import Times
from marketdata.frontend.upstream_response import MAX_HEAD_BYTES, Body, Head, MalformedResponse, parse_head
from marketdata.http.wsgi import Part

_KEPT_SECONDS = 30.0
"""How long an idle connection is kept. The API closes it after 60 seconds."""
_SURE_SECONDS = 0.02
"""A connection that was used more recently than this is used again without a check. If the API has just closed it,
the request is repeated."""
_RECEIVE_BYTES = 64 * 1024

Result = TypeVar("Result")


class Connection:
    """One connection to the API. Its methods raise UpstreamFailed and UpstreamSlow."""

    def __init__(self, opened: socket.socket, response_seconds: float) -> None:
        self._response_seconds = response_seconds
        self.socket = opened
        self.received = b""
        self.used_at = monotonic()
        self._poll = select.poll()
        self._poll.register(opened, select.POLLIN)
        self.is_fresh = True
        self.is_answered = False
        """Whether the response to the current request has begun."""

    def send(self, data: bytes) -> None:
        self._translated(lambda: self.socket.sendall(data))

    def head(self) -> Head:
        """The head of the final response. Interim responses (1xx) are skipped, except 101."""
        while True:
            while (end := self.received.find(b"\r\n\r\n")) < 0:
                if len(self.received) > MAX_HEAD_BYTES:
                    raise UpstreamFailed("the data API sent a header that is too large")
                data = self.receive()
                if not data:
                    raise UpstreamFailed("the data API closed the connection without an answer")
                self.received += data
            block, self.received = self.received[:end], self.received[end + 4 :]
            try:
                head = parse_head(block)
            except MalformedResponse as error:
                raise UpstreamFailed(f"the data API sent no valid answer: {error}") from error
            if head.status >= 200 or head.status == 101:
                return head

    def parts(self, body: Body) -> Iterator[bytes]:
        """The decoded parts of a body as they arrive."""
        try:
            data, self.received = self.received, b""
            while True:
                part, self.received = body.feed(data)
                if part:
                    yield part
                if body.is_complete:
                    return
                data = self.receive()
                if not data:
                    body.end()
                    return
        except MalformedResponse as error:
            raise UpstreamFailed(f"the answer of the data API broke off: {error}") from error

    def whole(self, length: int) -> Part:
        """The next ``length`` bytes, received in place. The buffer has room for one more byte, which would be one that
        was not asked for."""
        begun, self.received = self.received[:length], self.received[length:]
        if len(begun) == length:
            return begun
        found = bytearray(length + 1)
        size = len(begun)
        found[:size] = begun
        with memoryview(found) as room:
            while size < length:
                count = self._translated(partial(self.socket.recv_into, room[size:]))
                if not count:
                    raise UpstreamFailed("the answer of the data API broke off: it closed the connection")
                size += count
        self.received += found[length:size]
        del found[length:]
        return found

    def receive(self) -> bytes:
        data = self._translated(lambda: self.socket.recv(_RECEIVE_BYTES))
        self.is_answered |= bool(data)
        return data

    def is_usable(self) -> bool:
        """Whether another request can be sent. False if the connection is old, or if the API has closed it or sent
        something unasked."""
        idle = monotonic() - self.used_at
        if self.received or idle > _KEPT_SECONDS:
            return False
        if idle < _SURE_SECONDS:
            return True
        return not self._poll.poll(0)

    def close(self) -> None:
        self.socket.close()

    def _translated(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except (TimeoutError, BlockingIOError) as error:
            raise UpstreamSlow(f"the data API did not answer within {self._response_seconds:.0f} s") from error
        except OSError as error:
            raise UpstreamFailed(f"the connection to the data API broke: {error.strerror or error}") from error


class Upstream:
    """Opens connections to the API at ``url``, and keeps at most ``limit`` idle ones. The caller limits the connections
    in use."""

    def __init__(self, url: str, limit: int, times: Times) -> None:
        self._times = times
        parts = urlsplit(url)
        self._is_tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._is_tls else 80)
        self._tls = ssl.create_default_context() if self._is_tls else None
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: list[Connection] = []
        self._is_closed = False
        self.base = parts.path.rstrip("/")
        self.authority = parts.netloc.rpartition("@")[2]

    def connection(self, *, fresh: bool = False) -> Connection:
        """A connection for one request. An idle connection is used again if there is one, unless ``fresh`` is True. The
        caller returns the connection with ``keep``, or closes it."""
        while not fresh:
            with self._lock:
                if not self._kept:
                    break
                kept = self._kept.pop()
            if kept.is_usable():
                return kept
            kept.close()
        return self._opened()

    def keep(self, connection: Connection) -> None:
        """Keep a connection whose response was read to the end."""
        connection.used_at, connection.is_fresh, connection.is_answered = monotonic(), False, False
        with self._lock:
            if len(self._kept) < self._limit and not self._is_closed:
                self._kept.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed, kept, self._kept = True, self._kept, []
        for connection in kept:
            connection.close()

    def _opened(self) -> Connection:
        try:
            plain = socket.create_connection((self._host, self._port), self._times.connect)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                plain = self._tls.wrap_socket(plain, server_hostname=self._host)
            _limit_silence(plain, self._times.response)
        except TimeoutError as error:
            raise UpstreamSlow("the data API cannot be reached: the connection timed out") from error
        except ssl.SSLCertVerificationError as error:
            raise UpstreamFailed(
                f"the certificate of API_UPSTREAM is not trusted: {error.verify_message}; "
                "set SSL_CERT_FILE to a file that contains a trusted certificate"
            ) from error
        except ssl.SSLError as error:
            raise UpstreamFailed(f"there is no TLS connection to API_UPSTREAM: {error.reason or error}") from error
        except OSError as error:
            raise UpstreamFailed(f"the data API cannot be reached: {error.strerror or 'no such host'}") from error
        return Connection(plain, self._times.response)


def _limit_silence(opened: socket.socket, seconds: float) -> None:
    """Let each call on the socket wait at most ``seconds``. The kernel does this without a poll(2) before each call.
    TLS may need several calls for a record, so there Python counts the time."""
    if isinstance(opened, ssl.SSLSocket):
        opened.settimeout(seconds)
        return
    opened.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        opened.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", int(seconds), round(seconds % 1 * 1_000_000)))
