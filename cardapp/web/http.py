"""The request that a handler gets and the reply that it returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cardapp.web.services import Services

JSON = "application/json"
PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Request:
    """A validated request: ``path`` and ``query`` parameters by name, ``body`` the JSON object, {} if omitted.

    ``environ`` is for routes whose body is not JSON.
    """

    services: Services
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    environ: Mapping[str, Any]


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
    """Compact UTF-8 JSON. Strong entity tags rely on equal values giving equal bytes."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def answer(value: Mapping[str, Any], status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """A reply with a JSON object."""
    return Reply(encode(value), status, JSON, headers)


def created(record: Mapping[str, Any], location: str) -> Reply:
    """201 with the record itself, and ``location`` in the Location header."""
    return answer(record, 201, (("Location", location),))
