"""Parses the target of a request and makes the target of the request to the data API; pure.

An attack by a path needs two programs that read the same path differently. So a target that programs could read
differently is refused, and any other target goes to the API in one normal form.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from marketdata.errors import NotFound
from marketdata.http.failures import BadRequest

API = "/api"
HIDDEN = frozenset({"admin", "metrics"})
"""The frontend hides the API's paths that have one of these segments, because users of charts do not need them."""

_TARGET = re.compile(r"/[\x21-\x7e]*")
_NEVER = re.compile(r"[\\#]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNSAFE = re.compile(r"[/\\%?#\x00-\x1f\x7f-\x9f]")
_LITERAL = "/:@!$&'()*+,;=~"


class Target(NamedTuple):
    """The target of a request. ``path`` is decoded, ``query`` is not."""

    path: str
    query: str


def parsed(raw: str) -> Target:
    """Parse the target of a request line. Raises :class:`BadRequest` if another program could read the target
    differently."""
    if not _TARGET.fullmatch(raw) or _NEVER.search(raw):
        raise BadRequest("the request target must be a path of printable ASCII characters, without \\ and #")
    path, _, query = raw.partition("?")
    if "//" in path:
        raise BadRequest("the path has an empty segment")
    return Target("/".join(_decoded(segment) for segment in path.split("/")), query)


def _decoded(segment: str) -> str:
    if _ESCAPE.search(segment):
        raise BadRequest("the path has a % without two hexadecimal digits after it")
    try:
        text = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("the path is not UTF-8") from error
    if _UNSAFE.search(text) or text.partition(";")[0].strip(" ") in (".", ".."):
        raise BadRequest("the path has an escaped separator, a control character, or a segment . or ..")
    return text


def is_for_api(target: Target) -> bool:
    return target.path == API or target.path.startswith(f"{API}/")


def for_api(target: Target) -> str:
    """The target of the request to the API, without ``/api``. Raises :class:`NotFound` for a hidden path."""
    path = target.path.removeprefix(API) or "/"
    if any(segment.partition(";")[0].strip().lower() in HIDDEN for segment in path.split("/")):
        raise NotFound("there is nothing at this path")
    return quote(path, safe=_LITERAL) + (f"?{target.query}" if target.query else "")
