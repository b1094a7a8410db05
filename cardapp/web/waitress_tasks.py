"""The tasks of waitress that send a response; a part of :mod:`cardapp.web.waitress_adapter`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waitress.task import ErrorTask, WSGITask
from waitress.utilities import Error

from cardapp.errors import CardAppError
from cardapp.web.container_peers import PEER
from cardapp.web.failures import BadRequest, HeadersTooLarge, InternalError, UnknownCoding, problem, status_line
from cardapp.web.gate import secured
from cardapp.web.peer import MakeError
from cardapp.web.request_log import Logged


class Refusal(Error):
    """Stored as ``parser.error``: waitress then answers with the application's error that ``make`` returns."""

    def __init__(self, make: MakeError) -> None:
        super().__init__("")
        self.make = make


class ProblemTask(Logged, ErrorTask):
    """Answers a refused request with a problem document and the same headers as the application's errors."""

    _KINDS: Mapping[int, type[CardAppError]] = {431: HeadersTooLarge, 500: InternalError, 501: UnknownCoding}

    def execute(self) -> None:
        request: Any = self.request
        self.channel.is_refused = True
        error = request.error
        kind = self._KINDS.get(error.code, BadRequest)
        cause = error.make() if isinstance(error, Refusal) else kind(f"the request cannot be read: {error.body}")
        reply = problem(cause)
        assert isinstance(reply.body, bytes)
        self.status = status_line(reply.status)
        self.response_headers = secured([("Content-Type", reply.media_type), *reply.headers])
        self.set_close_on_finish()
        self.content_length = len(reply.body)
        self.write(b"" if getattr(request, "command", "") == "HEAD" else reply.body)


class Task(Logged, WSGITask):
    def get_environment(self) -> dict[str, Any]:
        channel: Any = self.channel
        return {**super().get_environment(), PEER: channel.pid_space}

    def set_close_on_finish(self) -> None:
        """Keep the connection open after a response without a body (304). waitress closes it, as if the missing
        Content-Length were needed (RFC 9112, section 6.3); a page that polls with an entity tag would reconnect."""
        request: Any = self.request
        is_asked_for = self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or is_asked_for:
            super().set_close_on_finish()
