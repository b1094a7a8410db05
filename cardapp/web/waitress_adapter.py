"""Adapts waitress. Only this module, ``waitress_tasks`` and ``request_log`` use its undocumented members.

waitress reads requests and sends responses in one thread, the loop, and runs the application in worker threads. It
buffers requests and responses, so a slow client occupies a connection but no worker. This module changes that:

- A request is checked when its head is complete; its body is counted while it arrives. WebSockets are handed over.
- Invalid chunked coding, which waitress accepts in part, is refused. Errors are problem documents (RFC 9457).
- After a refusal the rest of the request is dropped before the connection is closed.
- A worker blocks on a slow client only while the unsent bytes of all connections exceed a limit.
``tests/cardapp/web/test_waitress_adapter.py`` lists the undocumented members and checks their signatures.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import BadRequest as MalformedChunk

from cardapp.web.chunked_coding import ChunkedDecoder
from cardapp.web.connections import Activity, RequestLimits, Rules, Timeouts
from cardapp.web.container_peers import pid_space_of
from cardapp.web.gate import head_of
from cardapp.web.hand_over import HandOver
from cardapp.web.peer import MakeError
from cardapp.web.waitress_tasks import ProblemTask, Refusal, Task

RECEIVE_BYTES, _ACCEPTED_AT_ONCE = 64 * 1024, 64


class _StrictChunks(ChunkedReceiver):
    def __init__(self, buf: Any) -> None:
        super().__init__(buf)
        self._decoder = ChunkedDecoder(buf.append)

    def received(self, s: bytes) -> int:
        try:
            used = self._decoder.feed(s)
        except ValueError as error:
            self.error = MalformedChunk(str(error))
            return len(s)
        self.completed = self._decoder.is_complete
        return used


class Parser(HTTPRequestParser):
    """Parses one request while it arrives. ``close`` may be called repeatedly."""

    def __init__(self, rules: Rules, foreign: MakeError | None, adj: Any) -> None:
        super().__init__(adj)
        self._limits = RequestLimits(rules, foreign)

    def received(self, data: bytes) -> int:
        was_head = not self.headers_finished
        used: int = super().received(data)
        body: Any = self.body_rcv
        found: Any = self  # the type stubs of waitress lack some attributes
        if self.error is None and self.headers_finished and not self.empty:
            if was_head:
                head = head_of(self.headers, found.command, found.path, found.request_uri, is_chunked=self.chunked)
                refused = self._limits.check_head(head, has_body=body is not None)
            else:
                refused = self._limits.count_body(len(body))
            self.error = Refusal(refused) if refused else None
        if body is None:
            self.expect_continue = False  # else waitress would wait for a body that never comes
        if self.error is None:
            return used
        self.completed = True
        self.expect_continue = False  # else waitress would send 100 Continue
        self.close()
        return len(data)  # drop the rest: it must not be parsed as a new request

    def parse_header(self, header_plus: bytes) -> None:
        """Refuse a request with both Content-Length and Transfer-Encoding (smuggling: RFC 9112, section 6.1)."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # from urlsplit() for brackets in the target, from int() for over 4300 digits
            raise ParsingError("the target or Content-Length is not valid") from error
        if "TRANSFER_ENCODING" in self.headers:
            raise ParsingError("Transfer-Encoding needs HTTP/1.1")
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding exclude each other")
        if self.chunked:
            receiver: Any = self.body_rcv
            self.body_rcv = _StrictChunks(receiver.getbuf())

    def close(self) -> None:
        super().close()
        self._limits.close()


