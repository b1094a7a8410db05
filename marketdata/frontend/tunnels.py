"""Tunnels for WebSockets: they pass bytes between a client and the data API, in both directions.

One thread with a selector serves all tunnels. A tunnel buffers at most ``BUFFER_BYTES`` for each side. While one side
does not read, nothing is read from the other side. So the API notices a slow client and can skip old states.

If a proxy does the login, only a new handshake shows whether the user may still read. So a tunnel may have a lifetime.
At its end the client gets a Close frame, and may connect again.
"""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic

from marketdata.frontend.problems import Busy
from marketdata.frontend.times import Times
from marketdata.frontend.upstream import Connection
from marketdata.frontend.websocket_frames import Frames, close_frame

BUFFER_BYTES = 64 * 1024
EXPECTED_SECONDS = 10.0
"""An expected tunnel is closed if its client does not arrive within this time."""
RENEW = 4000
"""The code of the Close frame (RFC 6455, section 7.4.2: for private use). The page then connects again at once."""

_WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_log = logging.getLogger("marketdata.frontend")


class _Side:
    """One socket of a tunnel, with the bytes that wait to be written to it."""

    def __init__(self, opened: socket.socket, unwritten: bytes) -> None:
        opened.setblocking(False)
        self.socket = opened
        self.unwritten = bytearray(unwritten)
        self.has_ended = False
        self.events = 0

    def read(self, limit: int) -> bytes:
        """The bytes that have arrived; empty if none have arrived or the stream has ended."""
        try:
            data = self.socket.recv(limit)
        except _WOULD_BLOCK:
            return b""
        self.has_ended = not data
        return data

    def write(self) -> bool:
        """Write as much as the kernel accepts. Returns False if nothing was written."""
        try:
            sent = self.socket.send(self.unwritten) if self.unwritten else 0
        except _WOULD_BLOCK:
            return False
        del self.unwritten[:sent]
        return sent > 0


class Tunnel:
    """A client's socket and the API's socket. ``early`` are the bytes that the API has already sent. ``may_stay`` is
    called about once a second. When it returns False, the tunnel is closed. ``lifetime`` is in seconds, or None."""

    def __init__(
        self,
        client: _Side,
        upstream: _Side,
        early: bytes,
        may_stay: Callable[[], bool],
        lifetime: float | None,
        times: Times,
    ) -> None:
        self._times = times
        self.sides = client, upstream
        self.may_stay = may_stay
        self.moved_at = monotonic()
        self.ends_at = inf if lifetime is None else self.moved_at + lifetime
        self._frames = None if lifetime is None else Frames()
        self._is_closing = False
        """Whether the client gets a Close frame. From then on nothing is passed on."""
        client.unwritten += self._framed(early)

    def move(self) -> bool:
        """Read and write as much as possible. Returns False if a side has ended."""
        client, upstream = self.sides
        has_moved = True
        while has_moved:  # a TLS socket may buffer bytes that the selector does not see
            has_moved = self._passed(client, upstream) | self._passed(upstream, client)
            if has_moved:
                self.moved_at = monotonic()
        if self._is_closing and not client.unwritten:
            client.socket.shutdown(socket.SHUT_WR)  # the client now closes its side
        return not (client.has_ended or upstream.has_ended)

    def is_overdue(self, now: float) -> bool:
        """Whether the tunnel must be closed now."""
        return now - self.moved_at > self._times.idle or now > self.ends_at + self._times.closing or not self.may_stay()

    def room(self, source: _Side) -> int:
        """The number of bytes that may be read from a side."""
        client, upstream = self.sides
        if self._is_closing:
            return BUFFER_BYTES if source is client else 0
        return BUFFER_BYTES - len((upstream if source is client else client).unwritten)

    def _passed(self, source: _Side, target: _Side) -> bool:
        room = self.room(source)
        data = b"" if room <= 0 or source.has_ended else source.read(room)
        if source is self.sides[1]:
            target.unwritten += self._framed(data)
        elif not self._is_closing:
            target.unwritten += data
        return target.write() or bool(data)

    def _framed(self, data: bytes) -> bytes:
        """The data of the API as the client gets them. After the lifetime, they end with the frame that has begun, and
        a Close frame follows."""
        if self._frames is None or self._is_closing:
            return data
        is_over = monotonic() >= self.ends_at
        data = data[: self._frames.follow(data, to_end=is_over)]
        self._is_closing = is_over and self._frames.is_between
        if not self._is_closing:
            return data
        self.sides[1].unwritten.clear()
        return data + close_frame(RENEW, "connect again")


