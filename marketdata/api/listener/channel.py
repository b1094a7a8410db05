"""One connection: waitress' channel, with a worker that stays for the next request, and refusals as problems."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from time import monotonic
from typing import Any, Self

from waitress.channel import HTTPChannel
from waitress.task import ErrorTask, WSGITask
from waitress.utilities import build_http_date

from marketdata.api.failures import BadRequest, HeadersTooLarge, InternalError, UnknownCoding, problem, status_line
from marketdata.api.listener.parser import Bodies, Parser
from marketdata.errors import MarketError, Saturated, TooLarge

RECEIVE_BYTES = 64 * 1024
IDLE_SECONDS = 60
"""A connection on which nothing moves for so long is closed, a client that does not read its answer too; likewise one
that falls so far behind ``LEAST_RATE``."""

LEAST_RATE = 256 * 1024
"""Bytes per second that a client has to take of its answer while a worker waits to write the rest: a stream beyond
waitress' 16 MiB keeps a worker, a database connection and its transaction until it ends."""

CROWDED_SECONDS = 5.0
"""In place of ``IDLE_SECONDS`` for a client that falls behind ``LEAST_RATE``, while requests queue for a worker. The
system's buffers empty in bursts of up to a megabyte."""

STAY_MS = 2
"""How long a worker waits for the next request of the connection that it has just served, while nothing else waits and
another worker is free; rounded up to the ticks of the kernel, some 4 to 10 milliseconds."""


class _ProblemTask(ErrorTask):
    """What waitress itself refuses, as the same problems as everything else."""

    _KINDS: Mapping[int, type[MarketError]] = {
        413: TooLarge,
        429: Saturated,
        431: HeadersTooLarge,
        500: InternalError,
        501: UnknownCoding,
    }

    def execute(self) -> None:
        reply = problem(self._refusal())
        assert isinstance(reply.body, bytes)
        self.status = status_line(reply.status)
        self.response_headers = [("Content-Type", reply.media_type), *reply.headers]
        self.set_close_on_finish()
        self.content_length = len(reply.body)
        self.write(reply.body)

    def _refusal(self) -> MarketError:
        request: Any = self.request
        kind = self._KINDS.get(request.error.code, BadRequest)
        if kind is TooLarge:
            return TooLarge.body(self.channel.adj.max_request_body_size - 1)  # waitress refuses its limit itself
        return kind(f"the request cannot be read: {request.error.body}")


_PLAIN = {"Content-Length", "Content-Type", "Content-Encoding", "ETag", "Cache-Control", "Vary"}
"""Headers of an answer that stand once each and say nothing of the connection."""


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return build_http_date(second)


class _Task(WSGITask):
    """Sends an answer with its header in one piece, and keeps the connection after one without a body (304), whose end
    needs no length (RFC 9112, section 6.3): a client that polls with its entity tag would otherwise connect anew."""

    def write(self, data: bytes) -> None:
        if self.wrote_header or self.content_length is None or not self.has_body:
            super().write(data)
            return
        header = self.build_response_header()
        self.wrote_header = True
        self.content_bytes_written += len(data)
        channel: Any = self.channel
        channel.write_now(header, data)

    def build_response_header(self) -> bytes:
        """The header of an answer as we give nearly all: HTTP/1.1, of a length that is told, on a connection that
        stays. What waitress looks for in any other would cost more than such an answer."""
        request: Any = self.request
        lines = dict(self.response_headers)
        is_closing = self.close_on_finish or request.headers.get("CONNECTION", "").lower() == "close"
        is_plain = {"Content-Length"} <= lines.keys() <= _PLAIN and len(lines) == len(self.response_headers)
        if self.version == "1.0" or is_closing or not is_plain:
            header: bytes = super().build_response_header()
            return header
        told = "".join([f"{name}: {value}\r\n" for name, value in lines.items()])
        return f"HTTP/1.1 {self.status}\r\n{told}Date: {_date(int(self.start_time))}\r\n\r\n".encode("latin-1")

    def set_close_on_finish(self) -> None:
        request: Any = self.request
        asked = self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or asked:
            super().set_close_on_finish()


class _Server:
    """The server as an attended connection sees it: its loop is woken only for what it has to do.

    Every waking costs both threads a turn of the interpreter's lock, which is more than the request itself.
    """

    def __init__(self, server: Any, channel: Channel) -> None:
        self._server = server
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def add_task(self, channel: Channel) -> None:
        """To a worker, unless one attends to it already."""
        if not channel.attended:
            channel.attended = True
            self._server.add_task(channel)

    def pull_trigger(self) -> None:
        """Wake the loop when something is left to send or to close, or the connection is its own again."""
        if self._channel.writable() or not self._channel.attended:
            self._server.pull_trigger()


class _Socket(socket.socket):
    """Whoever attends to a connection may wait for its next request in the call that takes it; waiting first would be a
    second turn of the interpreter's lock. For that the socket blocks. All other calls say that they do not wait."""

    @classmethod
    def of(cls, accepted: socket.socket) -> Self:
        made = cls(accepted.family, accepted.type, accepted.proto, accepted.detach())
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, STAY_MS * 1000))
        return made

    def receive(self, size: int) -> bytes:
        """What arrives within ``STAY_MS``; BlockingIOError when nothing does."""
        return super().recv(size)

    def recv(self, size: int, flags: int = 0) -> bytes:
        return super().recv(size, flags | socket.MSG_DONTWAIT)

    def send(self, data: Any, flags: int = 0) -> int:
        return super().send(data, flags | socket.MSG_DONTWAIT)

    def send_parts(self, *parts: bytes) -> int:
        return self.sendmsg(parts, (), socket.MSG_DONTWAIT)


