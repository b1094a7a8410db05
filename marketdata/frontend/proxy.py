"""Passes requests to the data API with the read token added, and passes the responses back. WebSockets become
tunnels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from marketdata.errors import MarketError
from marketdata.frontend.concurrency_limit import ConcurrencyLimit
from marketdata.frontend.problems import DataUnavailable, UpstreamFailed, log
from marketdata.frontend.request_target import Target, for_api
from marketdata.frontend.tunnels import Tunnels
from marketdata.frontend.upstream import Connection, Upstream
from marketdata.frontend.upstream_response import Body, Fields, Head, MalformedResponse, body_of
from marketdata.http.failures import MethodNotAllowed
from marketdata.http.request_log import VARIABLE, with_id
from marketdata.http.wsgi import STATUS_LINES, HandOver, Part, StartResponse

MAX_RUNNING = 32
"""The number of requests to the API at the same time. Each uses one connection."""
MAX_WAITING = 32
_WAIT_SECONDS = 10.0

MAX_WHOLE_BYTES = 256 * 1024
"""A response up to this size is read whole, so its connection is free for the next request at once."""

_PART_BYTES = 64 * 1024
_REFLECTING = frozenset({"TRACE", "CONNECT"})
_TO_WEBSOCKET = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
_PASSED_ON = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

_HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-authentication-info",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
})  # fmt: skip
"""Fields that are about one connection (RFC 9110, section 7.6.1), and similar fields of older programs."""

_DROPPED_TO_API = _HOP_BY_HOP | {
    "host",
    "authorization",
    "cookie",
    "content-length",
    "expect",
    "forwarded",
    "x-remote-user",
}
_DROPPED_PREFIX_TO_API = "x-forwarded-"
_DROPPED_TO_CLIENT = _HOP_BY_HOP | {"www-authenticate", "set-cookie", "server", "date", "content-security-policy"}
"""www-authenticate is dropped, because it is about the API's token, which only the frontend uses. date is dropped,
because the listener adds a Date of its own."""


class Response(NamedTuple):
    """The response to the client: a status line, header fields, and the body in parts."""

    status: str
    fields: Fields
    body: Iterable[Part]

    def send(self, start_response: StartResponse) -> Iterable[Part]:
        start_response(self.status, self.fields)
        return self.body


class Proxy:
    """Sends requests to the API. ``token`` is called for each request, so a rotated token is used at once. It
    raises MarketError if there is no token."""

    def __init__(self, upstream: Upstream, token: Callable[[], str], tunnels: Tunnels) -> None:
        self._upstream = upstream
        self._tunnels = tunnels
        self._token = token
        self._requests = ConcurrencyLimit(MAX_RUNNING, MAX_WAITING, _WAIT_SECONDS)

    def response(self, environ: Mapping[str, Any], target: Target, may_stay: Callable[[], bool]) -> Response:
        """The API's response. Raises Busy, DataUnavailable, UpstreamFailed or UpstreamSlow if there is no response.

        If the API opens a WebSocket, raises HandOver. The connection then becomes a tunnel, which is closed when
        ``may_stay`` returns False.
        """
        method, path = environ["REQUEST_METHOD"], for_api(target)
        if method in _REFLECTING:  # a TRACE response repeats the request with its token
            raise MethodNotAllowed(f"{method} is not passed on", _PASSED_ON)
        fields = to_upstream(environ)
        is_upgrade = asks_for_websocket(environ)
        if is_upgrade:
            self._tunnels.check_room()
            fields += _TO_WEBSOCKET
        with ExitStack() as held:
            held.enter_context(self._requests.entered())
            held.enter_context(self._requests.running())
            connection, head, body = self._asked(environ, self._head(method, path, fields), is_upgrade=is_upgrade)
            if head.status == 101:
                raise self._handed_over(connection, head, may_stay, environ.get(VARIABLE, ""))
            held.callback(self._finished, connection, head, body)
            status, fields = _status_line(head), to_client(head.fields)
            if body.length is not None and body.length <= MAX_WHOLE_BYTES:
                parts = [connection.whole(body.length)] if body.length else []
                body.is_complete = True
                return Response(status, fields, parts)
            return Response(status, fields, _Stream(connection, body, held.pop_all()))

    def _handed_over(self, connection: Connection, head: Head, may_stay: Callable[[], bool], identity: str) -> HandOver:
        fields = [*to_client(head.fields), *_TO_WEBSOCKET]
        if identity:
            fields = with_id(fields, identity)
        lines = [f"{name}: {value}\r\n" for name, value in fields]
        answer = f"HTTP/1.1 101 Switching Protocols\r\n{''.join(lines)}\r\n".encode("latin-1")
        self._tunnels.expect(connection)
        return HandOver(lambda client: self._tunnels.adopt(client, answer, connection, may_stay))

    def _head(self, method: str, path: str, fields: Fields) -> bytes:
        """The head of the request to the API, without the empty line at its end."""
        try:
            token = self._token()
        except MarketError as error:
            log.error("the data API cannot be asked: %s", error.detail)
            raise DataUnavailable("no data can be read now: the log of the frontend has the reason") from error
        lines = (
            f"{method} {self._upstream.base}{path} HTTP/1.1",
            f"Host: {self._upstream.authority}",
            f"Authorization: Bearer {token}",
            *(f"{name}: {value}" for name, value in fields),
        )
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1")

    def _asked(self, environ: Mapping[str, Any], head: bytes, *, is_upgrade: bool) -> tuple[Connection, Head, Body]:
        """Send the request; return the connection when the head of the response has arrived.

        The API may close a kept connection at any moment. If no byte of the response has arrived by then, the request
        is repeated on a fresh connection. This is safe, because requests with the read token change nothing.
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
            with suppress(UpstreamFailed):  # the API may refuse a request before it has read the body
                while length and (part := environ["wsgi.input"].read(min(length, _PART_BYTES))):
                    connection.send(part)
                    length -= len(part)
            answered = connection.head()
            if answered.status == 101 and not asks_for_websocket(environ):
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
    """A body in parts. ``close`` releases the request's resources. It is called even if the client went away."""

    def __init__(self, connection: Connection, body: Body, held: ExitStack) -> None:
        self._parts = connection.parts(body)
        self._body = body
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if self._body.is_complete:  # a client that has the whole body may send the next request at once
                self.close()
            yield part

    def close(self) -> None:
        self._held.close()


