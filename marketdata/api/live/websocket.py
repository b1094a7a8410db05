"""Implements the WebSocket protocol (RFC 6455) for one server-side connection, without input or output.

``wsproto`` parses the input. This module encodes messages, so that all subscribers can share an encoded message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError

from marketdata.http import request_log
from marketdata.http.failures import BadRequest, UpgradeRequired

SUBPROTOCOL = "marketdata-live.v1"

MAX_MESSAGE_CHARACTERS = 16 * 1024
"""The longest message of a subscriber. It may name 200 symbols, of 64 characters each."""

GOING_AWAY, UNSUPPORTED, POLICY, TOO_BIG = 1001, 1003, 1008, 1009
"""Codes of close frames."""

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accepted(environ: Mapping[str, Any]) -> bytes:
    """The response that accepts a handshake. Raises UpgradeRequired or BadRequest for an invalid handshake (RFC 6455,
    section 4.2.1).

    No extension is accepted, not even compression, so that all subscribers can share the encoded messages.
    """
    if environ.get("HTTP_UPGRADE", "").lower() != "websocket":
        raise UpgradeRequired("this is a WebSocket endpoint: send Upgrade: websocket")
    if environ.get("HTTP_SEC_WEBSOCKET_VERSION") != "13":
        raise UpgradeRequired("send Sec-WebSocket-Version: 13, the only supported version")
    if environ["REQUEST_METHOD"] != "GET" or "upgrade" not in _listed(environ.get("HTTP_CONNECTION", "").lower()):
        raise BadRequest("a WebSocket handshake is a GET request with Connection: Upgrade")
    key = environ.get("HTTP_SEC_WEBSOCKET_KEY", "").strip()
    if not _is_key(key):
        raise BadRequest("Sec-WebSocket-Key must be 16 bytes in base64")
    if SUBPROTOCOL not in _listed(environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "")):
        raise BadRequest(f"offer the subprotocol {SUBPROTOCOL} in Sec-WebSocket-Protocol")
    accept = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC, usedforsecurity=False).digest())
    identity = environ.get(request_log.VARIABLE)
    id_line = f"{request_log.FIELD}: {identity}\r\n".encode() if identity else b""
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %b\r\nSec-WebSocket-Protocol: %b\r\n%b\r\n" % (accept, SUBPROTOCOL.encode(), id_line)
    )


def text_frame(text: bytes) -> bytes:
    """A text message in one frame."""
    size = len(text)
    if size < 126:
        return b"\x81%c%b" % (size, text)
    return b"\x81" + (struct.pack("!BH", 126, size) if size < 1 << 16 else struct.pack("!BQ", 127, size)) + text


PING = b"\x89\x00"


class Violation(Exception):
    """The subscriber broke the protocol or a limit. The connection is closed with ``code`` and ``reason``."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Protocol:
    """Parses the input of one connection, and makes the control frames that answer it."""

    def __init__(self) -> None:
        self._connection = Connection(ConnectionType.SERVER)
        self._parts: list[str] = []
        self._characters = 0
        self._is_broken = False
        self.control_frames: list[bytes] = []
        """Frames to send: pongs, and the reply to a close frame."""

    @property
    def is_closed(self) -> bool:
        """Whether both sides have sent a close frame."""
        return self._connection.state is ConnectionState.CLOSED

    def received(self, data: bytes) -> Iterator[str]:
        """Parse ``data``. Yields the messages that ``data`` completes; raises :class:`Violation`."""
        if self.is_closed or self._is_broken:
            return
        self._connection.receive_data(data)
        for event in self._connection.events():
            match event:
                case TextMessage():
                    yield from self._text(event.data, is_last=event.message_finished)
                case BytesMessage():
                    raise self._violation(UNSUPPORTED, "send text messages")
                case Ping():
                    self.control_frames.append(self._connection.send(event.response()))
                case CloseConnection() if self._connection.state is ConnectionState.REMOTE_CLOSING:
                    self.control_frames.append(self._connection.send(event.response()))
                case CloseConnection() if not self.is_closed:  # made by wsproto for input that it cannot parse
                    raise self._violation(event.code, "the WebSocket protocol is violated")

    def close(self, code: int, reason: str) -> bytes:
        """The close frame; empty if a close frame was already sent."""
        try:
            return self._connection.send(CloseConnection(code, reason))
        except LocalProtocolError:
            return b""

    def _violation(self, code: int, reason: str) -> Violation:
        self._is_broken = True
        return Violation(code, reason)

    def _text(self, part: str, *, is_last: bool) -> Iterator[str]:
        if part:  # empty parts do not count against the limit, so they are not kept
            self._parts.append(part)
        self._characters += len(part)
        if self._characters > MAX_MESSAGE_CHARACTERS:
            raise self._violation(TOO_BIG, f"a message has at most {MAX_MESSAGE_CHARACTERS} characters")
        if is_last:
            text = "".join(self._parts)
            self._parts, self._characters = [], 0
            yield text


def _listed(field: str) -> list[str]:
    return [each.strip() for each in field.split(",")]


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False
