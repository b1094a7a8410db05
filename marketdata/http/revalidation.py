"""Conditional requests (RFC 9110, section 13): entity tags, ``If-None-Match`` and 304.

All tags are weak, because two responses with the same tag may differ in bytes: ``as_of`` is the time of the request,
and the body may be compressed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from marketdata.http.reply import VARY, Reply

CACHE_CONTROL = ("Cache-Control", "private, no-cache")

_MEMBER = re.compile(r'[ \t]*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)')


def weak_tag(*parts: int | str) -> str:
    """Returns a tag like ``W/"7.DEMO:A.29000000"``. ``parts`` must contain everything that determines the response
    beside its URL."""
    return f'W/"{".".join(map(str, parts))}"'


def tagged(reply: Reply, tag: str) -> Reply:
    """Returns ``reply`` with this tag."""
    return reply.with_headers(("ETag", tag))


def is_conditional(environ: Mapping[str, Any]) -> bool:
    """Whether the client already has a response and only needs a different one."""
    return "HTTP_IF_NONE_MATCH" in environ


def is_current(environ: Mapping[str, Any], tag: str) -> bool:
    """Whether the client has the response with this tag."""
    sent = environ.get("HTTP_IF_NONE_MATCH")
    return sent is not None and _matches(sent, tag)


def not_modified(tag: str) -> Reply:
    """Returns the 304 for a client that has the response with this tag."""
    return Reply(b"", 304, headers=(("ETag", tag), CACHE_CONTROL, VARY))


def revalidated(reply: Reply, environ: Mapping[str, Any]) -> Reply:
    """Returns ``reply`` with a tag and Cache-Control, or a 304 if the client already has it.

    If ``reply`` has no tag, the tag is a hash of the body. A stream gets no tag, because its content is not known yet.
    """
    if reply.status == 304:
        return reply
    tag = next((value for name, value in reply.headers if name == "ETag"), None)
    if tag is None and isinstance(reply.body, bytes):
        tag = weak_tag(hashlib.sha256(reply.body).hexdigest()[:32])
        reply = tagged(reply, tag)
    if tag is not None and is_current(environ, tag):
        return not_modified(tag)
    return reply.with_headers(CACHE_CONTROL)


def _matches(if_none_match: str, tag: str) -> bool:
    """Whether the header is ``*`` or a list with ``tag``, by weak comparison. A malformed list matches nothing."""
    if if_none_match == tag or if_none_match.strip() == "*":
        return True
    opaque, place, found = tag.removeprefix("W/"), 0, False
    while place < len(if_none_match):
        member = _MEMBER.match(if_none_match, place)
        if member is None:
            return False
        found = found or member[1] == opaque
        place = member.end()
    return found
