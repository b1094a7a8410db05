"""The parts of a tool: its description, the context of a call, and the failure that it reports."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cardapp.mcp.jsonrpc import Id

Report = Callable[[float, float | None, str | None], None]
"""Takes one progress message: done, total, message."""


class ToolFailure(Exception):
    """A handler raises this if the tool failed. The caller gets ``code``, ``reason`` and ``data`` as the result."""

    def __init__(self, code: str, reason: str, **data: Any) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.data = data

    @property
    def structured(self) -> dict[str, Any]:
        """``{"code", "reason", …data}``."""
        return {**self.data, "code": self.code, "reason": self.reason}


class CallContext:
    """The second argument of a handler. It says whether the call was cancelled, and reports progress."""

    def __init__(self, request_id: Id, report: Report | None = None) -> None:
        """``report`` sends a progress message. It is None if the caller did not ask for progress."""
        self.request_id = request_id
        self.cancelled = threading.Event()
        """This event is set when the caller cancels the call or the connection ends. The handler should then stop."""
        self._report = report
        self._lock = threading.Lock()
        self._done: float | None = None
        self._finished = False

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller, if the caller asked for it.

        The protocol requires increasing values, and none after the end of the call. So a value that is not larger than
        the last one is not sent, and nothing is sent after the call has ended or was cancelled.
        """
        with self._lock:
            stale = self._done is not None and done <= self._done
            if stale or self._finished or self.cancelled.is_set() or self._report is None:
                return
            self._done = done
            self._report(done, total, message)

    def finish(self) -> None:
        """From now on, send no progress."""
        with self._lock:
            self._finished = True


Handler = Callable[[dict[str, Any], CallContext], dict[str, Any]]


@dataclass(frozen=True)
class Tool:
    """One tool. Both schemas are JSON Schema 2020-12 of type object.

    The server validates the arguments. It declares the output schema to clients, which validate the result. Each call
    of the handler runs in a new thread. The handler takes the arguments and returns the structured result, or raises
    :class:`ToolFailure`. Any other exception is logged, and the caller gets an internal error without details.
    """

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    handler: Handler
