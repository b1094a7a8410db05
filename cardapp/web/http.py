"""Defines the request that a handler gets and the reply that it returns, and sends a reply by WSGI.

For conditional requests (RFC 9110, section 13) replies have strong entity tags, and 304 is sent if the tag matches.
"""

from __future__ import annotations

import hashlib
import http
import json
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cardapp.errors import RevisionConflict
from cardapp.web.services import Services

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

JSON = "application/json"
PROBLEM = "application/problem+json"

_MEMBER = re.compile(r'[ \t]*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)')
"""One entity tag in the list of ``If-None-Match``, with its separators."""


@dataclass(frozen=True)
class Request:
    """A validated request. ``path`` and ``query`` contain the parameters by name. ``body`` is the JSON object, {} if it
    was omitted. Routes whose body is not JSON read ``environ``.
    """

    services: Services
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    environ: Mapping[str, Any]

    def expect_revision(self, present: int) -> None:
        """Raise :class:`RevisionConflict` if the body has an ``expected_revision`` and it is not ``present``."""
        expected = self.body.get("expected_revision", present)
        if expected != present:
            raise RevisionConflict(
                f"the current revision is {present}, not {expected}: read the state again and repeat the change",
                extra={"revision": present},
            )


@dataclass(frozen=True)
class Reply:
    """A response. A body of bytes is sent at once; any other iterable is streamed."""

    body: bytes | Iterable[bytes]
    status: int = 200
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    def with_headers(self, *more: tuple[str, str]) -> Reply:
        """This reply with additional headers."""
        return replace(self, headers=(*self.headers, *more))


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON. Equal values give equal bytes, because strong entity tags depend on it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def answer(value: Mapping[str, Any], status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """A reply with a JSON object."""
    return Reply(encode(value), status, JSON, headers)


def created(record: Mapping[str, Any], location: str) -> Reply:
    """A reply with status 201, the record, and ``location`` in the Location header."""
    return answer(record, 201, (("Location", location),))


def status_line(status: int) -> str:
    """The status with its phrase: ``404 Not Found``."""
    return f"{status} {http.HTTPStatus(status).phrase}"


def send(reply: Reply, start_response: StartResponse, *, bare: bool = False) -> Iterable[bytes]:
    """Send a reply by WSGI; ``bare`` omits the body (HEAD)."""
    headers = list(reply.headers)
    if reply.status != 304:
        headers.append(("Content-Type", reply.media_type))
        if isinstance(reply.body, bytes):
            headers.append(("Content-Length", str(len(reply.body))))
    start_response(status_line(reply.status), headers)
    if bare or reply.body == b"":
        return []
    return [reply.body] if isinstance(reply.body, bytes) else reply.body


def entity_tag(body: bytes) -> str:
    """The strong entity tag of a body; equal bytes have equal tags."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Whether an ``If-None-Match`` header is ``*`` or contains ``tag`` (weak comparison); False if it is invalid."""
    if if_none_match.strip() == "*":
        return True
    place, found = 0, False
    while place < len(if_none_match):
        member = _MEMBER.match(if_none_match, place)
        if member is None:
            return False
        found = found or member[1] == tag
        place = member.end()
    return found


def revalidated(reply: Reply, if_none_match: str | None) -> Reply:
    """``reply`` with its entity tag, which is computed if the handler did not set one. If ``if_none_match`` contains
    the tag, the result is 304 without a body."""
    if reply.status != 200 or not isinstance(reply.body, bytes):
        return reply
    tag = dict(reply.headers).get("ETag")
    if tag is None:
        tag = entity_tag(reply.body)
        reply = reply.with_headers(("ETag", tag))
    if if_none_match is not None and matches(if_none_match, tag):
        return replace(reply, status=304, body=b"")
    return reply


class HandOver(BaseException):
    """For a WebSocket, the application raises this instead of returning a response. The listener then calls ``take``
    with the socket of the request.

    It is a BaseException, so that no error handler turns it into a response.
    """

    def __init__(self, take: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self.take = take
