"""A request of a client as a request to the data API, with the read token, and the answer on its way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from marketdata.frontend import headers
from marketdata.frontend.concurrency_limit import Slots
from marketdata.frontend.failures import UpstreamFailed, log
from marketdata.frontend.response import Body, Head, MalformedResponse, body_of
from marketdata.frontend.target import Target, for_api
from marketdata.frontend.tunnels import Tunnels
from marketdata.frontend.upstream import Connection, Upstream
from marketdata.http.failures import MethodNotAllowed, StartResponse
from marketdata.http.hand_over import HandOver
from marketdata.http.request_log import VARIABLE, with_id

RUNNING = 32
"""Requests that the API answers at a time, each over a connection of its own."""
WAITING = 32
_WAIT_SECONDS = 10.0

BODY_BYTES = 8 * 1024 * 1024
"""As much as the API takes of JSON, from those who may write."""
WHOLE_BYTES = 256 * 1024
"""An answer up to this size is read whole, and its connection is free for the next request at once."""

_PART_BYTES = 64 * 1024
_REFLECTING = frozenset({"TRACE", "CONNECT"})
_TO_WEBSOCKET = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
_PASSED_ON = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"


class Answer(NamedTuple):
    """What the client gets: a status line, header fields, and the body in parts."""

    status: str
    fields: headers.Fields
    body: Iterable[bytes]

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        start_response(self.status, self.fields)
        return self.body


class Proxy:
    """``token`` is asked for every request, so that a rotated one is used at once."""

    def __init__(self, upstream: Upstream, token: Callable[[], str], tunnels: Tunnels) -> None:
        self._upstream = upstream
        self._tunnels = tunnels
        self._token = token
        self._slots = Slots(RUNNING, WAITING, _WAIT_SECONDS)

    def answer(self, environ: Mapping[str, Any], target: Target, may_stay: Callable[[], bool]) -> Answer:
        """The API's answer; Busy, UpstreamFailed or UpstreamSlow without one.

        When the API opens a WebSocket, HandOver is raised: the connection becomes a tunnel while ``may_stay`` says so.
        """
        method, path = environ["REQUEST_METHOD"], for_api(target)
        if method in _REFLECTING:  # an answer to TRACE repeats the request, and with it the token
            raise MethodNotAllowed(f"{method} is not passed on", _PASSED_ON)
        fields = headers.to_upstream(environ)
        is_upgrade = headers.asks_for_websocket(environ)
        if is_upgrade:
            self._tunnels.check_room()
            fields += _TO_WEBSOCKET
        with ExitStack() as held:
            held.enter_context(self._slots.entered())
            held.enter_context(self._slots.running())
            connection, head, body = self._asked(environ, self._head(method, path, fields), is_upgrade=is_upgrade)
            if head.status == 101:
                raise self._handed_over(connection, head, may_stay, environ.get(VARIABLE, ""))
            held.callback(self._finished, connection, head, body)
            status, fields = _status_line(head), headers.to_client(head.fields)
            if body.length is not None and body.length <= WHOLE_BYTES:
                whole = b"".join(connection.parts(body))
                return Answer(status, fields, [whole] if whole else [])
            return Answer(status, fields, _Stream(connection.parts(body), held.pop_all()))

    def _handed_over(self, connection: Connection, head: Head, may_stay: Callable[[], bool], identity: str) -> HandOver:
        fields = [*headers.to_client(head.fields), *_TO_WEBSOCKET]
        if identity:
            fields = with_id(fields, identity)
        lines = [f"{name}: {value}\r\n" for name, value in fields]
        answer = f"HTTP/1.1 101 Switching Protocols\r\n{''.join(lines)}\r\n".encode("latin-1")
        self._tunnels.expect(connection)
        return HandOver(lambda client: self._tunnels.adopt(client, answer, connection, may_stay))

    def _head(self, method: str, path: str, fields: headers.Fields) -> bytes:
        """The head of a request to the API, without the empty line at its end."""
        lines = (
            f"{method} {self._upstream.base}{path} HTTP/1.1",
            f"Host: {self._upstream.authority}",
            f"Authorization: Bearer {self._token()}",
            *(f"{name}: {value}" for name, value in fields),
        )
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1")

    def _asked(self, environ: Mapping[str, Any], head: bytes, *, is_upgrade: bool) -> tuple[Connection, Head, Body]:
        """A connection on which the answer has begun. The API may close a kept one at any moment; when that happens
        before anything of the answer has come, a fresh one is tried, which is safe as the read token changes nothing.
        """
        length = int(environ.get("CONTENT_LENGTH") or 0)
        connection = self._upstream.connection(fresh=is_upgrade or length > 0)
        if not connection.is_fresh:
            try:
                return self._exchanged(connection, environ, head, 0)
            except UpstreamFailed:
                if connection.is_answered:
                    raise
            connection = self._upstream.connection(fresh=True)
        return self._exchanged(connection, environ, head, length)

    def _exchanged(
        self, connection: Connection, environ: Mapping[str, Any], head: bytes, length: int
    ) -> tuple[Connection, Head, Body]:
        method = environ["REQUEST_METHOD"]
        has_length = length > 0 or method in ("POST", "PUT", "PATCH")
        try:
            connection.send(head + (b"Content-Length: %d\r\n\r\n" % length if has_length else b"\r\n"))
            with suppress(UpstreamFailed):  # it may refuse a request before it has read the body
                while length and (part := environ["wsgi.input"].read(min(length, _PART_BYTES))):
                    connection.send(part)
                    length -= len(part)
            answered = connection.head()
            if answered.status == 101 and not headers.asks_for_websocket(environ):
                raise UpstreamFailed("the data API switched protocols unasked")
            return connection, answered, _usable(answered, method)
        except BaseException:
            connection.close()
            raise

    def _finished(self, connection: Connection, head: Head, body: Body) -> None:
        if body.is_complete and head.stays:
            self._upstream.keep(connection)
        else:
            connection.close()


class _Stream:
    """A body in parts. ``close`` gives back what the request held, also when the client went away."""

    def __init__(self, parts: Iterator[bytes], held: ExitStack) -> None:
        self._parts = parts
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def close(self) -> None:
        self._held.close()


def _usable(head: Head, method: str) -> Body:
    """The framing of an answer that can be passed on."""
    if head.status == 401:
        log.error("the data API refuses the read token")
        raise UpstreamFailed("the data API refuses the read token of the frontend", code="upstream_refused")
    try:
        return body_of(head, method)
    except MalformedResponse as error:
        raise UpstreamFailed(f"the data API sent no valid answer: {error}") from error


def _status_line(head: Head) -> str:
    try:
        return f"{head.status} {HTTPStatus(head.status).phrase}"
    except ValueError:
        return f"{head.status} Unknown"
