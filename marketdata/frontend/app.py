"""The frontend's WSGI application: checks origin and login, then serves the page or passes the request to the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marketdata.errors import NotFound
from marketdata.frontend import request_origin
from marketdata.frontend.login import Login
from marketdata.frontend.pages import INDEX, PREFIX, Pages, message
from marketdata.frontend.problems import CHALLENGE, CHALLENGE_WITHOUT_PROMPT, explained, problem_of
from marketdata.frontend.proxy import Proxy, Response, asks_for_websocket
from marketdata.frontend.request_target import Target, is_for_api, parsed
from marketdata.http.document import DOCS
from marketdata.http.failures import PROBLEMS, MethodNotAllowed
from marketdata.http.reply import HTML, Reply, answer
from marketdata.http.revalidation import CACHE_CONTROL, revalidated
from marketdata.http.wsgi import Part, StartResponse, send
from marketdata.limits import MAX_BODY_BYTES
from marketdata.settings import Network

SECURITY_HEADERS = (
    (
        "Content-Security-Policy",
        # The chart library adds a style element.
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_NO_STORE = ("Cache-Control", "no-store")
_LOGGED_OUT = message(
    "You are logged out",
    "This browser was asked to forget the password, but not every browser does. If other people use this browser, "
    "close all its windows.",
    "Log in again",
)


@dataclass(frozen=True)
class Access:
    """Who may use the frontend. ``login`` is None with BASIC_AUTH_MODE=off. ``origins`` are further addresses of the
    frontend."""

    login: Login | None
    origins: frozenset[str]
    trusted_proxies: tuple[Network, ...]


class Frontend:
    """The WSGI callable. The listener calls ``admit`` before it accepts a body."""

    def __init__(self, access: Access, proxy: Proxy, pages: Pages) -> None:
        self._access = access
        self._proxy = proxy
        self._pages = pages

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[Part]:
        start = _with_security_headers(start_response)
        found: Reply | Response
        try:
            found = self._answer(environ)
        except Exception as error:
            challenge = CHALLENGE_WITHOUT_PROMPT if environ.get("HTTP_X_LOGIN_PROMPT") == "none" else CHALLENGE
            what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']!r}"
            found = problem_of(error, what, challenge, as_page=_shows_pages(environ))
        if isinstance(found, Response):
            return found.send(start)
        return send(found, start, bare=environ["REQUEST_METHOD"] == "HEAD")

    def admit(self, head: Mapping[str, str], may_block: bool) -> int | Reply | None:
        """Decide about a request's body: return its maximum size in bytes, or the reply that refuses the request.
        Return None if ``may_block`` is False and the password must be checked, because the check would block."""
        try:
            self._check_origin(head)
            if self._access.login is not None:
                authorization = head.get("HTTP_AUTHORIZATION")
                if self._access.login.user_from_memory(authorization) is None:
                    if not may_block:
                        return None
                    self._access.login.user(authorization, self._address(head))
            return MAX_BODY_BYTES
        except Exception as error:
            return problem_of(error, "a request with a body").with_headers(*SECURITY_HEADERS)

    def _check_origin(self, head: Mapping[str, Any]) -> None:
        request_origin.check(head, self._access.origins, checks_host=self._access.login is None)

    def _answer(self, environ: dict[str, Any]) -> Reply | Response:
        target = parsed(environ["REQUEST_URI"])
        if target.path == "/healthz":  # a health check may know only the address, so any Host is accepted
            return _own(environ, answer({"status": "ok"}))
        self._check_origin(environ)
        if target.path == PROBLEMS:
            return _own(environ, Reply(explained(), 200, HTML, (CACHE_CONTROL,)))
        if target.path == DOCS:  # it is the same for everybody, so it needs no login
            _check_method(environ)
            return self._proxy.response(environ, Target(DOCS, ""), _stays)
        if target.path == "/logout":
            request_origin.check_site(environ)
            return _own(environ, _logged_out())
        user, auth = self._user(environ)
        if is_for_api(target):
            # Only a WebSocket stays open long enough for a change of the users to matter.
            may_stay = self._standing(user) if asks_for_websocket(environ) else _stays
            return self._proxy.response(environ, target, may_stay)
        return _own(environ, self._page(target, user, auth, environ))

    def _user(self, environ: Mapping[str, Any]) -> tuple[str | None, str]:
        """The user of the request, and how the user is known: ``basic``, ``proxy`` or ``none``."""
        login = self._access.login
        if login is not None:
            authorization = environ.get("HTTP_AUTHORIZATION")
            known = login.user_from_memory(authorization)
            return known or login.user(authorization, self._address(environ)), "basic"
        user = request_origin.remote_user(environ, self._access.trusted_proxies)
        return user, "none" if user is None else "proxy"

    def _address(self, head: Mapping[str, Any]) -> str:
        return request_origin.client_address(head, self._access.trusted_proxies)

    def _standing(self, user: str | None) -> Callable[[], bool]:
        """Returns a function that tells whether the user may still read."""
        login = self._access.login
        return login.standing(user) if login is not None and user is not None else _stays

    def _page(self, target: Target, user: str | None, auth: str, environ: Mapping[str, Any]) -> Reply:
        if target.path == "/whoami":
            return answer({"user": user, "auth": auth}, headers=(_NO_STORE,))
        if target.path != INDEX and not target.path.startswith(PREFIX):
            raise NotFound("there is nothing at this path")
        reply = self._pages.reply(target.path, environ.get("HTTP_ACCEPT_ENCODING", ""))
        return revalidated(reply, environ)


def _stays() -> bool:
    return True


def _shows_pages(environ: Mapping[str, Any]) -> bool:
    """Whether a browser shows the response to a person. An error is then a page, not JSON."""
    is_navigation = environ["REQUEST_METHOD"] == "GET" and "text/html" in environ.get("HTTP_ACCEPT", "")
    return is_navigation and not environ["PATH_INFO"].startswith("/api/")


def _own(environ: Mapping[str, Any], reply: Reply) -> Reply:
    """Return ``reply`` to a request for a path that the frontend serves itself."""
    _check_method(environ)
    return reply


def _check_method(environ: Mapping[str, Any]) -> None:
    """Raise MethodNotAllowed unless the method is GET or HEAD."""
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        raise MethodNotAllowed("this path takes GET", "GET, HEAD")


def _logged_out() -> Reply:
    """A 401 without a Basic challenge. After it, Chromium forgets the password. After a challenge for another realm,
    Chromium would show a prompt for this path and keep the password for all other paths."""
    return Reply(_LOGGED_OUT, 401, HTML, (CHALLENGE_WITHOUT_PROMPT, _NO_STORE))


def _with_security_headers(start_response: StartResponse) -> StartResponse:
    def start(status: str, fields: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*fields, *SECURITY_HEADERS], *rest)

    return start
