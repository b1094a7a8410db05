"""A WebSocket client of ``/v1/live``: one socket, whose frames wsproto parses."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections import deque
from time import monotonic
from typing import Any, Self

from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Ping, TextMessage

SECONDS = 20.0
SUBPROTOCOL = "marketdata-live.v1"


def handshake(token: str | None, **changed: str) -> bytes:
    """The request that opens a connection; an empty value leaves the field out."""
    fields = {
        "Host": "127.0.0.1",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
        "Authorization": f"Bearer {token}" if token else "",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    lines = [f"{name}: {value}" for name, value in fields.items() if value]
    return "\r\n".join(["GET /v1/live HTTP/1.1", *lines, "", ""]).encode()


class LiveClient:
    """``receive`` returns the next message, except heartbeats, which are only counted, and new symbols, which are
    collected apart. ``close_code`` is the code of
    the service's close frame."""

    def __init__(self, port: int, token: str, *, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(SECONDS)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(handshake(token))
        head, _, rest = self._head().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        self.head = head.decode()
        self._connection = Connection(ConnectionType.CLIENT)
        self._text = ""
        self._messages: deque[dict[str, Any]] = deque()
        self.heartbeats = 0
        self.new_symbols: list[str] = []
        self.close_code: int | None = None
        self.close_reason: str | None = None
        if rest:
            self._feed(rest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def _head(self) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            part = self.socket.recv(4096)
            assert part, data
            data += part
        return data

    def send(self, **message: Any) -> None:
        self.send_text(json.dumps(message))

    def send_text(self, text: str) -> None:
        self.socket.sendall(self._connection.send(TextMessage(data=text)))

    def subscribe(self, symbol: str, interval: str, **more: Any) -> dict[str, Any]:
        """Subscribe, and return the reply."""
        self.send(op="subscribe", symbol=symbol, interval=interval, **more)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next message that is not a candle. The candle of a tick that was stored just before may still arrive."""
        while (message := self.receive())["type"] == "candle":
            pass
        return message

    def receive(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The next message; TimeoutError when none arrives, ConnectionError when the service closes."""
        until = monotonic() + seconds
        while not self._messages:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError
            self.socket.settimeout(left)
            data = self.socket.recv(1 << 16)
            if not data or self.close_code is not None:
                raise ConnectionResetError(f"closed: {self.close_code} {self.close_reason}")
            self._feed(data)
        return self._messages.popleft()

    def until_closed(self) -> int | None:
        """Receive until the service closes. Returns the code of its close frame."""
        try:
            while True:
                self.receive()
        except ConnectionError:
            return self.close_code

    def candles(self, count: int = 1) -> list[dict[str, Any]]:
        """The candles of the next ``count`` messages, which must be of candles."""
        found = [self.receive() for _ in range(count)]
        assert all(each["type"] == "candle" for each in found), found
        return [each["candle"] for each in found]

    def _feed(self, data: bytes) -> None:
        self._connection.receive_data(data)
        for event in self._connection.events():
            match event:
                case TextMessage():
                    self._text += event.data
                    if event.message_finished:
                        self._take(json.loads(self._text))
                        self._text = ""
                case Ping():
                    self.socket.sendall(self._connection.send(event.response()))
                case CloseConnection():
                    self.close_code, self.close_reason = event.code, event.reason
                    self.socket.sendall(self._connection.send(event.response()))

    def _take(self, message: dict[str, Any]) -> None:
        if message == {"type": "heartbeat"}:
            self.heartbeats += 1
        elif message["type"] == "symbol":
            assert message.keys() == {"type", "symbol"}
            self.new_symbols.append(message["symbol"])
        else:
            self._messages.append(message)
