"""Routes as a WSGI application: find the row, recognise the caller, check the query, handle, send the reply."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

from marketdata.api.compression import THRESHOLD, accepts_gzip, compressed
from marketdata.api.failures import MethodNotAllowed, StartResponse, WsgiApp, problem_of, send
from marketdata.api.http import Reply
from marketdata.api.request import Request
from marketdata.api.request_validation import checked, query_of
from marketdata.api.revalidation import VARY, revalidated
from marketdata.api.route import Route
from marketdata.api.services import Services
from marketdata.api.udf import UDF, with_udf_members
from marketdata.errors import NotFound

_NO_STORE = ("Cache-Control", "no-store")
_GZIP = ("Content-Encoding", "gzip")


class Router:
    """Finds the row of a request. Paths without parameters, which are nearly all, cost one look into a table."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._fixed: dict[str, dict[str, Route]] = {}
        self._named: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        named: dict[str, dict[str, Route]] = {}
        for route in routes:
            methods = (named if route.parameters else self._fixed).setdefault(route.path, {})
            methods[route.method] = route
            if route.method == "GET":
                methods["HEAD"] = route
        for path, methods in named.items():
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
            self._named.append((re.compile(pattern), methods))

    def match(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """The row and its path parameters; :class:`NotFound` or :class:`MethodNotAllowed`."""
        methods = self._fixed.get(path)
        parameters: Mapping[str, str] = {}
        if methods is None:
            methods, parameters = self._match_named(path)
        route = methods.get(method)
        if route is None:
            allow = ", ".join(sorted(methods))
            raise MethodNotAllowed(f"{path[:200]} does not take {method[:40]}; it takes {allow}", allow)
        return route, parameters

    def _match_named(self, path: str) -> tuple[dict[str, Route], Mapping[str, str]]:
        try:
            text = path.encode("latin-1").decode("utf-8")  # WSGI hands percent-decoded bytes over as latin-1
        except UnicodeError as error:
            raise NotFound("the path is not UTF-8: GET /openapi.json lists every path") from error
        for pattern, methods in self._named:
            found = pattern.fullmatch(text)
            if found is not None:
                return methods, found.groupdict()
        raise NotFound(f"there is nothing at {text[:200]!r}: GET /openapi.json lists every path")


def routed(routes: Iterable[Route], services: Services) -> WsgiApp:
    """The application of ``routes``. Whatever fails is answered by a problem; every answer is counted."""
    router = Router(routes)

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        started = perf_counter()
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        template = "(none)"
        try:
            route, parameters = router.match(method, path)
            template = route.path
            reply = _handled(route, parameters, services, environ)
            reply = revalidated(reply, environ) if route.revalidated else reply.with_headers(_NO_STORE)
        except Exception as error:
            if template.startswith(UDF):
                error = with_udf_members(error)
            reply = problem_of(error, f"{method} {path!r}")
        services.metrics.observe(
            method if template != "(none)" else "", template, reply.status, perf_counter() - started
        )
        return send(_coded(reply, environ), start_response, bare=method == "HEAD")

    return app


def _handled(route: Route, path: Mapping[str, str], services: Services, environ: Mapping[str, Any]) -> Reply:
    caller = None
    if route.scope is not None:
        caller = services.authenticator.admit(environ.get("HTTP_AUTHORIZATION"), route.scope)
    if path:
        checked("PathParameters", dict(path), "the path")
    query = query_of(environ.get("QUERY_STRING", ""), route.query)
    return route.handler(Request(services, caller, path, query, environ))


def _coded(reply: Reply, environ: Mapping[str, Any]) -> Reply:
    """``reply`` as gzip where that pays and the client takes it."""
    body = reply.body
    if not isinstance(body, bytes) or len(body) < THRESHOLD:
        return reply
    if not accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
        return reply.with_headers(VARY)
    return Reply(compressed(body), reply.status, reply.media_type, (*reply.headers, VARY, _GZIP))
