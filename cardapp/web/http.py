"""What a handler gets and gives: a request that was already checked, and an answer that is not yet on the wire."""

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
    """``path`` and ``query`` by name, valid by the schemas of the route. ``body`` is a JSON route's object, {} where
    it was left out. ``environ`` is for routes that take something else."""

    services: Services
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    environ: Mapping[str, Any]


@dataclass(frozen=True)
class Reply:
    """An answer; a body of bytes is sent whole, any other iterable is streamed."""

    body: bytes | Iterable[bytes]
    status: int = 200
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    def with_headers(self, *more: tuple[str, str]) -> Reply:
        """The same reply with further headers."""
        return replace(self, headers=(*self.headers, *more))


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON; the same value gives the same bytes, which strong entity tags rest on."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def answer(value: Mapping[str, Any], status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """A JSON object as an answer."""
    return Reply(encode(value), status, JSON, headers)


def created(record: Mapping[str, Any], location: str) -> Reply:
    """201 with the bare record and where it can be read."""
    return answer(record, 201, (("Location", location),))
