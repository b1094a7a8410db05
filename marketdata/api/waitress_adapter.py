"""Every member of waitress that its documentation does not name, behind names that are documented here.

waitress documents ``create_server`` and its options. The listener also needs its parser, tasks, connections and event
loop, and subclasses what this module offers. A test compares the members used here with their signatures.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.server import create_server
from waitress.task import ErrorTask, WSGITask
from waitress.utilities import BadRequest, Error

from marketdata.api.chunked_coding import ChunkedDecoder, MalformedChunk
from marketdata.api.failures import WsgiApp
from marketdata.api.response_head import ordinary_head

Cause = Any
"""Why a request is refused: what ``RequestParser.fail`` was given, or the status and reason that waitress chose."""


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
    """One request as it arrives. A subclass implements ``receive``, and has from waitress: ``version``, ``command``,
    ``path``, ``headers`` (upper-case names with underscores), ``chunked``, ``content_length``, ``body_bytes_received``,
    and ``close``, which drops the body and may be called any number of times."""

    path: str
    is_held = False
    """Nothing more is parsed until :meth:`Connection.resume`."""
    has_head = _named("headers_finished", "Whether the head is parsed; until then 100 Continue is not sent.")
    is_blank = _named("empty", "Whether nothing but blank lines has arrived.")
    is_complete = _named("completed", "Whether the request goes to a worker, refused or not.")
    wants_continue = _named("expect_continue", "Whether to send 100 Continue.")
    has_body = property(lambda self: self.body_rcv is not None, doc="Whether a body follows the head.")
    is_refused = property(lambda self: self.error is not None, doc="Whether waitress or ``fail`` refused the request.")

    parse = HTTPRequestParser.received
    """Parse ``data``, the head of a request or the rest of it; how many of its bytes belong to that."""

    def receive(self, data: bytes) -> int:
        """``parse`` what has arrived, and check it; how many bytes were taken."""
        raise NotImplementedError

    def fail(self, cause: Cause) -> None:
        """Refuse the request."""
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


class _ErrorAnswer(ErrorTask):
    def execute(self) -> None:
        request: Any = self.request
        connection: Any = self.channel
        connection.lingers = True
        self.status, self.response_headers, body = connection.refusal(request.cause)
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(b"" if getattr(request, "command", "") == "HEAD" else body)


class _Answer(WSGITask):
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
        head: bytes | None = None
        if not self.close_on_finish and not self._is_last():
            head = ordinary_head(self.status, self.response_headers, self.start_time)
        return head or super().build_response_header()  # whose checks cost more than an ordinary answer

    def set_close_on_finish(self) -> None:
        if self.has_body or self._is_last():
            super().set_close_on_finish()

    def _is_last(self) -> bool:
        request: Any = self.request
        return bool(self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close")


class _ServerOfConnection:
    """The server as one connection sees it. It wakes the loop only when needed: a wake-up costs both threads a switch
    of the GIL, more than the request itself."""

    def __init__(self, server: Any, connection: Connection) -> None:
        self._server = server
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def add_task(self, connection: Connection) -> None:
        if not connection.attended:
            connection.attended = True
            self._server.add_task(connection)

    def pull_trigger(self) -> None:
        if self._connection.writable() or not self._connection.attended:
            self._server.pull_trigger()


class Connection(HTTPChannel):
    """One connection. The loop's thread reads from it until a request is complete or held; then a worker calls
    ``attend``, and the loop does not read until ``leave``. Only the loop's thread closes it.

    A subclass implements ``new_request`` to ``wait_for_client``, may extend ``received``, ``send`` and ``write_soon``
    (to the buffers), and has from waitress: ``connected``, ``socket``, ``will_close`` (set it to let the loop close the
    connection), and ``outbuf_lock`` (held while sending).
    """

    task_class = _Answer
    error_task_class = _ErrorAnswer
    requests: list[Any]
    request: Any
    server: Any
    socket: Any

    attended = False
    lingers = False
    """Its last answer refuses a request. Closing would reset the connection, and a client that is still writing would
    lose the answer: once that is sent (``is_discarding``), what arrives is dropped (RFC 9112, section 9.6)."""
    is_discarding = False

    unsent = property(attrgetter("total_outbufs_len"), doc="Bytes of answers that the system has not taken yet.")
    arriving = property(attrgetter("request"), doc="The parser of a request that has arrived in part, or None.")
    is_held = property(lambda self: getattr(self.request, "is_held", False), doc="Whether ``arriving`` is held.")
    has_request = property(lambda self: bool(self.requests), doc="Whether a complete request is not answered yet.")
    has_output = property(lambda self: bool(self.writable()), doc="Whether the loop has to send something or to close.")

    def __init__(self, server: Any, accepted: socket.socket, *rest: Any, **named: Any) -> None:
        super().__init__(server, accepted, *rest, **named)
        # Taken before outbuf_lock, and again by handle_close, which any failure to send may call.
        self.requests_lock = threading.RLock()
        self.workers: Any = server.task_dispatcher
        self.server = _ServerOfConnection(server, self)

    def new_request(self, options: Any) -> RequestParser:
        """A parser for the next request; ``options`` are for its constructor."""
        raise NotImplementedError

    def attend(self) -> None:
        """In a worker: ``serve`` and ``resume`` what has arrived, then ``leave``."""

    def refusal(self, cause: Cause) -> tuple[str, list[tuple[str, str]], bytes]:
        """Status line, fields and body of the answer to a refused request."""
        raise NotImplementedError

    def discard(self, data: bytes) -> None:
        """Drop ``data``."""

    def write_now(self, head: bytes, body: bytes) -> None:
        """Send a whole answer."""

    def wait_for_client(self, wait: Callable[[], None]) -> None:
        """In a worker: call ``wait``, which returns when the client has taken enough of its answer."""

    serve = HTTPChannel.service
    """In a worker: answer the first complete request."""

    def resume(self) -> None:
        """Go on with the held request, which may have been refused since."""
        with self.requests_lock:
            if (request := self.request) is None or self.will_close:
                return
            aside = request.release()
            if request.completed:
                self.requests.append(request)
                self.request = None
                return
            if request.expect_continue:
                self.send_continue()
        self.received(aside)

    def leave(self) -> None:
        """Give the connection back to the loop, or to the end of the workers' queue when there is more to serve."""
        with self.requests_lock:
            self.attended = False
            if self.requests or self.is_held:
                self.server.add_task(self)
        if self.connected:
            self.server.pull_trigger()

    def parser_class(self, options: Any) -> RequestParser:  # type: ignore[override]
        return self.new_request(options)

    def service(self) -> None:
        self.attend()

    def readable(self) -> bool:
        return not self.attended and bool(super().readable())

    def received(self, data: bytes) -> bool:
        """Parse what has arrived; a request that is then complete or held goes to a worker."""
        if self.lingers:
            self.discard(data)
            return False
        result = super().received(data)
        if self.is_held:
            with self.requests_lock:
                self.server.add_task(self)
        return result

    def handle_write(self) -> None:
        with self.requests_lock, self.outbuf_lock:  # a worker may begin the next answer at any moment
            is_ending = self.lingers and self.close_when_flushed and not self.will_close
            if is_ending:
                self.close_when_flushed = False  # flush, and do not close
            super().handle_write()
            if is_ending and self.connected and not self.will_close:
                self.close_when_flushed = self.total_outbufs_len > 0
                if not self.close_when_flushed:
                    self.is_discarding = True
                    self.socket.shutdown(socket.SHUT_WR)

    def _flush_outbufs_below_high_watermark(self) -> None:
        inherited: Any = super()  # whose annotations leave this out
        if self.total_outbufs_len > self.adj.outbuf_high_watermark:
            self.wait_for_client(inherited._flush_outbufs_below_high_watermark)

    def handle_close(self) -> None:
        """Close the connection now."""
        self.will_close = True  # a worker that is receiving drops what it got
        super().handle_close()
        with self.requests_lock:  # a worker may be parsing
            if self.request is not None:
                self.request.close()
                self.request = None


