"""The gate: refuses requests before any handler sees them, and sets the security headers of every response.

There is no login, so a page of any site that is open in the user's browser can send requests. These rules refuse such
requests (sources: the Fetch standard for ``Origin`` and ``Sec-Fetch-Site``; RFC 9110, section 15.5.20 for 421):

- ``Host`` must be one of a fixed list with the bound port, because after DNS rebinding a browser sends the attacker's
  name.
- ``Origin``, if present, must be the service's; ``null`` is refused.
- A request with an unsafe method is refused if the browser marks it as sent by a page of another site. A handshake of a
  WebSocket without ``Origin`` is refused, too.
- JSON routes accept only ``application/json``. A page of another origin would need a preflight request to send this
  type, and no preflight request is granted.

Only the owner can reach the Unix socket, so ``Host`` and ``Origin`` are not checked there. Forwarding headers are never
read. All these rules need only the head of a request, so the listener applies them before it keeps a body. The size of
a body, and of all bodies together, is checked while the body arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from cardapp.errors import CardAppError, ForbiddenOrigin, TooLarge, UnsupportedMediaType, WrongHost
from cardapp.web.failures import BadRequest, TooManyBodies, problem
from cardapp.web.http import JSON, StartResponse, WsgiApp, send
from cardapp.web.peer import MakeError

HEADER_BYTES = 32 * 1024
JSON_LIMIT = 64 * 1024
UNCOUNTED_BYTES = 16 * 1024
"""A body up to this size is not counted in the total size of all bodies. So small requests are accepted even while
large uploads are refused."""

ADDRESS = "cardapp.address"
"""The key in the WSGI environment under which the gate stores the URL by which this client reaches the service."""
CHUNKED = "HTTP_TRANSFER_ENCODING"
"""If a head contains this key, the body arrives in chunks, so its length is not known yet."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_BARE_NAMES = frozenset({"CONTENT_LENGTH", "CONTENT_TYPE"})
_FOREIGN_SITES = frozenset({"cross-site", "same-site"})

