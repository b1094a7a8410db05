"""Adapts waitress. Only this module, ``waitress_tasks`` and ``request_log`` use its undocumented members.

waitress documents ``create_server`` and its options. The listener also needs its parser, tasks, connections and event
loop, and subclasses what this module offers. A test compares the members used here with their signatures.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.server import create_server
from waitress.utilities import BadRequest, Error

from marketdata.http.chunked_coding import ChunkedDecoder, MalformedChunk
from marketdata.http.failures import WsgiApp
from marketdata.http.hand_over import HandOver
from marketdata.http.waitress_tasks import Answer, ErrorAnswer

Cause = Any
"""Why a request is refused: the argument of ``RequestParser.fail``, or ``(status, reason)`` of an error of waitress."""


class _StrictChunks(ChunkedReceiver):
    def __init__(self, buffer: Any) -> None:
        super().__init__(buffer)
        self._decoder = ChunkedDecoder(buffer.append)

    def received(self, data: bytes) -> int:
        try:
            return self._decoder.feed(data)
        except MalformedChunk as error:
            self.error = BadRequest(str(error))
            return len(data)
        finally:
            self.completed = self._decoder.is_complete


def _named(name: str, doc: str) -> Any:
    return property(attrgetter(name), lambda self, value: setattr(self, name, value), doc=doc)


class RequestParser(HTTPRequestParser):
    """Parses one request while it arrives. A subclass implements ``receive`` and ``release``. It inherits from waitress
    ``version``, ``command``, ``path``, ``headers`` (upper-case names with underscores), ``chunked``,
    ``content_length``, ``body_bytes_received``, and ``close`` (drops the body; may be called repeatedly)."""

    path: str
    is_held = False
    """Whether parsing is paused until :meth:`Connection.resume`."""
    has_head = _named("headers_finished", "Whether the head is parsed. 100 Continue is sent only after that.")
    is_blank = _named("empty", "Whether only blank lines have arrived.")
    is_complete = _named("completed", "Whether parsing has ended and a worker can answer.")
    wants_continue = _named("expect_continue", "Whether to send 100 Continue.")
    has_body = property(lambda self: self.body_rcv is not None, doc="Whether a body follows the head.")
    is_refused = property(lambda self: self.error is not None, doc="Whether waitress or ``fail`` refused the request.")

    parse = HTTPRequestParser.received
    """Parse ``data`` as the next part of the request; returns how many of its bytes belong to this request."""

    def receive(self, data: bytes) -> int:
        """Parse ``data`` with ``parse`` and check the request; returns how many bytes were consumed."""
        raise NotImplementedError

    def fail(self, cause: Cause) -> None:
        """Refuse the request; ``cause`` is passed to :meth:`Connection.refusal`."""
        self.error = Error(cause)

    @property
    def cause(self) -> Cause:
        error: Any = self.error
        return error.body if type(error) is Error else (error.code, error.body)

    def received(self, data: bytes) -> int:
        return self.receive(data)

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # of urlsplit, or of a number of more than 4300 digits
            raise ParsingError("the request line or Content-Length is malformed") from error
        if self.body_rcv is not None and self.chunked:
            self.body_rcv = _StrictChunks(self.body_rcv.getbuf())


class _ServerOfConnection:
    """The server as one connection sees it. It wakes the loop only when needed: a wake-up costs both threads a switch
    of the GIL, more than the request itself."""

    def __init__(self, server: Any, connection: Connection) -> None:
        self._server = server
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def add_task(self, connection: Connection) -> None:
        if not connection.is_in_worker:
            connection.is_in_worker = True
            self._server.add_task(connection)

    def pull_trigger(self) -> None:
        if self._connection.writable() or not self._connection.is_in_worker:
            self._server.pull_trigger()


class Connection(HTTPChannel):
    """One connection. The loop's thread reads from it until a request is complete or held. Then a worker calls
    ``run_in_worker``, and the loop does not read until ``return_to_loop``. Only the loop's thread closes it.

    A subclass implements ``new_request``, ``run_in_worker``, ``refusal``, ``discard``, ``write_now`` and
    ``wait_for_client``. It may extend ``received``, ``send`` and ``write_soon`` (into the buffers). It inherits from
    waitress ``connected``, ``socket``, ``will_close`` (makes the loop close it), ``outbuf_lock`` (held while sending).
    """

    task_class = Answer
    error_task_class = ErrorAnswer
    requests: list[Any]
    request: Any
    server: Any
    socket: Any
    is_in_worker = False
    lingers = False
    """Whether a request was refused. Closing at once would reset the connection, and a client that is still writing
    would lose the answer. After the answer is sent (``is_discarding``), input is dropped (RFC 9112, section 9.6)."""
    is_discarding = False

    unsent = property(attrgetter("total_outbufs_len"), doc="Bytes of answers that the kernel has not accepted yet.")
    address = property(lambda self: str(self.addr[0]), doc="The IP address of the client.")
    arriving = property(attrgetter("request"), doc="The parser of a request that has arrived in part, or None.")
    is_held = property(lambda self: getattr(self.request, "is_held", False), doc="Whether ``arriving`` is held.")
    has_request = property(lambda self: bool(self.requests), doc="Whether a complete request is not answered yet.")
    next_path = property(
        lambda self: getattr(self.requests[0], "path", "") if self.requests else "",
        doc="The path of the first complete request; empty if it has none, since it cannot be read.",
    )
    has_output = property(lambda self: bool(self.writable()), doc="Whether the loop has to send or close.")

    def __init__(self, server: Any, accepted: socket.socket, *rest: Any, **named: Any) -> None:
        super().__init__(server, accepted, *rest, **named)
        # Lock order: requests_lock before outbuf_lock. Reentrant, because a failed send may call handle_close.
        self.requests_lock = threading.RLock()
        self.workers: Any = server.task_dispatcher
        self.server = _ServerOfConnection(server, self)

    def new_request(self, options: Any) -> RequestParser:
        """Create the parser of the next request with ``options``."""
        raise NotImplementedError

    def run_in_worker(self) -> None:
        """In a worker: call ``serve`` or ``resume`` for each request that has arrived, then ``return_to_loop``."""

    def refusal(self, cause: Cause) -> tuple[str, list[tuple[str, str]], bytes]:
        """Status line, header fields and body of the answer to a refused request."""
        raise NotImplementedError

    def discard(self, data: bytes) -> None:
        """Drop ``data``."""

    def write_now(self, head: bytes, body: bytes) -> None:
        """Send a whole answer."""

    def wait_for_client(self, wait: Callable[[], None]) -> None:
        """In a worker: call ``wait``, which blocks until the client has read enough of its answer."""

    serve = HTTPChannel.service
    """In a worker: answer the first complete request."""

    def resume(self) -> None:
        """Continue to parse the held request; if it was refused in the meantime, queue its answer."""
        with self.requests_lock:
            if (request := self.request) is None or self.will_close:
                return
            held = request.release()
            if request.completed:
                self.requests.append(request)
                self.request = None
                return
            if request.expect_continue:
                self.send_continue()
        self.received(held)

    def return_to_loop(self) -> None:
        """In a worker: let the loop read again. If a request is waiting, also queue the connection for a worker."""
        with self.requests_lock:
            self.is_in_worker = False
            if self.requests or self.is_held:
                self.server.add_task(self)
        if self.connected:
            self.server.pull_trigger()

    def parser_class(self, options: Any) -> RequestParser:  # type: ignore[override]
        return self.new_request(options)

    def service(self) -> None:
        try:
            self.run_in_worker()
        except HandOver as upgrade:  # it stays in the worker, so that the loop does not read any more
            self.server.trigger.pull_trigger(partial(self._hand_over, upgrade.take))

    def _hand_over(self, take: Callable[[socket.socket], None]) -> None:
        """In the loop's thread. The connection of a client that has sent more already is closed: that would be lost. So
        is that of a client that has not read the answers before, once it has read them."""
        if self.connected and self.unsent:
            with self.requests_lock:
                self.requests.clear()  # waitress would wait for more output of a request
            self.close_when_flushed = True
            return
        if self.connected and self.request is None and len(self.requests) == 1:
            take(socket.socket(fileno=self.socket.dup().detach()))
        self.handle_close()

    def readable(self) -> bool:
        return not self.is_in_worker and bool(super().readable())

    def received(self, data: bytes) -> bool:
        """Parse ``data``; queue the connection for a worker when a request is complete or held."""
        if self.lingers:
            self.discard(data)
            return False
        result = super().received(data)
        if self.is_held:
            with self.requests_lock:
                self.server.add_task(self)
        return result

    def handle_write(self) -> None:
        with self.requests_lock, self.outbuf_lock:  # a worker may start another answer meanwhile
            is_ending = self.lingers and self.close_when_flushed and not self.will_close
            if is_ending:
                self.close_when_flushed = False  # else waitress would close after the flush
            super().handle_write()
            if is_ending and self.connected and not self.will_close:
                self.close_when_flushed = self.total_outbufs_len > 0
                if not self.close_when_flushed:
                    self.is_discarding = True
                    self.socket.shutdown(socket.SHUT_WR)

    def _flush_outbufs_below_high_watermark(self) -> None:
        inherited: Any = super()  # the type stubs lack this method
        if self.total_outbufs_len > self.adj.outbuf_high_watermark:
            self.wait_for_client(inherited._flush_outbufs_below_high_watermark)

    def handle_close(self) -> None:
        """Close the connection now."""
        self.will_close = True  # a worker that has just received data drops it
        super().handle_close()
        with self.requests_lock:  # a worker may be parsing
            if self.request is not None:
                self.request.close()
                self.request = None


class Server:
    """A listening socket and its connections. One thread, the loop's thread, calls ``turn`` repeatedly."""

    def __init__(
        self, app: WsgiApp, bound: socket.socket, workers: Any, connect: Callable[..., Connection], **options: Any
    ) -> None:
        """``workers.add_task`` queues a connection; a worker then calls its ``service``. ``connect`` makes one."""
        self._map: dict[int, Any] = {}
        server: Any = create_server(app, map=self._map, sockets=[bound], _dispatcher=workers, **options)
        server.channel_class, server.next_channel_cleanup = connect, math.inf  # the cleanup uses the wall clock
        self._server = server

    def __len__(self) -> int:
        """The number of open connections plus two (the listening socket and the trigger)."""
        return len(self._map)

    def connections(self) -> list[Connection]:
        return [each for each in list(self._map.values()) if isinstance(each, Connection)]

    def turn(self, seconds: float) -> None:
        """Wait up to ``seconds`` for ready connections; read from them and write to them."""
        wasyncore.poll2(seconds, self._map)

    def wake(self, action: Callable[[], None] | None = None) -> None:
        """Make a waiting ``turn`` call ``action`` and return; may be called in any thread."""
        with suppress(OSError):  # the loop may have run the action and ended already
            self._server.trigger.pull_trigger(action)

    def stop_accepting(self) -> None:
        """Close the listening socket (loop's thread only)."""
        wasyncore.dispatcher.close(self._server)

    def close(self) -> None:
        """Close all sockets (loop's thread only, after the last ``turn``)."""
        for connection in self.connections():
            connection.handle_close()
        wasyncore.close_all(self._map, ignore_all=True)
        self._server.trigger.close()
