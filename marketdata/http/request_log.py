"""Logs requests: one line for each response, with an id that the client gets as ``X-Request-Id``. Off by default.

A WebSocket is logged when it ends, with status 101, the number of sent bytes, and the time that it was open. The log is
on if the level of its logger is INFO.
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
"""The variable of the WSGI environment with the request's id. It is empty or absent while the log is off."""
_ATTRIBUTE = "request_id"

_MAX_TARGET = 500

_log = logging.getLogger("marketdata.requests")


def configure(form: str) -> None:
    """Log to standard error in one of :data:`FORMS`. Called once, when a service starts."""
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
    """Returns the id of a request, or "" while the log is off. The id is stored in waitress' parser of the request,
    because a request may fail before waitress makes a task for it."""
    if not is_on():
        return ""
    if not hasattr(request, _ATTRIBUTE):
        setattr(request, _ATTRIBUTE, token_hex(8))
    return str(getattr(request, _ATTRIBUTE))


def with_id(fields: Iterable[tuple[str, str]], identity: str) -> list[tuple[str, str]]:
    """Returns the header fields with this id. It replaces an id that another service has added."""
    return [*(field for field in fields if field[0].lower() != FIELD.lower()), (FIELD, identity)]


def write(request: Any, address: Any, status: str, size: int, seconds: float) -> None:
    """Log a response of ``size`` bytes to the parsed ``request`` of the client at ``address``."""
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
    """The socket of a WebSocket. When it is closed, ``ended`` is called with the number of sent bytes."""

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
    """Returns one word of printable characters, so that a request cannot forge a line; "-" if ``text`` is empty."""
    return json.dumps(text[:_MAX_TARGET])[1:-1].replace(" ", "%20") or "-"
