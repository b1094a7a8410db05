"""A byte stream to a peer and one from it (one socket, or two pipes). Another thread can end its waits."""

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
    """Anything with a file descriptor: a socket, an end of a pipe, standard input. It must not hold buffered data."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class TransportClosed(Exception):
    """Nothing more can be sent: the peer is gone or does not read, or the transport was shut."""


class Transport:
    """Owns both streams. One thread receives, any thread sends, any thread may :meth:`shut`."""

    def __init__(self, reader: Stream, writer: Stream) -> None:
        """``reader`` and ``writer`` may be the same socket. :meth:`close` closes both."""
        self._streams = (reader, writer)
        self._read_fd, self._write_fd = reader.fileno(), writer.fileno()
        self.failure: str | None = None
        """Why a failure to send ended the transport; None if none did."""
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
        """The next bytes; ``b""`` after the peer has ended its side or is gone, or after the transport was shut."""
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

        A failure shuts the transport, since the peer may have received a part of a message.

        :raises TransportClosed: it could not be sent completely.
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
        # A pipe that polls as writable accepts this much without blocking, so its flags need not be changed.
        return os.write(self._write_fd, data[: select.PIPE_BUF])

    def _failed(self, reason: str) -> TransportClosed:
        self.failure = reason  # before the receiving thread wakes and reads it
        self.shut()
        return TransportClosed(reason)

    def shut(self) -> None:
        """End every wait. Any thread may call this any number of times. :meth:`close` closes the descriptors."""
        with self._closing:
            if self._closed or self._shut.is_set():
                return
            self._shut.set()
            os.write(self._waker_fd, b"!")

    def close(self) -> None:
        """Close the descriptors. Call it after the receiving thread's last wait. Idempotent."""
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