class Channel(HTTPChannel):
    """One connection; knows for how long its request has been arriving, and how its client keeps up with an answer.

    From the arrival of a request on, the worker that serves it attends to the connection, and the loop does not read
    from it. Clients that keep a connection ask again at once, and then no thread has to wake another.
    """

    task_class = _Task
    error_task_class = _ProblemTask
    attended = False
    _arriving_since: float | None = None
    _is_waited_for = False
    _paid_until = 0.0
    """The moment up to which the client has taken what ``LEAST_RATE`` asks for."""

    def __init__(self, bodies: Bodies, server: Any, accepted: socket.socket, *rest: Any, **named: Any) -> None:
        connection = _Socket.of(accepted)
        super().__init__(server, connection, *rest, **named)
        connection.setblocking(True)
        self.parser_class: Any = partial(Parser, bodies=bodies)
        self.server: Any = _Server(server, self)

    def readable(self) -> bool:
        return not self.attended and bool(super().readable())

    def handle_write(self) -> None:
        # The worker may begin the next answer at any moment: only the lock keeps two senders apart.
        with self.outbuf_lock:
            super().handle_write()

    def write_now(self, header: bytes, body: bytes) -> None:
        """Send a whole answer: only what the connection does not take at once goes through waitress' buffers, whose
        copies cost more than a remembered answer."""
        sent = 0
        with self.outbuf_lock:
            connection: Any = self.socket
            if self.connected and not self.total_outbufs_len:
                with suppress(OSError):  # which the buffers' way meets again, and deals with
                    sent = connection.send_parts(header, body)
                self._moved = monotonic()
            if sent < len(header) + len(body):
                self.write_soon((header + body)[sent:])

    def write_soon(self, data: bytes) -> int:
        if not self.total_outbufs_len:
            self._paid_until = monotonic()  # until now there was nothing to take
        written: int = super().write_soon(data)
        return written

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        self._paid_until = min(self._paid_until + sent / LEAST_RATE, monotonic())
        return sent

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Where waitress lets a worker wait until its client has taken enough."""
        inherited: Any = super()  # whose annotations leave this out
        self._is_waited_for = self.total_outbufs_len > self.adj.outbuf_high_watermark
        try:
            inherited._flush_outbufs_below_high_watermark()
        finally:
            self._is_waited_for = False

    def service(self) -> None:
        """Serve what has arrived, and what arrives within a moment; then give the connection back to the loop."""
        super().service()
        while self._has_next():
            super().service()
        lock: Any = vars(self)["requests_lock"]  # which the annotations of waitress leave out
        with lock:  # the loop takes a request for the first only while there is none
            self.attended = False
            has_more = bool(self.requests)
        if has_more:
            self.server.add_task(self)  # behind those that waited
        elif self.connected:
            self.server.pull_trigger()

    def _has_next(self) -> bool:
        dispatcher = self.server.task_dispatcher
        while self.connected and not self.writable() and not dispatcher.queue and not dispatcher.stop_count:
            if self.requests:
                return True
            if dispatcher.active_count >= len(dispatcher.threads) or not self._receive():
                return False
        return False

    def _receive(self) -> bool:
        """Take what the client sends within a moment; False when it sends nothing."""
        connection: Any = self.socket
        try:
            data = connection.receive(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except (OSError, AttributeError):  # ended, or closed by the loop, which leaves no socket
            data = b""
        if data:
            self._moved = monotonic()
            self.received(data)
        else:
            self.will_close = True  # by the loop, to which all closing belongs
        return True

    def received(self, data: bytes) -> bool:
        result: bool = super().received(data)
        if self.request is None:
            self._arriving_since = None
        elif self._arriving_since is None:
            self._arriving_since = monotonic()
        return result

    @property
    def last_activity(self) -> float:
        """When something moved here, in monotonic seconds, whatever time waitress notes: a wall clock may be set."""
        return self._moved

    @last_activity.setter
    def last_activity(self, _wall: float) -> None:
        self._moved = monotonic()

    def is_overdue(self, arrival_seconds: float, *, crowded: bool) -> bool:
        """Whether its request should have arrived by now, nothing moves on it, or its client does not read on."""
        now = monotonic()
        if self._arriving_since is not None and now - self._arriving_since > arrival_seconds:
            return True
        if self._is_waited_for and now - self._paid_until > (CROWDED_SECONDS if crowded else IDLE_SECONDS):
            return True
        is_waiting = bool(self.total_outbufs_len) or not self.requests
        return is_waiting and now - self._moved > IDLE_SECONDS

    def is_unused(self, seconds: float) -> bool:
        """Whether for so long nothing moved on it, and no answer to it is under way."""
        is_quiet = not (self.requests or self.attended or self.total_outbufs_len)
        return is_quiet and monotonic() - self._moved >= seconds

    def handle_close(self) -> None:
        self.will_close = True  # what still arrives at a worker that waits for it is not taken up
        super().handle_close()
        lock: Any = vars(self)["requests_lock"]  # which the annotations of waitress leave out
        with lock:  # a worker may be parsing what it received
            if self.request is not None:
                self.request.close()
                self.request = None
