"""The WSGI application: bottle matches the route, the request is validated, and the handler's reply is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import bottle

from cardapp.errors import NotFound
from cardapp.web.failures import MethodNotAllowed, reporting
from cardapp.web.http import Reply, Request, StartResponse, WsgiApp, send
from cardapp.web.request_validation import receive
from cardapp.web.revalidation import revalidated
from cardapp.web.route import CACHE_CONTROL, Route
from cardapp.web.services import Services


def routed(routes: Iterable[Route], services: Services) -> WsgiApp:
    """The application of ``routes``; every error becomes a problem response."""
    router = bottle.Router()
    for route in routes:
        router.add(route.path.replace("{", "<").replace("}", ">"), route.method, route)

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        route, path = _match(router, environ)
        reply = _answer(route, receive(route, services, environ, path), environ.get("HTTP_IF_NONE_MATCH"))
        return send(reply, start_response, bare=environ["REQUEST_METHOD"] == "HEAD")

    return reporting(app)


def _match(router: bottle.Router, environ: Mapping[str, Any]) -> tuple[Route, dict[str, str]]:
    """The route and its path parameters; :class:`NotFound` or :class:`MethodNotAllowed`."""
    method, path = environ["REQUEST_METHOD"], _path(environ)
    try:
        found: tuple[Route, dict[str, str]] = router.match({"REQUEST_METHOD": method, "PATH_INFO": path})
    except bottle.HTTPError as error:
        if error.status_code != 405:
            raise NotFound(f"there is no resource {path[:200]!r}; GET /api/openapi.json lists all paths") from error
        allowed = set(error.get_header("Allow").split(","))
        allow = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
        raise MethodNotAllowed(f"{path} does not support {method[:40]}; it supports {allow}", allow) from error
    return found


def _path(environ: Mapping[str, Any]) -> str:
    """The path as text. WSGI passes percent-decoded bytes as latin-1; :class:`NotFound` if they are not UTF-8."""
    try:
        path: str = environ["PATH_INFO"].encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise NotFound("the path is not UTF-8; GET /api/openapi.json lists all paths") from error
    return path or "/"


def _answer(route: Route, request: Request, if_none_match: str | None) -> Reply:
    reply = route.handler(request).with_headers(("Cache-Control", CACHE_CONTROL[route.cache]))
    return reply if route.cache == "no-store" else revalidated(reply, if_none_match)
