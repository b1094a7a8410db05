"""A JSON-RPC client. Any thread may send requests. One thread reads the replies and passes each reply to the thread
that waits for it."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from cardapp.errors import (
    InvalidValue,
    McpCancelled,
    McpClosed,
    McpError,
    McpProtocolError,
    McpRemoteError,
    McpTimeout,
)
from cardapp.mcp.jsonrpc import (
    METHOD_NOT_FOUND,
    Batch,
    Failure,
    Frame,
    LineDecoder,
    Malformed,
    Message,
    Notification,
    Request,
    Result,
    encode,
    is_id,
)
from cardapp.mcp.transport import Transport, TransportClosed

OnProgress = Callable[[float, float | None, str | None], None]
"""Called with done, total and message of each progress notification, in the thread that waits for the reply."""

MAX_PROGRESS_WAITING = 1000
"""Maximum number of progress messages that wait while ``on_progress`` runs. The oldest are dropped first."""
MAX_UNASKED = 16 * 1024 * 1024
"""Maximum number of bytes that a peer may send while no request is pending. Reading without end would slow down the
other threads."""
MAX_PROGRESS_TEXT = 1000
"""Maximum length of a progress message. Further characters are cut off."""
_CANCEL_POLL = 0.05
"""Seconds between two checks of a caller's cancel event. A reply ends the wait at once."""
_SEND_TIMEOUT = 10.0
_CANCEL_SEND_TIMEOUT = 1.0
"""Seconds. Shorter than ``_SEND_TIMEOUT``, because the caller has already waited for the timeout of its request."""


@dataclass
class _Pending:
    """A request that waits for its reply. Times are seconds of the client's clock.

    The reader thread sets ``answer`` and all members below it, while it holds the lock ``RpcClient._changed``.
    """

    request: Request
    timeout: float
    maximum: float
    on_progress: OnProgress | None
    cancel: threading.Event | None
    cancellable: bool
    started: float
    answer: Result | Failure | None = None
    progress: deque[tuple[float, float | None, str | None]] = field(
        default_factory=lambda: deque(maxlen=MAX_PROGRESS_WAITING)
    )
    last_done: float = -math.inf
    last_sign: float = -math.inf
    """When the last progress message came."""

    def remaining(self, now: float) -> float:
        """How many seconds the caller may still wait, more than 0. Infinite if the reply has arrived.

        :raises McpCancelled, McpTimeout: the caller may not wait any longer.
        """
        if self.answer is not None:
            return math.inf
        method = self.request.method
        if self.cancel is not None and self.cancel.is_set():
            raise McpCancelled(f"{method} was cancelled")
        latest = self.started + self.maximum
        due = min(max(self.started, self.last_sign) + self.timeout, latest)
        remaining = due - now
        if remaining <= 0:
            limit = "its maximum time" if due == latest else f"{self.timeout:g} s"
            remedy = "it was cancelled, try again" if self.cancellable else "try again, or restart the server"
            raise McpTimeout(f"{method} was not answered within {limit}; {remedy}")
        return remaining


