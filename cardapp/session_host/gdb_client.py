"""The client of the channel to the session's gdb (``gdb_plugin/channel.py``). Every wait has a timeout."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any, Protocol

from cardapp.errors import CardAppError, DebuggerFailed, TooSlow

# Seconds between two checks of the cancellation. A reply ends the wait at once.
CANCEL_POLL = 0.02
CONNECT_TIMEOUT = 2.0


class ChannelError(DebuggerFailed):
    """gdb refused the request. ``code`` is the channel's error code, ``extra`` holds the other members of the reply."""


class DebuggerGone(DebuggerFailed):
    """No gdb listens at the channel's socket, or it ended during the request."""

    code = "debugger_dead"


class Cancelled(CardAppError):
    """The wait for the reply was cancelled. gdb continues to work on the request."""

    code = "cancelled"


class Cancellation(Protocol):
    """Tells whether the caller still wants the reply."""

    def is_set(self) -> bool: ...


class PendingReply:
    """A request on which gdb works. Its reply may be awaited more than once. At the end of the ``with`` block the
    connection is closed, but gdb continues its work."""

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

    def __enter__(self) -> PendingReply:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def result(self, timeout: float, cancelled: Cancellation | None = None) -> Any:
        """Wait for gdb's reply and return it.

        Raises :class:`ChannelError`, :class:`DebuggerGone`, :class:`TooSlow` or :class:`Cancelled`.
        """
        deadline = time.monotonic() + timeout
        while not self._received.endswith(b"\n"):
            if cancelled is not None and cancelled.is_set():
                raise Cancelled("the request was cancelled")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TooSlow("gdb did not answer in time")
            self._receive(left if cancelled is None else min(left, CANCEL_POLL))
        reply = json.loads(self._received)
        if "ok" in reply:
            return reply["ok"]
        extra = {key: value for key, value in reply.items() if key not in ("error", "reason")}
        raise ChannelError(reply.get("reason", f"gdb refused {self._name}"), code=reply.get("error"), extra=extra)

    def _receive(self, timeout: float) -> None:
        self._connection.settimeout(timeout)
        try:
            data = self._connection.recv(1 << 16)
        except TimeoutError:
            return
        except OSError as error:
            raise DebuggerGone("gdb ended during the request") from error
        if not data:
            raise DebuggerGone("gdb ended during the request")
        self._received += data


class GdbChannel:
    """Sends requests to the gdb that serves ``path``. Each request opens a connection, so a restarted gdb is found at
    once."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def begin(self, name: str, **arguments: Any) -> PendingReply:
        """Send a request without waiting for its reply. Raises :class:`DebuggerGone`."""
        return PendingReply(self._path, name, arguments)

    def call(self, name: str, *, timeout: float, **arguments: Any) -> Any:
        """Send a request and return its reply. Raises the errors of :meth:`begin` and :meth:`PendingReply.result`."""
        with self.begin(name, **arguments) as pending:
            return pending.result(timeout)

    def alive(self, timeout: float = 2.0) -> bool:
        """Whether gdb's main thread answers."""
        try:
            self.call("ping", timeout=timeout)
        except (DebuggerFailed, TooSlow):
            return False
        return True

    def condition(self) -> str | None:
        """Why gdb cannot be used; None if it can."""
        try:
            self.call("state", timeout=1.0)
        except (DebuggerFailed, TooSlow) as error:
            return error.detail
        return None
