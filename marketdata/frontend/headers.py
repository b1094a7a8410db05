"""Which header fields pass the proxy, in each direction; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Fields = list[tuple[str, str]]

_HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-authentication-info",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
})  # fmt: skip
"""RFC 9110, section 7.6.1, and what older programs send."""

_NOT_SENT = _HOP_BY_HOP | {"host", "authorization", "cookie", "content-length", "expect", "forwarded", "x-remote-user"}
_NOT_SENT_PREFIX = "x-forwarded-"
_NOT_ANSWERED = _HOP_BY_HOP | {"www-authenticate", "set-cookie", "server", "date", "content-security-policy"}
"""How the API asks for its token concerns the frontend alone. The listener adds a Date of its own."""


def to_upstream(environ: Mapping[str, Any]) -> Fields:
    """The client's fields that the API gets. ``environ`` is of WSGI."""
    named = _listed(environ.get("HTTP_CONNECTION", ""))
    sent = [
        (key.removeprefix("HTTP_").replace("_", "-").lower(), value)
        for key, value in environ.items()
        if key.startswith("HTTP_") or (key == "CONTENT_TYPE" and value)
    ]
    return [
        (name, value)
        for name, value in sent
        if name not in _NOT_SENT and name not in named and not name.startswith(_NOT_SENT_PREFIX)
    ]


def to_client(fields: Iterable[tuple[str, str]]) -> Fields:
    """The fields of the API's answer that the client gets."""
    kept = list(fields)
    named = {name for key, value in kept if key.lower() == "connection" for name in _listed(value)}
    return [(name, value) for name, value in kept if name.lower() not in _NOT_ANSWERED and name.lower() not in named]


def asks_for_websocket(environ: Mapping[str, Any]) -> bool:
    """Whether a request asks for the protocol of a WebSocket (RFC 6455, section 4.1)."""
    named = _listed(environ.get("HTTP_CONNECTION", ""))
    is_asked = environ.get("HTTP_UPGRADE", "").strip().lower() == "websocket" and "upgrade" in named
    return is_asked and environ["REQUEST_METHOD"] == "GET"


def _listed(connection: str) -> set[str]:
    return {name.strip().lower() for name in connection.split(",")}
