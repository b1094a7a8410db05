"""The log of requests: a line for each answer, with an id that the client gets as ``X-Request-Id``. Off by default.

A WebSocket has its line when it ends, with status 101, the bytes that were sent, and how long it was open.

It is on when the level of its logger is INFO. Each task checks that before it builds its answer.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

FORMS = ("off", "text", "json")
FIELD = "X-Request-Id"
VARIABLE = "marketdata.request_id"
"""The key of the WSGI environment that holds the request's id. It is empty or absent while the log is off."""
_ATTRIBUTE = "request_id"

_TARGET_MAX = 500

_log = logging.getLogger("marketdata.requests")


def configure(form: str) -> None:
    """Write to standard error in one of :data:`FORMS`. Call it once, at the start of a service."""
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


def identify(request: Any) -> str:
    """The id of a request; empty while the log is off. The parser keeps it, since a request may fail before its task
    begins."""
    if not is_on():
        return ""
    if not hasattr(request, _ATTRIBUTE):
        setattr(request, _ATTRIBUTE, token_hex(8))
    return str(getattr(request, _ATTRIBUTE))


def with_id(fields: Iterable[tuple[str, str]], identity: str) -> list[tuple[str, str]]:
    """The header fields with an id, which replaces the one that another service gave its answer."""
    return [*(field for field in fields if field[0].lower() != FIELD.lower()), (FIELD, identity)]


def write(request: Any, address: Any, status: str, size: int, seconds: float) -> None:
    """Log an answer of ``size`` bytes to the parsed ``request`` of the client at ``address``."""
    query = getattr(request, "query", "")
    target = getattr(request, "path", "") + (f"?{query}" if query else "")
    answered = {
        "id": identify(request),
        "peer": address[0],
        "method": _printable(getattr(request, "command", "")),
        "target": _printable(target),
        "status": int(status[:3]),
        "bytes": size,
        "ms": round(seconds * 1000, 1),
    }
    _log.info("%s", answered["id"], extra={"answered": answered})


class WebSocket(socket.socket):
    """The connection of a WebSocket. ``ended`` is called with the number of bytes that were sent when it is closed."""

    def __init__(self, accepted: socket.socket, ended: Callable[[int], None]) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._ended: Callable[[int], None] | None = ended
        self._sent = 0

    def send(self, *arguments: Any) -> int:
        sent = super().send(*arguments)
        self._sent += sent
        return sent

    def sendmsg(self, *arguments: Any) -> int:
        sent = super().sendmsg(*arguments)
        self._sent += sent
        return sent

    def close(self) -> None:
        super().close()
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self._sent)


def _printable(text: str) -> str:
    """As one word of printable characters, so that a request cannot forge a line; "-" when there is none."""
    return json.dumps(text[:_TARGET_MAX])[1:-1].replace(" ", "%20") or "-"
