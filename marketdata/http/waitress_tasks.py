"""The tasks of waitress that send an answer; a part of :mod:`marketdata.http.waitress_adapter`."""

from __future__ import annotations

from typing import Any

from waitress.task import ErrorTask, WSGITask

from marketdata.http.request_log import Logged
from marketdata.http.response_head import ordinary_head


class ErrorAnswer(Logged, ErrorTask):
    def execute(self) -> None:
        request: Any = self.request
        connection: Any = self.channel
        connection.lingers = True
        self.status, self.response_headers, body = connection.refusal(request.cause)
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(b"" if getattr(request, "command", "") == "HEAD" else body)


class Answer(Logged, WSGITask):
    """Sends head and body in one call. Keeps the connection after an answer without a body (304), which needs no length
    (RFC 9112, section 6.3), so that a client that polls with its entity tag need not connect again."""

    def write(self, data: bytes) -> None:
        if self.wrote_header or self.content_length is None or not self.has_body:
            super().write(data)
            return
        head = self.build_response_header()
        self.wrote_header = True
        self.content_bytes_written += len(data)
        connection: Any = self.channel
        connection.write_now(head, data)

    def build_response_header(self) -> bytes:
        self.add_id()
        head: bytes | None = None
        if not self.close_on_finish and not self._is_last():
            head = ordinary_head(self.status, self.response_headers, self.start_time)
        return head or super().build_response_header()  # slower: its checks take longer than serving a small answer

    def set_close_on_finish(self) -> None:
        if self.has_body or self._is_last():
            super().set_close_on_finish()

    def _is_last(self) -> bool:
        request: Any = self.request
        return bool(self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close")