class Channel(HTTPChannel):
    """One connection. Workers call ``service`` and ``write_soon``, the loop's thread all other methods."""

    task_class = Task
    error_task_class = ProblemTask
    is_refused = False

    def __init__(self, rules: Rules, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:
        self._rules = rules
        self.activity = Activity()
        self.parser_class: Any = partial(Parser, rules, rules.refusal(sock, addr))
        self.pid_space = pid_space_of(sock)
        super().__init__(server, sock, addr, adj, map=map)

    def received(self, data: bytes) -> bool:
        result: bool = super().received(data)
        self.activity.arriving(is_partial=self.request is not None)
        return result

    def handle_read(self) -> None:
        if not self.activity.is_lingering:
            super().handle_read()
        elif not self.activity.drop(len(self.recv(RECEIVE_BYTES))):
            self.handle_close()

    def handle_write(self) -> None:
        if not (self.is_refused and self.close_when_flushed):
            super().handle_write()
            return
        inherited: Any = self
        inherited._flush_exception(inherited._flush_some)
        if self.will_close:
            self.handle_close()
        elif self.connected and not self.total_outbufs_len:
            self.close_when_flushed = False  # waitress does not read while this is set
            self.activity.linger()
            with suppress(OSError):  # if the connection is broken, the next read reports it
                inherited.socket.shutdown(socket.SHUT_WR)

    def write_soon(self, data: bytes) -> int:
        if not self.total_outbufs_len:
            self.activity.sending()
        return int(super().write_soon(data))

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        self.activity.sent(sent)
        return sent

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Block the worker until its client has read enough, but only above ``unread_bytes`` unsent bytes in total."""
        if self.total_outbufs_len <= self.adj.outbuf_high_watermark or self._unread() < self._rules.unread_bytes:
            return
        inherited: Any = super()
        self.activity.is_blocking = True
        try:
            inherited._flush_outbufs_below_high_watermark()
        finally:
            self.activity.is_blocking = False

    def _unread(self) -> int:
        """Unsent response bytes of all connections."""
        found = list(vars(self)["_map"].values())
        return sum(each.total_outbufs_len for each in found if isinstance(each, Channel))

    def is_overdue(self, timeouts: Timeouts, *, crowded: bool) -> bool:
        """Whether a timeout has expired; ``crowded``: requests queue for a worker."""
        is_sending, is_served = bool(self.total_outbufs_len), bool(self.requests)
        return self.activity.is_overdue(timeouts, crowded=crowded, is_sending=is_sending, is_served=is_served)

    def is_unused(self, seconds: float) -> bool:
        """Whether no request is being served and there was no traffic for ``seconds``."""
        return not (self.requests or self.total_outbufs_len) and self.activity.is_unused(seconds)

    def service(self) -> None:
        try:
            super().service()
        except HandOver as upgrade:
            vars(self)["server"].trigger.pull_trigger(partial(self._hand_over, upgrade))

    def _hand_over(self, upgrade: HandOver) -> None:
        """In the loop's thread. A client that has sent more already is closed: those bytes would be lost."""
        if self.connected and self.request is None and len(self.requests) == 1:
            upgrade.take(vars(self)["socket"].dup())
        self.handle_close()

    def handle_close(self) -> None:
        super().handle_close()
        if self.request is not None:
            self.request.close()
            self.request = None


class _Dispatcher(ThreadedTaskDispatcher):
    def start_new_thread(self, target: Callable[[int], object], thread_no: int) -> None:
        threading.Thread(target=target, name=f"api-{thread_no}", args=(thread_no,), daemon=True).start()

    def end(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds, by the monotonic clock, for running requests; drop the queued ones."""
        deadline = monotonic() + timeout
        self.set_thread_count(0)
        with self.lock:
            while self.threads and (remaining := deadline - monotonic()) > 0:
                self.thread_exit_cv.wait(remaining)
            while self.queue:
                queued: Any = self.queue.popleft()
                queued.cancel()


class Loop:
    """The loop and its workers. One thread calls ``listen``, then ``turn`` repeatedly, then ``close``. Other threads
    may call ``call``, ``backlog`` and ``end_workers``."""

    def __init__(self, workers: int) -> None:
        # waitress logs a warning for each queued request, but queueing is normal while replays run.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._map: dict[int, Any] = {}
        self._servers: list[Any] = []
        self._dispatcher = _Dispatcher()
        self._dispatcher.set_thread_count(workers)

    def listen(self, bound: socket.socket, app: Any, rules: Rules, **adjustments: Any) -> None:
        """Serve ``app`` on ``bound``; ``adjustments`` are documented arguments of waitress."""
        adjustments |= {"sockets": [bound], "recv_bytes": RECEIVE_BYTES}
        adjustments["max_request_body_size"] = 1 << 62  # no limit: RequestLimits checks the size
        server: Any = create_server(app, map=self._map, _dispatcher=self._dispatcher, **adjustments)
        server.channel_class = partial(Channel, rules)
        server.next_channel_cleanup = math.inf  # disabled, it uses the wall clock; see Channel.is_overdue
        server.handle_accept = partial(self._accept_some, server.handle_accept)
        self._servers.append(server)

    def turn(self, seconds: float) -> None:
        """Wait up to ``seconds`` for ready connections; read from them and write to them."""
        wasyncore.poll2(seconds, self._map)

    def __len__(self) -> int:
        """The number of open connections, plus the few descriptors that the loop needs itself."""
        return len(self._map)

    def connections(self) -> list[Channel]:
        return [found for found in list(self._map.values()) if isinstance(found, Channel)]

    def unsent(self) -> bool:
        return any(channel.total_outbufs_len for channel in self.connections())

    def backlog(self) -> int:
        """Requests that wait for a worker."""
        return len(self._dispatcher.queue)

    def call(self, action: Callable[[], object]) -> None:
        """Run ``action`` in the loop's thread; does not wait for it."""
        with suppress(OSError):  # the loop may have run the action and ended before the trigger was written
            self._servers[0].trigger.pull_trigger(action)

    def stop_accepting(self) -> None:
        """Close the listening sockets (loop's thread only). The triggers stay open: they wake the loop."""
        for server in self._servers:
            wasyncore.dispatcher.close(server)

    def end_workers(self, timeout: float) -> None:
        self._dispatcher.end(timeout)

    def close(self) -> None:
        for channel in self.connections():
            channel.handle_close()
        wasyncore.close_all(self._map, ignore_all=True)
        for server in self._servers:
            server.trigger.close()

    def _accept_some(self, accept_one: Callable[[], None]) -> None:
        """Accept up to 64 connections at once. waitress accepts one per turn of the loop."""
        for _ in range(_ACCEPTED_AT_ONCE):
            before = len(self._map)
            accept_one()
            if len(self._map) == before:
                return