class Server:
    """A listening socket and its connections, served by the thread that calls ``turn`` again and again."""

    def __init__(
        self, app: WsgiApp, bound: socket.socket, workers: Any, connect: Callable[..., Connection], **options: Any
    ) -> None:
        """``workers.add_task`` queues a connection for a thread that calls its ``service``; ``connect`` makes one."""
        self._map: dict[int, Any] = {}
        server: Any = create_server(app, map=self._map, sockets=[bound], _dispatcher=workers, **options)
        server.channel_class = connect
        self._server = server
        self._server.next_channel_cleanup = math.inf  # waitress would find idle connections by the wall clock

    def __len__(self) -> int:
        """Open descriptors: those of the connections, and two of its own."""
        return len(self._map)

    def connections(self) -> list[Connection]:
        return [each for each in list(self._map.values()) if isinstance(each, Connection)]

    def turn(self, seconds: float) -> None:
        """Wait for at most ``seconds`` for connections to read from or write to, and do so."""
        wasyncore.poll2(seconds, self._map)

    def wake(self, action: Callable[[], None] | None = None) -> None:
        """End the waiting of ``turn``, which then calls ``action``; from any thread."""
        self._server.trigger.pull_trigger(action)

    def stop_accepting(self) -> None:
        """Close the listening socket; in the loop's thread."""
        wasyncore.dispatcher.close(self._server)

    def close(self) -> None:
        """Close everything; in the loop's thread, after its last turn."""
        for connection in self.connections():
            connection.handle_close()
        wasyncore.close_all(self._map, ignore_all=True)
        self._server.trigger.close()
