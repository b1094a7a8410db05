"""The session's gdb, seen from outside: requests over its channel, bounded and cancellable."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any, Protocol

from cardapp.errors import CardAppError, DebuggerFailed, TooSlow

# How often a wait looks at the cancellation; an answer ends the wait at once.
GLANCE = 0.02
CONNECT_TIMEOUT = 2.0


class ChannelError(DebuggerFailed):
    """gdb refused the request: ``code`` is the channel's own, ``extra`` what it sent beside the reason."""


class DebuggerGone(DebuggerFailed):
    """No gdb answers at the channel's socket, or it ended during the request."""

    code = "debugger_dead"


class Cancelled(CardAppError):
    """The caller's event was set while gdb worked on the request; gdb goes on with it."""

    code = "cancelled"


class Cancellation(Protocol):
    """What tells that an answer is no longer wanted."""

    def is_set(self) -> bool: ...


class Pending:
    """A request under way. Its answer may be awaited more than once; closing only stops listening for it."""

    def __init__(self, path: str, name: str, arguments: dict[str, Any]) -> None:
        self._name = name
        self._received = bytearray()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connection.settimeout(CONNECT_TIMEOUT)
            self._connection.connect(path)
            self._connection.sendall(json.dumps({"do": name, "with": arguments}).encode() + b"\n")
        except OSError as error:
            self._connection.close()
            raise DebuggerGone(f"gdb does not answer ({error.strerror or error})") from error

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def result(self, timeout: float, cancelled: Cancellation | None = None) -> Any:
        """gdb's answer. Raises :class:`ChannelError`, :class:`DebuggerGone`, :class:`TooSlow` or :class:`Cancelled`."""
        deadline = time.monotonic() + timeout
        while not self._received.endswith(b"\n"):
            if cancelled is not None and cancelled.is_set():
                raise Cancelled("the request was cancelled")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TooSlow("gdb did not answer in time")
            self._receive(left if cancelled is None else min(left, GLANCE))
        answer = json.loads(self._received)
        if "ok" in answer:
            return answer["ok"]
        extra = {key: value for key, value in answer.items() if key not in ("error", "reason")}
        raise ChannelError(answer.get("reason", f"gdb refused {self._name}"), code=answer.get("error"), extra=extra)

    def _receive(self, timeout: float) -> None:
        self._connection.settimeout(timeout)
        try:
            piece = self._connection.recv(1 << 16)
        except TimeoutError:
            return
        except OSError as error:
            raise DebuggerGone("gdb ended during the request") from error
        if not piece:
            raise DebuggerGone("gdb ended during the request")
        self._received += piece


class GdbChannel:
    """Speaks with the gdb that serves ``path``. Holds no connection between requests, so a new gdb is found at once."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def begin(self, name: str, **arguments: Any) -> Pending:
        """Send a request without waiting for its answer. Raises :class:`DebuggerGone`."""
        return Pending(self._path, name, arguments)

    def call(self, name: str, *, timeout: float, **arguments: Any) -> Any:
        """Send a request and wait for its answer; raises as :meth:`begin` and :meth:`Pending.result` do."""
        with self.begin(name, **arguments) as pending:
            return pending.result(timeout)

    def alive(self, timeout: float = 2.0) -> bool:
        """Whether gdb's own thread answers."""
        try:
            self.call("ping", timeout=timeout)
        except (DebuggerFailed, TooSlow):
            return False
        return True

    def condition(self) -> str | None:
        """Why it cannot be used, None when it can."""
        try:
            self.call("state", timeout=1.0)
        except (DebuggerFailed, TooSlow) as error:
            return error.detail
        return None
