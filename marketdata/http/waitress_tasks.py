"""The tasks of waitress that write responses to a connection, extended by the request log."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from waitress.task import ErrorTask, WSGITask

from marketdata.http import request_log
from marketdata.http.request_log import VARIABLE, identify
from marketdata.http.wsgi import HandOver, status_line


class _Logged:
    """Logs a response when it has been sent, and a WebSocket when it ends."""

    request: Any
    channel: Any
    status: Any
    response_headers: Any
    content_bytes_written: Any
    wrote_header: Any
    _began = 0.0

    def start(self) -> None:
        self._began = monotonic()
        super().start()  # type: ignore[misc]

    def get_environment(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environment()  # type: ignore[misc]
        if identity := identify(self.request):
            environ[VARIABLE] = identity
        return environ

    def execute(self) -> None:
        try:
            super().execute()  # type: ignore[misc]
        except HandOver as upgrade:
            if request_log.is_on():
                self.status = "101 Switching Protocols"
                upgrade.take = partial(self._hand_over, upgrade.take)
            raise

    def _hand_over(self, take: Callable[[socket.socket], None], connection: socket.socket) -> None:
        take(request_log.WebSocket(connection, self._log))

    def build_response_header(self) -> bytes:
        if identity := identify(self.request):
            self.response_headers[:] = request_log.with_id(self.response_headers, identity)
        return bytes(super().build_response_header())  # type: ignore[misc]

    def finish(self) -> None:
        super().finish()  # type: ignore[misc]
        if request_log.is_on() and self.wrote_header:
            self._log(self.content_bytes_written)

    def _log(self, size: int) -> None:
        request_log.write(self.request, self.channel.addr, self.status, size, monotonic() - self._began)


class RefusalTask(_Logged, ErrorTask):
    """Writes the response to a request that the parser refused. The connection is closed afterwards."""

    def execute(self) -> None:
        reply = self.request.reply
        self.status = status_line(reply.status)
        self.response_headers = [("Content-Type", reply.media_type), *reply.headers]
        self.set_close_on_finish()
        self.content_length = len(reply.body)
        self.write(b"" if getattr(self.request, "command", "") == "HEAD" else reply.body)


class ApplicationTask(_Logged, WSGITask):
    """Writes the application's response. A response without a body (304) needs no length (RFC 9112, section 6.3), so
    the connection is kept: a client that polls with an entity tag need not connect again."""

    def set_close_on_finish(self) -> None:
        is_last = self.version == "1.0" or self.request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or is_last:
            super().set_close_on_finish()
