"""Routes as a WSGI application: find the route, authenticate, check the query, call the handler, send the reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import bottle

from marketdata.api.request import Request
from marketdata.api.request_validation import checked, media_type, query_of
from marketdata.api.route import Route
from marketdata.api.services import Services
from marketdata.api.udf import UDF, with_udf_members
from marketdata.errors import NotFound
from marketdata.http.failures import MethodNotAllowed, StartResponse, problem_of, send
from marketdata.http.reply import THRESHOLD, Reply, accepts_gzip, compressed
from marketdata.http.request_log import VARIABLE
from marketdata.http.revalidation import VARY, revalidated
from marketdata.limits import MAX_BODY_BYTES

_NO_STORE = ("Cache-Control", "no-store")
_GZIP = ("Content-Encoding", "gzip")


class Application:
    """The WSGI application of ``routes``. Every failure is answered by a problem; every answer is counted."""

    def __init__(self, routes: Iterable[Route], services: Services) -> None:
        self._services = services
        self._router = bottle.Router()
        for route in routes:
            self._router.add(route.path.replace("{", "<").replace("}", ">"), route.method, route)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        began = perf_counter()
        method = environ["REQUEST_METHOD"]
        route = None
        try:
            route, parameters = self._match(environ)
            reply = self._handled(route, parameters, environ)
            reply = revalidated(reply, environ) if route.revalidated else reply.with_headers(_NO_STORE)
        except Exception as error:
            reply = self._failed(environ, route, error)
        self._count(method, route, reply, perf_counter() - began)
        return send(_coded(reply, environ), start_response, bare=method == "HEAD")

    def admit(self, head: Mapping[str, str], may_block: bool) -> int | Reply | None:
        """Decide on a request before its body is read: how many bytes that may have, or the reply that refuses it.
        ``head`` is the WSGI environment as far as the head gives it. None when only the database can decide and
        ``may_block`` is False."""
        began = perf_counter()
        route = None
        try:
            route, _ = self._match(head)
            if not self._is_admitted(route, head, may_block):
                return None
            if route.body is None:
                return 0
            media_type(head, route.body.media_types)
            return MAX_BODY_BYTES
        except Exception as error:
            reply = self._failed(head, route, error)
        self._count(head["REQUEST_METHOD"], route, reply, perf_counter() - began)
        return reply

    def _is_admitted(self, route: Route, head: Mapping[str, str], may_block: bool) -> bool:
        """False when the database would have to be queried and ``may_block`` is False."""
        if route.scope is None:
            return True
        authenticator, authorization = self._services.authenticator, head.get("HTTP_AUTHORIZATION")
        admit = authenticator.admit if may_block else authenticator.admit_from_memory
        return admit(authorization, route.scope) is not None

    def _match(self, environ: Mapping[str, Any]) -> tuple[Route, Mapping[str, str]]:
        """The route and its path parameters; :class:`NotFound` or :class:`MethodNotAllowed`."""
        method, path = environ["REQUEST_METHOD"], _path(environ)
        try:
            found: tuple[Route, dict[str, str]] = self._router.match({"REQUEST_METHOD": method, "PATH_INFO": path})
        except bottle.HTTPError as error:
            if error.status_code != 405:
                raise NotFound(f"there is nothing at {path[:200]!r}: GET /openapi.json lists every path") from error
            allowed = set(error.get_header("Allow").split(","))
            allow = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
            detail = f"{path[:200]} does not take {method[:40]}; it takes {allow}"
            raise MethodNotAllowed(detail, allow) from error
        return found

    def _handled(self, route: Route, path: Mapping[str, str], environ: Mapping[str, Any]) -> Reply:
        caller = None
        if route.scope is not None:
            caller = self._services.authenticator.admit(environ.get("HTTP_AUTHORIZATION"), route.scope)
        if path:
            checked("PathParameters", dict(path), "the path")
        query = query_of(environ.get("QUERY_STRING", ""), route.query)
        return route.handler(Request(self._services, caller, path, query, environ))

    def _failed(self, environ: Mapping[str, Any], route: Route | None, error: Exception) -> Reply:
        identity = environ.get(VARIABLE, "")
        what = " ".join(part for part in (identity, environ["REQUEST_METHOD"], repr(environ["PATH_INFO"])) if part)
        self._services.failure_log.note(what, error, is_limited=not identity)
        if route is not None and route.path.startswith(UDF):
            error = with_udf_members(error)
        return problem_of(error, what)

    def _count(self, method: str, route: Route | None, reply: Reply, seconds: float) -> None:
        # An unknown path or method is no label: clients could make any number of series.
        labels = (method, route.path) if route is not None else ("", "(none)")
        self._services.metrics.observe(*labels, reply.status, seconds)


def _path(environ: Mapping[str, Any]) -> str:
    """The path as text. WSGI hands percent-decoded bytes over as latin-1; what is not UTF-8 names nothing here."""
    path: str = environ["PATH_INFO"]
    if path.isascii():
        return path
    try:
        return path.encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise NotFound("the path is not UTF-8: GET /openapi.json lists every path") from error


def _coded(reply: Reply, environ: Mapping[str, Any]) -> Reply:
    """``reply`` compressed, when it is large enough and the client accepts gzip."""
    body = reply.body
    if not isinstance(body, bytes) or len(body) < THRESHOLD:
        return reply
    if not accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
        return reply.with_headers(VARY)
    return Reply(compressed(body), reply.status, reply.media_type, (*reply.headers, VARY, _GZIP))
