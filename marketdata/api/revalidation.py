"""Conditional requests (RFC 9110, section 13): tags made of a version counter, and 304.

The tags are weak. A counter stands for the data of a symbol, and two answers of the same data still differ in bytes:
``as_of`` tells when it was asked, and a coding may lie on top.
"""

from __future__ import annotations

import re

_MEMBER = re.compile(r'[ \t]*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)')


def weak_tag(*parts: int | str) -> str:
    """``W/"DEMO:A.7.29000000"``: everything that the answer depends on beside its address."""
    return f'W/"{".".join(map(str, parts))}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Whether an ``If-None-Match`` names ``tag``: ``*``, or a list compared weakly. What is no list matches nothing."""
    if if_none_match == tag:
        return True
    if if_none_match.strip() == "*":
        return True
    opaque, place, found = tag.removeprefix("W/"), 0, False
    while place < len(if_none_match):
        member = _MEMBER.match(if_none_match, place)
        if member is None:
            return False
        found = found or member[1] == opaque
        place = member.end()
    return found