class RpcClient:
    """Sends requests to one peer, for any number of threads. A request's id is also its progress token."""

    def __init__(
        self, transport: Transport, name: str = "mcp-client", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start the reader thread. It closes ``transport`` at its end. Waits are measured in seconds of ``clock``."""
        self.closed = threading.Event()
        """Set when the connection has ended."""
        self.batches = False
        """Whether the negotiated revision allows batches."""
        self.answers_requests = True
        """Whether requests of the peer are answered. In a stateless revision servers send no requests."""
        self.on_notification: Callable[[Notification], None] = lambda _notification: None
        """The reader thread calls this with each notification, except for progress."""
        self._transport = transport
        self._clock = clock
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._pending: dict[object, _Pending] = {}
        self._end: McpError | None = None
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout: float,
        maximum: float | None = None,
        on_progress: OnProgress | None = None,
        cancel: threading.Event | None = None,
        cancellable: bool = True,
    ) -> dict[str, Any]:
        """Send a request and wait for the result.

        The wait ends ``timeout`` seconds after the last progress message, and after ``maximum`` seconds (default:
        ``timeout``) in all. If it ends without a reply, a late reply is ignored, and the peer is told to cancel the
        request if it is ``cancellable``.

        :raises McpTimeout, McpCancelled, McpClosed: the wait ended without a reply.
        :raises McpProtocolError: the peer violated the protocol.
        :raises McpRemoteError: the peer answered with an error.
        :raises InvalidValue: ``params`` are not JSON.
        """
        request = Request(next(self._ids), method, dict(params))
        if on_progress is not None:
            request.params["_meta"] = {**params.get("_meta", {}), "progressToken": request.id}
        longest = max(0.0, timeout if maximum is None else maximum)
        answer = self._ask(_Pending(request, timeout, longest, on_progress, cancel, cancellable, self._clock()))
        if isinstance(answer, Failure):
            raise McpRemoteError(answer.code, answer.message, answer.data)
        return answer.result

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification. :raises McpClosed: the connection has ended."""
        self._send(encode(Notification(method, params)), _SEND_TIMEOUT)

    def close(self, timeout: float = 5.0) -> None:
        """Close the connection; every pending request fails with :class:`McpClosed`. Idempotent."""
        self._finish(McpClosed("the connection was closed on this side"))
        self._transport.shut()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout)

    # -- the callers' threads --------------------------------------------------------------------------------------

    def _ask(self, pending: _Pending) -> Result | Failure:
        request = pending.request
        line = self._encoded(request)
        with self._changed:
            self._raise_if_ended()
            self._pending[request.id] = pending
        try:
            self._send(line, max(0.0, min(pending.timeout, pending.maximum)))
            return self._await(pending)
        except BaseException as why:
            if pending.cancellable and self._end is None:
                self._give_up(request, why)
            raise
        finally:
            with self._changed:
                del self._pending[request.id]

    def _await(self, pending: _Pending) -> Result | Failure:
        while True:
            with self._changed:
                if not pending.progress:
                    if pending.answer is not None:
                        return pending.answer
                    self._raise_if_ended()
                remaining = pending.remaining(self._clock())
                if not pending.progress:
                    self._changed.wait(remaining if pending.cancel is None else min(remaining, _CANCEL_POLL))
                news = list(pending.progress)
                pending.progress.clear()
            for done, total, message in news:
                if pending.on_progress is not None:
                    pending.on_progress(done, total, message)

    def _give_up(self, request: Request, why: BaseException) -> None:
        reason = why.detail if isinstance(why, McpError) else "the caller failed"
        with contextlib.suppress(McpError):  # if the peer is gone, the caller still gets the error ``why``
            notice = Notification("notifications/cancelled", {"requestId": request.id, "reason": reason})
            self._send(encode(notice), _CANCEL_SEND_TIMEOUT)

    def _encoded(self, request: Request) -> bytes:
        try:
            return encode(request)
        except ValueError as why:
            raise InvalidValue(f"the parameters of {request.method} cannot be sent: {why}") from why

    def _send(self, line: bytes, timeout: float) -> None:
        try:
            self._transport.send(line, timeout)
        except TransportClosed as why:
            self._finish(McpClosed(str(why)))
            self._raise_if_ended()

    def _raise_if_ended(self) -> None:
        if self._end is not None:
            # Each thread gets a new exception, because one shared exception would mix the threads' tracebacks.
            raise type(self._end)(self._end.detail)

    def _finish(self, end: McpError) -> None:
        with self._changed:
            if self._end is None:
                self._end = end
            self._changed.notify_all()
        self.closed.set()

    # -- the reader thread -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        decoder = LineDecoder()
        end: McpError | None = None
        unasked = 0
        try:
            while end is None and (data := self._transport.receive()):
                unasked = 0 if self._pending else unasked + len(data)
                if unasked > MAX_UNASKED:
                    end = McpProtocolError("the peer sends too much without a request")
                for frame in decoder.feed(data):
                    end = end or self._take(frame)
        finally:
            cut = ", in the middle of a message" if decoder.mid_line else ""
            self._finish(end or McpClosed(self._transport.failure or f"the peer is gone{cut}"))
            self._transport.close()

    def _take(self, frame: Frame) -> McpError | None:
        """Handle one frame. If it is invalid, return the error with which the connection ends."""
        if isinstance(frame, Malformed):
            return McpProtocolError(f"the peer sent an invalid message: {frame.reason}")
        if not isinstance(frame, Batch):
            self._take_one(frame)
        elif not self.batches:
            return McpProtocolError("the peer sent a batch, which the negotiated revision does not allow")
        else:
            for item in frame.items:
                if isinstance(item, Malformed):
                    return McpProtocolError(f"the peer sent an invalid message: {item.reason}")
                self._take_one(item)
        return None

    def _take_one(self, message: Message) -> None:
        if isinstance(message, Result | Failure):
            with self._changed:
                pending = self._pending.get(message.id)
                if pending is not None and pending.answer is None:
                    pending.answer = message
                    self._changed.notify_all()
        elif isinstance(message, Request):
            self._answer(message)
        elif message.method == "notifications/progress":
            self._progress(message.params)
        else:
            self.on_notification(message)

    def _progress(self, params: dict[str, Any]) -> None:
        """Store a progress message. Ignore the message if its token is unknown, its value is not larger than the last
        one, or the reply has already arrived."""
        done, total, text = params.get("progress"), params.get("total"), params.get("message")
        token = params.get("progressToken")
        if not _is_number(done) or not is_id(token):
            return
        with self._changed:
            pending = self._pending.get(token)
            if pending is None or pending.answer is not None or done <= pending.last_done:
                return
            pending.last_done, pending.last_sign = done, self._clock()
            short = text[:MAX_PROGRESS_TEXT] if type(text) is str else None
            pending.progress.append((done, total if _is_number(total) else None, short))
            self._changed.notify_all()

    def _answer(self, request: Request) -> None:
        if not self.answers_requests:
            return
        answer: Message
        if request.method == "ping":
            answer = Result(request.id, {})
        else:
            answer = Failure(request.id, METHOD_NOT_FOUND, f"Method not found: {request.method}")
        try:
            self._transport.send(encode(answer), _SEND_TIMEOUT)
        except TransportClosed as why:
            self._finish(McpClosed(str(why)))


def _is_number(value: object) -> TypeGuard[int | float]:
    return type(value) in (int, float)
