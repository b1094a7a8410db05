"""Finds the ends of the frames in the stream of a WebSocket (RFC 6455, section 5.2); pure.

A tunnel passes bytes on as they arrive. A frame of its own may only stand between two frames of the stream.
"""

from __future__ import annotations

import struct

_MASKED = 0x80
_CLOSE = 0x88
_EXTENDED = {126: 2, 127: 8}
"""The bytes of the length that follow, by the length in the second byte."""


class Frames:
    """Follows one direction of a stream from its beginning."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    @property
    def is_between(self) -> bool:
        """Whether the last frame is complete and no other one has begun."""
        return not self._head and not self._left

    def follow(self, data: bytes, *, to_end: bool = False) -> int:
        """Read ``data``, with ``to_end`` only to the end of the frame that has begun, and return the number of bytes
        that were read."""
        place = 0
        while place < len(data) and not (to_end and self.is_between):
            if self._left:
                step = min(self._left, len(data) - place)
                self._left -= step
            else:
                step = min(_head_size(self._head) - len(self._head), len(data) - place)
                self._head += data[place : place + step]
                if len(self._head) == _head_size(self._head):
                    self._left, self._head = _payload_size(self._head), b""
            place += step
        return place


def _head_size(head: bytes) -> int:
    """The size of a frame's head, of which at least the first two bytes must be known; 2 before that."""
    if len(head) < 2:
        return 2
    return 2 + _EXTENDED.get(head[1] & ~_MASKED, 0) + (4 if head[1] & _MASKED else 0)


def _payload_size(head: bytes) -> int:
    short = head[1] & ~_MASKED
    return int.from_bytes(head[2 : 2 + _EXTENDED[short]]) if short in _EXTENDED else short


def close_frame(code: int, reason: str) -> bytes:
    """The frame with which a server closes a WebSocket."""
    payload = struct.pack("!H", code) + reason.encode()
    return bytes([_CLOSE, len(payload)]) + payload
