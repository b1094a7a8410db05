"""The WSGI interface between the applications and the listener."""

from __future__ import annotations

import http
import socket
from collections.abc import Callable, Iterable
from typing import Any

from marketdata.http.reply import Reply

StartResponse = Callable[..., Any]
RESERVE = "marketdata.reserve"
"""A variable of the WSGI environment: a function that counts further bytes in memory for the request. It returns False
if there are too many."""
Part = bytes | bytearray
"""A part of a response's body."""
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[Part]]


class HandOver(BaseException):
    """The application raises this instead of answering. The listener then calls ``take`` with the connection's blocking
    socket. The class is not an Exception, so that no ``except Exception`` turns it into an error response."""

    def __init__(self, take: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self.take = take


def variable(field: str) -> str:
    """Returns the name of a header field in the WSGI environment. ``field`` is in capitals, with underscores."""
    return field if field in _PLAIN else f"HTTP_{field}"


_PLAIN = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


def status_line(status: int) -> str:
    """Returns status and reason phrase, like ``404 Not Found``."""
    return STATUS_LINES[status]


STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in http.HTTPStatus}


def send(reply: Reply, start_response: StartResponse, *, bare: bool = False) -> Iterable[bytes]:
    """Call ``start_response`` and return the body. ``bare`` omits the body (HEAD)."""
    headers = list(reply.headers)
    body = reply.body
    if reply.status != 304:
        headers.append(("Content-Type", reply.media_type))
        if isinstance(body, bytes):
            headers.append(("Content-Length", str(len(body))))
    start_response(STATUS_LINES[reply.status], headers)
    if bare or body == b"":
        if not isinstance(body, bytes) and hasattr(body, "close"):
            body.close()
        return []
    return [body] if isinstance(body, bytes) else body
