"""Encodes and decodes JSON-RPC 2.0 messages, one JSON text per line (MCP's stdio transport). Does no input or output.

An invalid message of a peer raises no exception; it is decoded to a :class:`Malformed`. The caller decides about it: a
server sends an error, a client closes the connection. Source: JSON-RPC 2.0 with the restrictions of MCP ("Messages"):
an id is a string or an integer; params and result are objects.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard

from cardapp.schema import decode

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_LINE = 4 * 1024 * 1024
"""Maximum length of a line in bytes. A longer line is skipped up to its newline."""

Id: TypeAlias = str | int


@dataclass(frozen=True)
class Request:
    """A call that expects exactly one reply with the same id."""

    id: Id
    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Notification:
    """A call that gets no reply."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The reply to a request that succeeded."""

    id: Id
    result: dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """The reply to a request that failed. ``id`` is None if the request's id could not be read."""

    id: Id | None
    code: int
    message: str
    data: Any = None


@dataclass(frozen=True)
class Malformed:
    """An invalid message: the JSON-RPC error code, the reason, and the message's id if it could be read."""

    code: int
    reason: str
    id: Id | None = None


Message: TypeAlias = Request | Notification | Result | Failure


@dataclass(frozen=True)
class Batch:
    """A JSON array of messages, never empty. Only revision 2025-03-26 allows batches; the receiver checks that."""

    items: tuple[Message | Malformed, ...]


Frame: TypeAlias = Message | Batch | Malformed


def is_id(value: object) -> TypeGuard[Id]:
    """Whether ``value`` may be a request id or a progress token: a string or an integer. ``true`` is no integer."""
    return type(value) in (str, int)


def encode(message: Message | list[Message]) -> bytes:
    """Encode the message as one line. The line is ASCII, because some programs take certain other Unicode characters,
    like U+2028, as line ends.

    :raises ValueError: a part of the message is not JSON (a NaN, a Python object).
    """
    body = [_members(item) for item in message] if isinstance(message, list) else _members(message)
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
    except (TypeError, RecursionError) as why:
        raise ValueError(f"not JSON: {why}") from why


def _members(message: Message) -> dict[str, Any]:
    head: dict[str, Any] = {"jsonrpc": "2.0"}
    if isinstance(message, Request):
        return head | {"id": message.id, "method": message.method, "params": message.params}
    if isinstance(message, Notification):
        return head | {"method": message.method, "params": message.params}
    if isinstance(message, Result):
        return head | {"id": message.id, "result": message.result}
    error: dict[str, Any] = {"code": message.code, "message": message.message}
    if message.data is not None:
        error["data"] = message.data
    return head | {"id": message.id, "error": error}


class LineDecoder:
    """Splits a byte stream into frames. The data may arrive in pieces of any size."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._pending = bytearray()
        self._dropping = False

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that ``data`` completes, in order. Blank lines are skipped."""
        frames: list[Frame] = []
        *whole, rest = data.split(b"\n")
        for piece in whole:
            frames.extend(self._grow(piece))
            if not self._dropping and self._pending.strip():
                frames.append(parse(bytes(self._pending)))
            self._pending.clear()
            self._dropping = False
        frames.extend(self._grow(rest))
        return frames

    @property
    def mid_line(self) -> bool:
        """Whether the last line is incomplete. If the stream ends now, a message was cut off."""
        return self._dropping or bool(self._pending.strip())

    def _grow(self, piece: bytes) -> list[Malformed]:
        if self._dropping:
            return []
        if len(self._pending) + len(piece) <= self._max_line:
            self._pending += piece
            return []
        self._pending.clear()
        self._dropping = True
        return [Malformed(INVALID_REQUEST, f"the line is longer than {self._max_line} bytes")]


def parse(line: bytes) -> Frame:
    """Decode one line."""
    try:
        value = decode(line)
    except ValueError as why:
        return Malformed(PARSE_ERROR, f"the line {why}")
    if isinstance(value, list):
        if not value:
            return Malformed(INVALID_REQUEST, "a batch must not be empty")
        return Batch(tuple(_message(item) for item in value))
    return _message(value)


def _message(value: Any) -> Message | Malformed:
    if not isinstance(value, dict):
        return Malformed(INVALID_REQUEST, "a message must be an object")
    known_id = value["id"] if is_id(value.get("id")) else None
    if value.get("jsonrpc") != "2.0":
        return Malformed(INVALID_REQUEST, 'jsonrpc must be "2.0"', known_id)
    if "method" in value:
        return _call(value, known_id)
    if ("result" in value) == ("error" in value):
        return Malformed(INVALID_REQUEST, "a message must have a method, a result or an error", known_id)
    return _answer(value, known_id)


def _call(value: dict[str, Any], known_id: Id | None) -> Message | Malformed:
    method, params = value["method"], value.get("params")
    if "id" in value and known_id is None:
        return Malformed(INVALID_REQUEST, "id must be a string or an integer")
    if not isinstance(method, str):
        return Malformed(INVALID_REQUEST, "method must be a string", known_id)
    if params is not None and not isinstance(params, dict):
        return Malformed(INVALID_PARAMS, "params must be an object", known_id)
    if known_id is None:
        return Notification(method, params or {})
    return Request(known_id, method, params or {})


def _answer(value: dict[str, Any], known_id: Id | None) -> Message | Malformed:
    if "result" in value:
        if known_id is None:
            return Malformed(INVALID_REQUEST, "the id of a result must be a string or an integer")
        if not isinstance(value["result"], dict):
            return Malformed(INVALID_REQUEST, "result must be an object", known_id)
        return Result(known_id, value["result"])
    error = value["error"]
    if known_id is None and value.get("id") is not None:
        return Malformed(INVALID_REQUEST, "the id of an error must be a string, an integer or null")
    if not isinstance(error, dict) or type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        return Malformed(INVALID_REQUEST, "an error must have an integer code and a message", known_id)
    return Failure(known_id, error["code"], error["message"], error.get("data"))
