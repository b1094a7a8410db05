"""Sends bytes to a peer and receives bytes from it, over one socket or two pipes. While one thread waits for the peer,
another thread can end this wait."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import threading
import time
from typing import Protocol

_CHUNK = 65536


class Stream(Protocol):
    """A socket, an end of a pipe, or standard input. The object must not buffer data."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class TransportClosed(Exception):
    """Nothing more can be sent, because the peer is gone or does not read, or because the transport was shut."""


class Transport:
    """Owns both streams. One thread receives, any thread sends, any thread may :meth:`shut`."""

    def __init__(self, reader: Stream, writer: Stream) -> None:
        """``reader`` and ``writer`` may be the same socket. :meth:`close` closes both."""
        self._streams = (reader, writer)
        self._read_fd, self._write_fd = reader.fileno(), writer.fileno()
        self.failure: str | None = None
        """Why sending failed. A failure ends the transport. None if sending did not fail."""
        self._sending = threading.Lock()
        self._shut = threading.Event()
        self._wake_fd, self._waker_fd = os.pipe()
        self._closing = threading.Lock()
        self._closed = False
        self._socket = self._as_socket(writer)

    @staticmethod
    def _as_socket(writer: Stream) -> socket.socket | None:
        if not stat.S_ISSOCK(os.fstat(writer.fileno()).st_mode):
            return None
        return writer if isinstance(writer, socket.socket) else socket.socket(fileno=os.dup(writer.fileno()))

    def receive(self) -> bytes:
        """Wait for the next bytes. Returns ``b""`` when the peer has ended its side or the transport was shut."""
        if self._shut.is_set():
            return b""
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        poll.register(self._wake_fd, select.POLLIN)
        poll.poll()
        if self._shut.is_set():
            return b""
        try:
            return os.read(self._read_fd, _CHUNK)
        except OSError:
            return b""

    def send(self, data: bytes, timeout: float) -> None:
        """Send all of ``data`` within ``timeout`` seconds.

        A failure shuts the transport, because the peer may have received a part of a message.

        :raises TransportClosed: not all of ``data`` could be sent.
        """
        deadline = time.monotonic() + timeout
        if not self._sending.acquire(timeout=timeout):
            raise self._failed(f"the peer has read nothing for {timeout:g} s")
        try:
            if self._shut.is_set():
                raise TransportClosed("the connection was closed")
            rest = memoryview(data)
            while rest:
                rest = rest[self._send_some(rest, deadline - time.monotonic()) :]
        except OSError as why:
            raise self._failed(f"the peer is gone ({why.strerror or why})") from why
        finally:
            self._sending.release()

    def _send_some(self, data: memoryview, remaining: float) -> int:
        poll = select.poll()
        poll.register(self._write_fd, select.POLLOUT)
        poll.register(self._wake_fd, select.POLLIN)
        ready = poll.poll(max(0.0, remaining) * 1000)
        if self._shut.is_set():
            raise TransportClosed("the connection was closed")
        if not ready:
            raise self._failed("the peer does not read what is sent")
        if self._socket is not None:
            try:
                return self._socket.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return 0
        # A pipe that is ready for writing accepts PIPE_BUF bytes without blocking, so it may stay in blocking mode.
        return os.write(self._write_fd, data[: select.PIPE_BUF])

    def _failed(self, reason: str) -> TransportClosed:
        self.failure = reason  # set before shut(), which wakes the receiving thread, because that thread reads it
        self.shut()
        return TransportClosed(reason)

    def shut(self) -> None:
        """End all waits. Any thread may call this any number of times. Descriptors stay open until :meth:`close`."""
        with self._closing:
            if self._closed or self._shut.is_set():
                return
            self._shut.set()
            os.write(self._waker_fd, b"!")

    def close(self) -> None:
        """Close the descriptors. Call this when the receiving thread no longer waits. Idempotent."""
        self.shut()
        with self._sending, self._closing:
            if self._closed:
                return
            self._closed = True
            os.close(self._wake_fd)
            os.close(self._waker_fd)
            for stream in {id(stream): stream for stream in (*self._streams, self._socket) if stream}.values():
                with contextlib.suppress(OSError):
                    stream.close()
