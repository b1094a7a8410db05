"""Tasks write the responses to requests: the head, the body, and the line of the request log."""

from __future__ import annotations

import socket
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache, partial
from time import monotonic, time
from typing import Any, Protocol

from marketdata.http import request_log
from marketdata.http.request_log import VARIABLE, identify
from marketdata.http.wsgi import RESERVE, HandOver, Part, WsgiApp, status_line, variable

_BODILESS = ("1", "204", "304")


class Channel(Protocol):
    """The connection as the tasks use it."""

    addr: Any

    @property
    def application(self) -> WsgiApp: ...

    def write_soon(self, data: Part) -> None: ...


class Task:
    """Writes the response to a parsed request. Then ``close_on_finish`` says whether the connection must be closed."""

    def __init__(self, connection: Channel, request: Any) -> None:
        self.connection = connection
        self.request = request
        self.status = ""
        self.fields: list[tuple[str, str]] = []
        self.wrote_header = False
        self.close_on_finish = False
        self._version = request.version if request.version in ("1.0", "1.1") else "1.0"
        self._length: int | None = None
        """The Content-Length of the response, if it has one."""
        self._is_chunked = False
        self._written = 0
        self._began = monotonic()

    def service(self) -> None:
        try:
            self.execute()
        except OSError:  # the client has gone
            self.close_on_finish = True
        if request_log.is_on() and self.wrote_header:
            self._log(self._written)

    def execute(self) -> None:
        raise NotImplementedError

    def begin(self, status: str, fields: list[tuple[str, str]]) -> None:
        """Set the status and the header fields of the response. It is the ``start_response`` of WSGI."""
        self.status, self.fields = status, fields
        length = next((value for name, value in fields if name.lower() == "content-length"), None)
        self._length = None if length is None else int(length)

    def write(self, data: Part) -> None:
        """Write a part of the body; first, the head."""
        if not self.wrote_header:
            self.connection.write_soon(self._head())
            self.wrote_header = True
        if not data or not self._has_body:
            return
        if self._length is not None and self._written + len(data) > self._length:
            raise ValueError("the body is longer than its Content-Length")
        self._written += len(data)
        self.connection.write_soon(b"%x\r\n%b\r\n" % (len(data), bytes(data)) if self._is_chunked else data)

    def end(self) -> None:
        """Write what is missing of a response without a body, or at the end of its last part."""
        self.write(b"")
        if self.request.command == "HEAD" or not self._has_body:
            return
        if self._is_chunked:
            self.connection.write_soon(b"0\r\n\r\n")
        elif self._written != self._length:
            self.close_on_finish = True  # otherwise the client would wait for the rest

    @property
    def _has_body(self) -> bool:
        return not self.status.startswith(_BODILESS)

    def _head(self) -> bytes:
        fields = self.fields
        if identity := identify(self.request):
            fields = request_log.with_id(fields, identity)
        lines = [
            f"HTTP/{self._version} {self.status}",
            *(f"{name}: {value}" for name, value in fields),
            *self._framing(),
            f"Date: {_date(int(time()))}",
        ]
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise ValueError("a header field contains the end of a line")
        return f"{head}\r\n\r\n".encode("latin-1")

    def _framing(self) -> list[str]:
        """The fields about the length of the body and the end of the connection. A response without a body (304) needs
        no length (RFC 9112, section 6.3), so the connection is kept: a client that polls with an entity tag need not
        connect again."""
        lines = []
        has_length = self._length is not None or not self._has_body
        if not has_length and self._version == "1.1":
            self._is_chunked = True
            lines.append("Transfer-Encoding: chunked")
        wanted = self.request.headers.get("CONNECTION", "").lower()
        is_kept = wanted == "keep-alive" if self._version == "1.0" else wanted != "close"
        self.close_on_finish |= not (is_kept and has_length)
        if self.close_on_finish:
            lines.append("Connection: close")
        elif self._version == "1.0":
            lines.append("Connection: Keep-Alive")
        return lines

    def _log(self, size: int) -> None:
        request_log.write(self.request, self.connection.addr, self.status, size, monotonic() - self._began)


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


class RefusalTask(Task):
    """Writes the response to a request that the parser refused. The connection is closed afterwards."""

    def execute(self) -> None:
        reply = self.request.reply
        length = ("Content-Length", str(len(reply.body)))
        self.begin(status_line(reply.status), [("Content-Type", reply.media_type), length, *reply.headers])
        self.close_on_finish = True
        self.write(b"" if getattr(self.request, "command", "") == "HEAD" else reply.body)


class ApplicationTask(Task):
    """Writes the application's response."""

    def execute(self) -> None:
        try:
            parts = self.connection.application(self._environment(), self.begin)
        except HandOver as upgrade:
            if request_log.is_on():
                self.status = "101 Switching Protocols"
                upgrade.take = partial(self._hand_over, upgrade.take)
            raise
        try:
            for part in parts:
                if part:
                    self.write(part)
        finally:
            if hasattr(parts, "close"):
                parts.close()
        self.end()

    def _environment(self) -> dict[str, Any]:
        """The variables that the applications read. PEP 3333 has more."""
        request, path = self.request, self.request.path
        environ = {
            "REMOTE_ADDR": self.connection.addr[0],
            "REQUEST_METHOD": request.command,
            "PATH_INFO": "/" + path.lstrip("/") if path.startswith("/") else path,
            "REQUEST_URI": request.request_uri,
            "QUERY_STRING": request.query,
            "wsgi.input": request.get_body_stream(),
            RESERVE: request.reserve,
        }
        for name, value in request.headers.items():
            environ[variable(name)] = value
        if identity := identify(request):
            environ[VARIABLE] = identity
        return environ

    def _hand_over(self, take: Callable[[socket.socket], None], connection: socket.socket) -> None:
        take(request_log.WebSocket(connection, self._log))