def _usable(head: Head, method: str) -> Body:
    """The decoder of the response's body. Raises UpstreamFailed if the response cannot be passed on."""
    if head.status == 401:
        log.error("the data API refuses the read token")
        raise UpstreamFailed("the data API refuses the read token of the frontend", code="upstream_refused")
    try:
        return body_of(head, method)
    except MalformedResponse as error:
        raise UpstreamFailed(f"the data API sent no valid answer: {error}") from error


def _status_line(head: Head) -> str:
    return STATUS_LINES.get(head.status) or f"{head.status} Unknown"


# -- header fields ----------------------------------------------------------------------------------------------------


def to_upstream(environ: Mapping[str, Any]) -> Fields:
    """The header fields for the API, from the WSGI environment of the client's request."""
    named = _listed(environ.get("HTTP_CONNECTION", ""))
    sent = [
        (key.removeprefix("HTTP_").replace("_", "-").lower(), value)
        for key, value in environ.items()
        if key.startswith("HTTP_") or (key == "CONTENT_TYPE" and value)
    ]
    return [
        (name, value)
        for name, value in sent
        if name not in _DROPPED_TO_API and name not in named and not name.startswith(_DROPPED_PREFIX_TO_API)
    ]


def to_client(fields: Iterable[tuple[str, str]]) -> Fields:
    """The header fields for the client, from those of the API."""
    kept = list(fields)
    named = {name for key, value in kept if key.lower() == "connection" for name in _listed(value)}
    return [
        (name, value) for name, value in kept if name.lower() not in _DROPPED_TO_CLIENT and name.lower() not in named
    ]


def asks_for_websocket(environ: Mapping[str, Any]) -> bool:
    """Whether the request is a WebSocket handshake (RFC 6455, section 4.1)."""
    named = _listed(environ.get("HTTP_CONNECTION", ""))
    is_asked = environ.get("HTTP_UPGRADE", "").strip().lower() == "websocket" and "upgrade" in named
    return is_asked and environ["REQUEST_METHOD"] == "GET"


def _listed(connection: str) -> set[str]:
    return {name.strip().lower() for name in connection.split(",")}