class Tunnels:
    """All tunnels, at most ``limit``, each for at most ``lifetime`` seconds. Call ``start`` once; ``stop`` is
    idempotent."""

    def __init__(self, limit: int, lifetime: float | None, times: Times) -> None:
        self.limit = limit
        self._times = times
        self._lifetime = lifetime
        self._selector = selectors.DefaultSelector()
        self._tunnels: set[Tunnel] = set()
        self._new: deque[Tunnel] = deque()
        self._lock = threading.Lock()
        self._expected: dict[Connection, float] = {}
        self._waker, self._wakes = socket.socketpair()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="frontend-tunnels", daemon=True)
        self._sweep_at = 0.0

    def __len__(self) -> int:
        return len(self._tunnels) + len(self._new) + len(self._expected)

    def open(self) -> list[Tunnel]:
        return list(self._tunnels)

    def start(self) -> None:
        for each in (self._waker, self._wakes):
            each.setblocking(False)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._thread.start()

    def check_room(self) -> None:
        """Raise :class:`Busy` if the maximum of tunnels is open."""
        if len(self) >= self.limit:
            raise Busy("too many live connections are open: close one of them, or try again later")

    def expect(self, upstream: Connection) -> None:
        """Announce a call of ``adopt``. If the call does not come, because the client went away, ``upstream`` is closed
        after a while."""
        with self._lock:
            self._expected[upstream] = monotonic() + EXPECTED_SECONDS

    def adopt(self, client: socket.socket, response: bytes, upstream: Connection, may_stay: Callable[[], bool]) -> None:
        """Take over both connections. First, the client gets ``response`` and the bytes that the API has already
        sent."""
        with self._lock:
            is_expected = self._expected.pop(upstream, None) is not None
        if not is_expected:
            client.close()
            return
        # For a slow client, the API replaces old states by new ones. It cannot replace data in a kernel's buffer, so
        # these buffers are small.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        upstream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        early, upstream.received = upstream.received, b""
        sides = _Side(client, response), _Side(upstream.socket, b"")
        self._new.append(Tunnel(*sides, early, may_stay, self._lifetime, self._times))
        self._wake()

    def stop(self, timeout: float = 5.0) -> None:
        """Close all tunnels."""
        self._stopping.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(timeout)
        for each in (self._waker, self._wakes, self._selector):
            each.close()

    def _wake(self) -> None:
        with suppress(OSError):  # the thread is awake already, or has ended
            self._waker.send(b"w")

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        finally:
            while self._new:
                self._tunnels.add(self._new.popleft())
            for tunnel in list(self._tunnels):
                self._close(tunnel)
            self._close_unadopted(float("inf"))

    def _close_unadopted(self, now: float) -> None:
        with self._lock:
            overdue = [upstream for upstream, until in self._expected.items() if until < now]
            for upstream in overdue:
                del self._expected[upstream]
        for upstream in overdue:
            upstream.close()

    def _turn(self) -> None:
        ready = {key.data for key, _ in self._selector.select(self._times.sweep)}
        if None in ready:
            ready.remove(None)
            self._wakes.recv(4096)
        while self._new:
            tunnel = self._new.popleft()
            self._tunnels.add(tunnel)
            ready.add(tunnel)
        for tunnel in ready:
            self._serve(tunnel)
        if monotonic() >= self._sweep_at:
            self._sweep_at = monotonic() + self._times.sweep
            self._close_unadopted(monotonic())
            for tunnel in list(self._tunnels):
                if tunnel.is_overdue(monotonic()):
                    self._close(tunnel)
                elif monotonic() >= tunnel.ends_at:
                    self._serve(tunnel)

    def _serve(self, tunnel: Tunnel) -> None:
        try:
            goes_on = tunnel.move()
            if goes_on:
                self._watch(tunnel)
        except OSError:  # one side is gone
            goes_on = False
        except Exception:
            _log.exception("internal error in a tunnel")
            goes_on = False
        if not goes_on:
            self._close(tunnel)

    def _watch(self, tunnel: Tunnel) -> None:
        """Wait for data or room at each side."""
        for side in tunnel.sides:
            events = selectors.EVENT_READ if tunnel.room(side) > 0 else 0
            events |= selectors.EVENT_WRITE if side.unwritten else 0
            if events == side.events:
                continue
            if not side.events:
                self._selector.register(side.socket, events, tunnel)
            elif events:
                self._selector.modify(side.socket, events, tunnel)
            else:
                self._selector.unregister(side.socket)
            side.events = events

    def _close(self, tunnel: Tunnel) -> None:
        self._tunnels.discard(tunnel)
        for side in tunnel.sides:
            if side.events:
                self._selector.unregister(side.socket)
                side.events = 0
            side.socket.close()
