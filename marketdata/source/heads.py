"""Announcements of new blocks (``eth_subscribe newHeads``) over a WebSocket.

An announcement only wakes the reader of the chain, which asks the provider for the blocks as it does without
announcements. The URL may contain a key, so no message shows more of it than host and port.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from time import monotonic
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, RejectConnection, Request, TextMessage
from wsproto.utilities import ProtocolError

from marketdata.source import evm
from marketdata.source.rpc import authorization

SILENCE_S = 60.0
"""After this many seconds without an announcement, the connection is made anew."""
_CONNECT_S = 10.0
MIN_PAUSE, _MAX_PAUSE = 1.0, 60.0
_MAX_MESSAGE = 1 << 20
_SUBSCRIBE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]})

_log = logging.getLogger("marketdata.source")


class _Lost(Exception):
    """The connection cannot be used any more. The message is the cause."""


class Heads:
    """A thread that calls ``wake`` at each new block, from ``start`` to ``stop``. Lost connections are made anew."""

    def __init__(
        self, url: str, wake: Callable[[], None], *, silence_s: float = SILENCE_S, min_pause: float = MIN_PAUSE
    ) -> None:
        parts = urlsplit(url)
        self._silence_s = silence_s
        self._min_pause = min_pause
        self._wake = wake
        self._is_secure = parts.scheme == "wss"
        self._address = (parts.hostname or "", parts.port or (443 if self._is_secure else 80))
        self.name = f"{self._address[0]}:{self._address[1]}"
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = [(name.encode(), value.encode()) for name, value in authorization(parts).items()]
        self._request = Request(host=parts.netloc.rpartition("@")[2], target=target, extra_headers=headers)
        self._socket: socket.socket | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heads", daemon=True)
        self.newest: int | None = None
        """The number of the block that was announced last. None while nothing is announced."""

    def start(self) -> None:
        self._thread.start()

    def interrupt(self) -> None:
        """Tell the thread to stop, without waiting for it."""
        self._stopping.set()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def stop(self, timeout: float) -> bool:
        """Close the connection. Returns whether the thread has ended within ``timeout`` seconds."""
        self.interrupt()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = self._min_pause
        while not self._stopping.is_set():
            try:
                for number in self._announcements():
                    self.newest, pause = number, self._min_pause
                    self._wake()
            except (_Lost, OSError, ProtocolError, ValueError, RecursionError) as error:
                if not self._stopping.is_set() and pause == self._min_pause:
                    _log.warning("%s does not announce new blocks: %s", self.name, error)
            if self.newest is not None:
                self.newest = None
                self._wake()  # the reader waits for less time now
            self._stopping.wait(pause)
            pause = min(_MAX_PAUSE, pause * 2)

    def _announcements(self) -> Iterator[int]:
        """The number of each new block."""
        with closing(self._connected()) as connection:
            self._socket = connection
            if self._stopping.is_set():
                return
            for message in _messages(connection, self._request, self._silence_s):
                match json.loads(message):
                    case {"params": {"result": {"number": number}}}:
                        yield evm.quantity(number)
                    case {"result": _}:
                        self._wake()  # a block may have come before the subscription
                    case _:
                        raise _Lost("it refuses eth_subscribe, or sent an unknown message")

    def _connected(self) -> socket.socket:
        connection = socket.create_connection(self._address, _CONNECT_S)
        if not self._is_secure:
            return connection
        try:
            return ssl.create_default_context().wrap_socket(connection, server_hostname=self._address[0])
        except BaseException:
            connection.close()
            raise


def _messages(connection: socket.socket, request: Request, silence_s: float) -> Iterator[str]:
    """Open the WebSocket, subscribe, and yield the messages."""
    protocol = WSConnection(ConnectionType.CLIENT)
    connection.sendall(protocol.send(request))
    text, deadline = "", monotonic() + silence_s
    while True:
        connection.settimeout(max(0.001, deadline - monotonic()))
        protocol.receive_data(connection.recv(1 << 16) or None)
        for event in protocol.events():
            match event:
                case AcceptConnection():
                    connection.sendall(protocol.send(TextMessage(_SUBSCRIBE)))
                case Ping():
                    connection.sendall(protocol.send(event.response()))
                case RejectConnection(status_code=status):
                    raise _Lost(f"HTTP status {status}")
                case CloseConnection(code=code):
                    raise _Lost(f"the connection was closed with code {code:d}")
                case TextMessage(data=part, message_finished=is_complete):
                    text += part
                    if is_complete:
                        yield text
                        text, deadline = "", monotonic() + silence_s
                    elif len(text) > _MAX_MESSAGE:
                        raise _Lost("a message is too long")