SECURITY_HEADERS: tuple[tuple[str, str], ...] = (
    (
        "Content-Security-Policy",
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)


@dataclass(frozen=True)
class Tcp:
    """TCP over loopback. ``host`` is the configured host, ``port`` the bound port."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """The URL of the service, without a path."""
        return f"http://{_bracketed(self.host)}:{self.port}"

    @cached_property
    def names(self) -> frozenset[str]:
        """The allowed values of ``Host``, in lower case."""
        bare = {"127.0.0.1", "localhost", "[::1]", _bracketed(self.host)}
        return frozenset({f"{name}:{self.port}" for name in bare} | (bare if self.port == 80 else set()))


@dataclass(frozen=True)
class Unix:
    """The Unix socket, private to its owner; ``address`` is the URL of the same service for a browser."""

    address: str


Transport = Tcp | Unix


@dataclass(frozen=True)
class Intake:
    """The bodies that a path accepts: their media types, and their maximum size in bytes."""

    media_types: tuple[str, ...] = (JSON,)
    limit: int = JSON_LIMIT


_SMALL_JSON = Intake()


class Gate:
    """Applies the rules for one transport. ``intakes`` lists the paths whose bodies are not small JSON.

    A head is a WSGI environment, or the result of :func:`head_of` for a request whose body has not arrived.
    """

    def __init__(self, transport: Transport, intakes: Mapping[str, Intake]) -> None:
        self._transport = transport
        self._intakes = intakes

    def refusal(self, head: Mapping[str, Any]) -> CardAppError | None:
        """Why the request is refused; None if it is accepted."""
        try:
            if isinstance(self._transport, Tcp):
                _check_host(head, self._transport.names)
                _check_origin(head, self._transport.names)
            _check_body(head, self._intake(head))
        except CardAppError as error:
            return error
        return None

    def body_limit(self, head: Mapping[str, Any]) -> int:
        """The maximum size of this request's body in bytes."""
        return self._intake(head).limit

    def guard(self, app: WsgiApp) -> WsgiApp:
        """``app`` behind the gate. All responses get the security headers, even those that refuse a request."""

        def guarded(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                return start_response(status, secured(headers), *rest)

            refused = self.refusal(environ)
            if refused is not None:
                return send(problem(refused), start, bare=environ["REQUEST_METHOD"] == "HEAD")
            is_tcp = isinstance(self._transport, Tcp)
            environ[ADDRESS] = f"http://{environ['HTTP_HOST']}" if is_tcp else self._transport.address
            return app(environ, start)

        return guarded

    def _intake(self, head: Mapping[str, Any]) -> Intake:
        return self._intakes.get(head["PATH_INFO"], _SMALL_JSON)


class BodyBudget:
    """Limits the total size of all request bodies that are kept at once. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lock = threading.Lock()

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes. If fewer are free, reserve nothing and return False."""
        with self._lock:
            has_room = size <= self._free
            if has_room:
                self._free -= size
        return has_room

    def release(self, size: int) -> None:
        with self._lock:
            self._free += size


class Arrival:
    """Checks one request while it arrives. If its connection is refused, ``foreign`` makes the error for the response.

    ``close`` releases the reserved bytes of the body and may be called repeatedly.
    """

    def __init__(self, gate: Gate, bodies: BodyBudget, foreign: MakeError | None) -> None:
        self._gate = gate
        self._bodies = bodies
        self._foreign = foreign
        self._limit = 0
        self._reserved = 0

    def check_head(self, head: Mapping[str, Any], *, has_body: bool) -> MakeError | None:
        """Check the complete head. Returns the error that refuses the request, or None.

        For a request without a body only the client's account is checked. The gate in front of the application checks
        the other rules, and the connection can then stay open.
        """
        if self._foreign is not None or not has_body:
            return self._foreign
        self._limit = self._gate.body_limit(head)
        refused = self._gate.refusal(head)
        return None if refused is None else lambda: refused

    def count_body(self, size: int) -> MakeError | None:
        """Check the ``size`` of the body so far, in bytes. Returns the error that refuses the request, or None."""
        if size > self._limit:
            return lambda: too_large(self._limit)
        if size > UNCOUNTED_BYTES:
            if not self._bodies.reserve(size - self._reserved):
                return lambda: TooManyBodies(
                    "too many request bodies are arriving at once: send this request again a little later"
                )
            self._reserved = size
        return None

    def close(self) -> None:
        self._bodies.release(self._reserved)
        self._reserved = 0


def head_of(headers: Mapping[str, str], method: str, path: str, target: str, *, is_chunked: bool) -> dict[str, str]:
    """The head with the keys and values of the WSGI environment. ``headers`` has the WSGI names without ``HTTP_``."""
    head = {name if name in _BARE_NAMES else f"HTTP_{name}": value for name, value in headers.items()}
    head["REQUEST_METHOD"] = method
    head["PATH_INFO"] = "/" + path.lstrip("/") if path.startswith("/") else path
    head["REQUEST_URI"] = target
    if is_chunked:
        head[CHUNKED] = "chunked"
    return head


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def secured(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns ``headers`` and the security headers that are missing in them."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    return given + [(name, value) for name, value in SECURITY_HEADERS if name.lower() not in names]


def _check_host(head: Mapping[str, Any], names: frozenset[str]) -> None:
    host = head.get("HTTP_HOST", "")
    if host.lower() not in names:
        raise WrongHost(
            f"the Host header {host[:100]!r} does not name this service: use {_listed(names)}"
            " (through a tunnel: the same port on both ends)"
        )
    # A host in the request line overrides the header (RFC 9112, section 3.2.2).
    target = head.get("REQUEST_URI", "/")
    if not target.startswith(("/", "*")) and _authority(target) not in names:
        raise WrongHost(f"the request line names another host: use {_listed(names)}")


def _authority(target: str) -> str:
    try:
        return urlsplit(target).netloc.lower()
    except ValueError:
        return ""


def _check_origin(head: Mapping[str, Any], names: frozenset[str]) -> None:
    origin = head.get("HTTP_ORIGIN")
    if origin is not None and origin.lower() not in {f"http://{name}" for name in names}:
        raise ForbiddenOrigin(
            f"pages of {origin[:100]!r} may not use this service: open {_listed(names)}, or use a client that is not "
            "a browser"
        )
    if origin is None and head.get("HTTP_UPGRADE") is not None:
        raise ForbiddenOrigin(
            "an upgrade over TCP needs an Origin header: connect from the service's own page or over the Unix socket"
        )
    site = head.get("HTTP_SEC_FETCH_SITE", "").strip().lower()
    if head["REQUEST_METHOD"] not in _SAFE_METHODS and site in _FOREIGN_SITES:
        raise ForbiddenOrigin(f"a {site} page may not change anything: send the request from the service's own page")


def too_large(limit: int) -> TooLarge:
    """The error for a body of more than ``limit`` bytes."""
    return TooLarge(f"the body has more than {limit} bytes, which is the limit of this path: send less")


def _check_body(head: Mapping[str, Any], intake: Intake) -> None:
    media_type = head.get("CONTENT_TYPE", "")
    length = _length(head)
    if length > intake.limit:
        raise too_large(intake.limit)
    has_body = length > 0 or CHUNKED in head
    if head["REQUEST_METHOD"] in _SAFE_METHODS or not (media_type or has_body):
        return
    kind, _, parameters = media_type.partition(";")
    if kind.strip().lower() not in intake.media_types:
        raise UnsupportedMediaType(
            f"{media_type[:100] or 'a body without Content-Type'} is not accepted: send {', '.join(intake.media_types)}"
        )
    if intake.media_types == (JSON,) and not _says_utf8(parameters):
        raise UnsupportedMediaType("JSON is UTF-8: leave the charset out of Content-Type, or set it to utf-8")
    if head.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("encoded bodies are not accepted: send the body without Content-Encoding")


def _length(head: Mapping[str, Any]) -> int:
    text = head.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdigit()):
        raise BadRequest("Content-Length is not a number")
    return int(text)


def _says_utf8(parameters: str) -> bool:
    charsets = [
        value.strip().strip('"').lower()
        for name, _, value in (part.partition("=") for part in parameters.split(";"))
        if name.strip().lower() == "charset"
    ]
    return all(charset in ("utf-8", "utf8") for charset in charsets)


def _listed(names: frozenset[str]) -> str:
    return " or ".join(f"http://{name}" for name in sorted(names))
