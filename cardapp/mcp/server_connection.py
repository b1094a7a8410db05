"""The server's connection to one peer. Each tool call runs in a thread; other requests are answered at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from cardapp.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
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
from cardapp.mcp.protocol import Protocol, Refusal, progress_params
from cardapp.mcp.revisions import META, PROGRESS_TOKEN, Revision
from cardapp.mcp.tool import CallContext, Report, Tool, ToolFailure
from cardapp.mcp.transport import Transport, TransportClosed

SEND_TIMEOUT = 10.0
"""If a peer does not read a reply within this many seconds, the connection is closed."""

_LOG = logging.getLogger(__name__)

Answer: TypeAlias = Result | Failure | None
"""None means that a cancelled request gets no answer."""
Reply = Callable[[Answer], None]


@dataclass(eq=False)
class _Call:
    """A running tool call."""

    request: Request
    revision: Revision
    tool: Tool
    arguments: dict[str, Any]
    context: CallContext
    reply: Reply
    muted: bool = False
    """Whether the peer has cancelled the call. Then no reply is sent."""


class _BatchAnswers:
    """Collects the replies to a batch and sends them as one array when all are there (JSON-RPC 2.0, "Batch")."""

    def __init__(self, batch: Batch, send: Callable[[list[Message]], None]) -> None:
        self._open = sum(isinstance(item, Request | Malformed) for item in batch.items)
        self._send = send
        self._lock = threading.Lock()
        self._answers: list[Message] = []

    def add(self, answer: Answer) -> None:
        with self._lock:
            self._open -= 1
            if answer is not None:
                self._answers.append(answer)
            complete = self._open == 0
        if complete and self._answers:
            self._send(self._answers)


class Connection:
    """The connection to one peer. When :meth:`run` returns, all calls have ended or were cancelled."""

    def __init__(self, protocol: Protocol, transport: Transport, slots: threading.Semaphore, grace: float) -> None:
        """``slots`` limits how many calls run at once. When the connection ends, it waits at most ``grace`` seconds for
        its running calls."""
        self._protocol = protocol
        self._transport = transport
        self._slots = slots
        self._grace = grace
        self._negotiated: Revision | None = None
        self._lock = threading.Lock()
        self._calls: dict[object, _Call] = {}
        self._threads: dict[threading.Thread, _Call] = {}

    def run(self) -> None:
        """Serve until the peer ends its side or the transport is shut, then close the transport."""
        decoder = LineDecoder()
        try:
            while data := self._transport.receive():
                for frame in decoder.feed(data):
                    self._take(frame)
        finally:
            self._end()

    def _end(self) -> None:
        """Cancel the calls. Their replies are still sent, because the peer may have closed only its sending side."""
        with self._lock:
            running = dict(self._threads)
        for call in running.values():
            call.context.cancelled.set()
        deadline = time.monotonic() + self._grace
        for thread in running:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._transport.close()

    # -- receiving -------------------------------------------------------------------------------------------------

    def _take(self, frame: Frame) -> None:
        if not isinstance(frame, Batch):
            self._take_one(frame, self._reply)
        elif self._negotiated is None or not self._negotiated.batches:
            self._send(Failure(None, INVALID_REQUEST, "batches exist in revision 2025-03-26 only"))
        else:
            answers = _BatchAnswers(frame, self._send)
            for item in frame.items:
                self._take_one(item, answers.add)

    def _take_one(self, frame: Message | Malformed, reply: Reply) -> None:
        if isinstance(frame, Malformed):
            reply(Failure(frame.id, frame.code, frame.reason))
        elif isinstance(frame, Request):
            self._request(frame, reply)
        elif isinstance(frame, Notification) and frame.method == "notifications/cancelled":
            self._cancel(frame.params.get("requestId"))
        # Other notifications need no action. Replies are ignored, because this server sends no requests.

    def _request(self, request: Request, reply: Reply) -> None:
        try:
            revision = self._protocol.revision_of(request, self._negotiated)
            if request.method == "tools/call":
                self._call(request, revision, reply)
            else:
                reply(Result(request.id, self._result(request, revision)))
        except Refusal as refusal:
            reply(Failure(request.id, refusal.code, refusal.message, refusal.data))
        except ToolFailure as failure:
            reply(Result(request.id, self._protocol.failure(revision, failure)))

    def _result(self, request: Request, revision: Revision) -> dict[str, Any]:
        if request.method == "initialize":
            self._negotiated, result = self._protocol.initialize(request, self._negotiated)
            return result
        if request.method == "server/discover":
            return self._protocol.discover(revision)
        if request.method == "tools/list":
            return self._protocol.list_tools(request, revision)
        return {}  # ping

    def _cancel(self, request_id: Any) -> None:
        with self._lock:
            call = self._calls.get(request_id) if is_id(request_id) else None
        if call is not None:
            call.muted = True
            call.context.cancelled.set()

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, request: Request, revision: Revision, reply: Reply) -> None:
        tool, arguments = self._protocol.tool_and_arguments(request)
        self._protocol.check_arguments(tool, arguments, revision)
        context = CallContext(request.id, self._reporter(request, revision))
        call = _Call(request, revision, tool, arguments, context, reply)
        thread = threading.Thread(target=self._run_call, args=(call,), name=f"mcp-call-{tool.name}", daemon=True)
        with self._lock:
            if request.id in self._calls:
                # Reply without an id. With the id, the peer would mistake this reply for the reply to the running call.
                return reply(Failure(None, INVALID_REQUEST, f"the id {request.id!r} is in use"))
            if not self._slots.acquire(blocking=False):
                raise ToolFailure("busy", "too many calls run at once; try again when one has ended")
            self._calls[request.id] = self._threads[thread] = call
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            with self._lock:
                del self._calls[request.id], self._threads[thread]
            self._slots.release()
            raise ToolFailure("busy", "the system has no thread left for this call; try again later") from error

    def _run_call(self, call: _Call) -> None:
        answer = self._outcome(call)
        call.context.finish()
        with self._lock:
            del self._calls[call.request.id]
        self._slots.release()
        # The reply is sent last, because the peer may use the id and the slot again when it has the reply.
        call.reply(None if call.muted else answer)
        with self._lock:
            del self._threads[threading.current_thread()]

    def _outcome(self, call: _Call) -> Answer:
        try:
            return Result(call.request.id, self._called(call))
        except Exception:
            _LOG.exception("internal error in the tool %s", call.tool.name)
            return Failure(
                call.request.id, INTERNAL_ERROR, f"internal error in the tool {call.tool.name}; see the server's log"
            )

    def _called(self, call: _Call) -> dict[str, Any]:
        try:
            structured = call.tool.handler(call.arguments, call.context)
        except ToolFailure as failure:
            return self._protocol.failure(call.revision, failure)
        return self._protocol.success(call.revision, structured)

    def _reporter(self, request: Request, revision: Revision) -> Report | None:
        token = request.params.get(META, {}).get(PROGRESS_TOKEN)
        if token is None:
            return None

        def report(done: float, total: float | None, message: str | None) -> None:
            self._send(Notification("notifications/progress", progress_params(revision, token, done, total, message)))

        return report

    # -- sending ---------------------------------------------------------------------------------------------------

    def _reply(self, answer: Answer) -> None:
        if answer is not None:
            self._send(answer)

    def _send(self, message: Message | list[Message]) -> None:
        try:
            self._transport.send(encode(message), SEND_TIMEOUT)
        except TransportClosed as why:
            _LOG.debug("lost the connection to an MCP peer: %s", why)
