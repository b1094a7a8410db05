"""The log of requests: a line for each answer, with an id that the client gets as ``X-Request-Id``. Off by default.

It is on when the level of its logger is INFO. Each task checks that before it builds its answer.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from secrets import token_hex
from time import monotonic
from typing import Any

FORMS = ("off", "text", "json")
FIELD = "X-Request-Id"

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


class Logged:
    """Part of a task of waitress, before its own class: notes the answer when it is sent. A WebSocket is not noted."""

    request: Any
    channel: Any
    status: Any
    response_headers: Any
    content_bytes_written: Any
    _began = 0.0
    _id = ""

    def start(self) -> None:
        self._began = monotonic()
        super().start()  # type: ignore[misc]

    def add_id(self) -> None:
        """Before the head is built."""
        if is_on() and not self._id:
            self._id = token_hex(8)
            self.response_headers.append((FIELD, self._id))

    def build_response_header(self) -> bytes:
        self.add_id()
        return bytes(super().build_response_header())  # type: ignore[misc]

    def finish(self) -> None:
        super().finish()  # type: ignore[misc]
        if self._id:
            _log.info("%s", self._id, extra={"answered": self._answered()})

    def _answered(self) -> dict[str, Any]:
        address = getattr(self.channel, "addr", None)
        query = getattr(self.request, "query", "")
        target = getattr(self.request, "path", "") + (f"?{query}" if query else "")
        return {
            "id": self._id,
            "peer": address[0] if isinstance(address, tuple) else "unix",
            "method": _printable(getattr(self.request, "command", "")),
            "target": _printable(target),
            "status": int(self.status[:3]),
            "bytes": self.content_bytes_written,
            "ms": round((monotonic() - self._began) * 1000, 1),
        }


def _printable(text: str) -> str:
    """As one word of printable characters, so that a request cannot forge a line; "-" when there is none."""
    return json.dumps(text[:_TARGET_MAX])[1:-1].replace(" ", "%20") or "-"
