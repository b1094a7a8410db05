"""The log of requests, off by default: a line for each response, with an id that the client gets as ``X-Request-Id``.

For a WebSocket the line is written when the WebSocket ends. It has the status 101, the number of bytes that were sent,
and the time that the WebSocket was open.

The log is on if the level of its logger is INFO. This is checked for each request.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from time import monotonic
from typing import Any

from cardapp.web.http import HandOver, StartResponse, WsgiApp

FORMS = ("off", "text", "json")
FIELD = "X-Request-Id"
VARIABLE = "cardapp.request_id"
"""The key of the WSGI environment that holds the request's id. It is empty or absent while the log is off."""

_TARGET_MAX = 500

_log = logging.getLogger("cardapp.requests")


def configure(form: str) -> None:
    """Write the log to standard error in one of :data:`FORMS`. Call this once, when the service starts."""
    _log.setLevel(logging.WARNING if form == "off" else logging.INFO)
    if form != "off":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Json() if form == "json" else _Text())
        _log.handlers = [handler]
        _log.propagate = False


def is_on() -> bool:
    return _log.isEnabledFor(logging.INFO)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return "{time} {id} {peer} {method} {target} {status} {bytes} B {ms} ms".format_map(_fields(record))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields(record))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return {"time": at.replace("+00:00", "Z"), **record.__dict__["answered"]}


def logged(app: WsgiApp) -> WsgiApp:
    """Returns ``app`` with a log: a line is written when a response is complete and when a WebSocket ends."""

    def noting(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if not is_on():
            return app(environ, start_response)
        environ[VARIABLE] = token_hex(8)
        query = environ["QUERY_STRING"]
        target = environ["PATH_INFO"] + (f"?{query}" if query else "")
        line = _Line(environ[VARIABLE], environ["REMOTE_ADDR"], environ["REQUEST_METHOD"], target)

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            line.status = int(status[:3])
            return start_response(status, [*headers, (FIELD, line.id)], *rest)

        try:
            return _counted(app(environ, start), line)
        except HandOver as upgrade:
            line.status = 101
            take = upgrade.take
            upgrade.take = lambda connection: take(_WebSocket(connection, line.write))
            raise

    return noting


def refused(peer: str, method: str, target: str, status: int, size: int) -> list[tuple[str, str]]:
    """Log a request that the listener refuses. Returns additional headers for the response."""
    if not is_on():
        return []
    line = _Line(token_hex(8), peer, method, target, status)
    line.write(size)
    return [(FIELD, line.id)]


@dataclass
class _Line:
    id: str
    peer: str
    method: str
    target: str
    status: int = 0
    began: float = field(default_factory=monotonic)

    def write(self, size: int) -> None:
        """Log the response; ``size`` is the length of its body in bytes."""
        answered = {
            "id": self.id,
            "peer": self.peer,
            "method": _printable(self.method),
            "target": _printable(self.target),
            "status": self.status,
            "bytes": size,
            "ms": round((monotonic() - self.began) * 1000, 1),
        }
        _log.info("%s", self.id, extra={"answered": answered})


def _counted(pieces: Iterable[bytes], line: _Line) -> Iterator[bytes]:
    """Pass the pieces of a body on, then log their total size. An incomplete response is not logged."""
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            yield piece
    finally:
        if hasattr(pieces, "close"):
            pieces.close()
    line.write(size)


class _WebSocket(socket.socket):
    """The connection of a WebSocket. When it is closed, ``ended`` is called with the number of bytes that were sent."""

    def __init__(self, accepted: socket.socket, ended: Callable[[int], None]) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._ended: Callable[[int], None] | None = ended
        self._sent = 0

    def sendall(self, *arguments: Any) -> None:
        super().sendall(*arguments)
        self._sent += len(arguments[0])

    def close(self) -> None:
        super().close()
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self._sent)


def _printable(text: str) -> str:
    """``text`` as one word of printable characters, so that a request cannot forge a line; "-" if it is empty."""
    return json.dumps(text[:_TARGET_MAX])[1:-1].replace(" ", "%20") or "-"
