"""The one gate in front of everything: who may ask, how large, and which headers every answer carries.

There is no login, so any page in the user's browser is a possible caller. What keeps it out (sources: the Fetch
standard for ``Origin`` and ``Sec-Fetch-Site``; RFC 9110, section 15.5.20 for 421):

- a fixed list of Host names with the bound port; a rebound DNS name shows its own name there and is refused,
- ``Origin``, when present, must be one of our own; ``null`` is nobody's,
- an unsafe method from another site, as the browser itself says, is refused, and so is a WebSocket without Origin,
- JSON routes take ``application/json`` only, which a foreign page can send only after a preflight that nobody answers.

The Unix socket is reachable by its owner alone, so Host and Origin say nothing there. Forwarding headers are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from cardapp.errors import ForbiddenOrigin, TooLarge, UnsupportedMediaType, WrongHost
from cardapp.web.failures import BadRequest, StartResponse, WsgiApp, problem_of, send
from cardapp.web.http import JSON

JSON_LIMIT = 64 * 1024

ADDRESS = "cardapp.address"
"""Where in the environment the gate leaves the URL of the service, as the client may use it."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
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
    """A TCP listener on loopback: ``host`` as configured, ``port`` as bound. ``names`` are its allowed Hosts."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """The URL of the service, without a path."""
        return f"http://{_bracketed(self.host)}:{self.port}"

    @cached_property
    def names(self) -> frozenset[str]:
        """Every Host that means this listener, in lower case."""
        bare = {"127.0.0.1", "localhost", "[::1]", _bracketed(self.host)}
        return frozenset({f"{name}:{self.port}" for name in bare} | (bare if self.port == 80 else set()))


@dataclass(frozen=True)
class Unix:
    """The Unix socket, private to its owner; ``address`` is where a browser finds the same service."""

    address: str


Transport = Tcp | Unix


@dataclass(frozen=True)
class Intake:
    """What a path takes as a body: its media types and its size in bytes."""

    media_types: tuple[str, ...] = (JSON,)
    limit: int = JSON_LIMIT


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def gated(app: WsgiApp, transport: Transport, intakes: Mapping[str, Intake]) -> WsgiApp:
    """``app`` behind the gate of ``transport``; ``intakes`` are the paths that take something else than JSON."""

    def guarded(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, secured(headers), *rest)

        try:
            if isinstance(transport, Tcp):
                _check_host(environ, transport.names)
                _check_origin(environ, transport.names)
                environ[ADDRESS] = f"http://{environ['HTTP_HOST']}"
            else:
                environ[ADDRESS] = transport.address
            _check_body(environ, intakes.get(environ["PATH_INFO"], Intake()))
        except Exception as error:
            what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']!r}"
            return send(problem_of(error, what), start, bare=environ["REQUEST_METHOD"] == "HEAD")
        return app(environ, start)

    return guarded


def secured(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """``headers`` with the security headers that they do not set themselves."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    return given + [(name, value) for name, value in SECURITY_HEADERS if name.lower() not in names]


def _check_host(environ: Mapping[str, Any], names: frozenset[str]) -> None:
    host = environ.get("HTTP_HOST", "")
    if host.lower() not in names:
        raise WrongHost(
            f"the Host header {host[:100]!r} does not name this service: use {_listed(names)}"
            " (through a tunnel: the same port on both ends)"
        )
    # A request line may name the host too (RFC 9112, section 3.2.2), and then it goes before the header.
    target = environ.get("REQUEST_URI", "/")
    if not target.startswith(("/", "*")) and _authority(target) not in names:
        raise WrongHost(f"the request line names another host: use {_listed(names)}")


def _authority(target: str) -> str:
    try:
        return urlsplit(target).netloc.lower()
    except ValueError:
        return ""


def _check_origin(environ: Mapping[str, Any], names: frozenset[str]) -> None:
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin.lower() not in {f"http://{name}" for name in names}:
        raise ForbiddenOrigin(
            f"a page of {origin[:100]!r} may not ask here: open {_listed(names)}, or use a client that is no browser"
        )
    if origin is None and environ.get("HTTP_UPGRADE") is not None:
        raise ForbiddenOrigin("an upgrade over TCP must say its Origin: connect from our own page or the Unix socket")
    site = environ.get("HTTP_SEC_FETCH_SITE", "").strip().lower()
    if environ["REQUEST_METHOD"] not in _SAFE_METHODS and site in _FOREIGN_SITES:
        raise ForbiddenOrigin(f"a {site} page may not change anything here: send the request from our own page")


def _check_body(environ: Mapping[str, Any], intake: Intake) -> None:
    media_type = environ.get("CONTENT_TYPE", "")
    length = _length(environ)
    if length > intake.limit:
        raise TooLarge(f"the body has {length} bytes, {intake.limit} are taken here: send less")
    if environ["REQUEST_METHOD"] in _SAFE_METHODS or (not media_type and length == 0):
        return
    kind, _, parameters = media_type.partition(";")
    if kind.strip().lower() not in intake.media_types:
        raise UnsupportedMediaType(
            f"{media_type[:100] or 'a body without Content-Type'} is not taken: send {', '.join(intake.media_types)}"
        )
    if intake.media_types == (JSON,) and not _says_utf8(parameters):
        raise UnsupportedMediaType("JSON is UTF-8: leave the charset out of Content-Type, or say utf-8")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("an encoded body is not taken here: send it without Content-Encoding")


def _length(environ: Mapping[str, Any]) -> int:
    text = environ.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdigit()):
        raise BadRequest("Content-Length is no number")
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
