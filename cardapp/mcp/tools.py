"""What a server offers: tools, the context of one call, and the failure a tool reports. Knows no transport."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cardapp.mcp.jsonrpc import Id

Report = Callable[[float, float | None, str | None], None]
"""Takes one progress message: done, total, message."""


class ToolFailure(Exception):
    """The tool could not do what it was asked; the caller is told ``code``, ``reason`` and ``data`` as its result."""

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
    """One running call, as its handler sees it."""

    def __init__(self, request_id: Id, report: Report | None = None) -> None:
        """``report`` is where progress goes; without one nobody asked for it."""
        self.request_id = request_id
        self.cancelled = threading.Event()
        """Set when the caller gave up or the connection ended; the handler should stop soon."""
        self._report = report
        self._lock = threading.Lock()
        self._done: float | None = None
        self._finished = False

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the call is.

        The protocol wants values that increase and none after the end: what does not increase, and what comes after the
        call ended or was cancelled, is not sent.
        """
        with self._lock:
            stale = self._done is not None and done <= self._done
            if stale or self._finished or self.cancelled.is_set() or self._report is None:
                return
            self._done = done
            self._report(done, total, message)

    def finish(self) -> None:
        """No progress is sent once this has returned."""
        with self._lock:
            self._finished = True


Handler = Callable[[dict[str, Any], CallContext], dict[str, Any]]


@dataclass(frozen=True)
class Tool:
    """One tool. Both schemas are JSON Schema 2020-12 of type object; what goes in and comes out is checked by them.

    The handler runs in a thread of its own; it takes the arguments and answers the structured result, or raises
    :class:`ToolFailure`. Any other exception is a defect: it is logged and the caller learns only that there was one.
    """

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    handler: Handler
