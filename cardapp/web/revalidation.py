"""Conditional requests (RFC 9110, section 13): strong entity tags and 304."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from cardapp.web.http import Reply

_MEMBER = re.compile(r'[ \t]*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)')


def entity_tag(body: bytes) -> str:
    """The strong entity tag of a body; equal bytes have equal tags."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Whether an ``If-None-Match`` header is ``*`` or contains ``tag`` (weak comparison). An invalid one does not."""
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
    """``reply`` with its entity tag, computed unless the handler set one; 304 without a body if the client has it."""
    if reply.status != 200 or not isinstance(reply.body, bytes):
        return reply
    tag = dict(reply.headers).get("ETag")
    if tag is None:
        tag = entity_tag(reply.body)
        reply = reply.with_headers(("ETag", tag))
    if if_none_match is not None and matches(if_none_match, tag):
        return replace(reply, status=304, body=b"")
    return reply
