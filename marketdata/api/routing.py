"""The WSGI application of the API. It finds the route of a request, authenticates the caller, checks the query, calls
the route's handler and sends the reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import bottle

from marketdata.api.auth import Caller, Scope
from marketdata.api.current_reads import known_counter
from marketdata.api.request_validation import checked, media_type, query_of
from marketdata.api.services import Services
from marketdata.errors import DatabaseUnavailable, DiskFull, MarketError, NotFound
from marketdata.http.failures import MethodNotAllowed, problem, shown_error, status_of, statuses_of_codes
from marketdata.http.reply import CSV_TYPE, JSON, PROBLEM, Headers, Reply, gzipped
from marketdata.http.request_log import VARIABLE
from marketdata.http.revalidation import revalidated
from marketdata.http.spool import Spool
from marketdata.http.wsgi import StartResponse, send
from marketdata.limits import MAX_BODY_BYTES, MAX_CSV_BYTES

_NO_STORE = ("Cache-Control", "no-store")
_OF_CREDENTIALS = {"invalid_request", "unauthorized", "invalid_token", "insufficient_scope"}
OF_DATABASE = {
    "database_unavailable", "database_exhausted", "disk_full", "contended", "too_slow", "version_missing",
    "database_stalled", "database_defect",
}  # fmt: skip
"""The codes of errors that the database causes."""
_OF_BODY = {"malformed_json", "too_large", "unsupported_media_type", "saturated", "storage_unavailable"}
_READS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as its handler receives it.

    ``caller`` is None if the route requires no credential. ``path`` contains the path parameters by name. ``query`` is
    valid by the route's schema and contains the schema's defaults. ``environ`` is the WSGI environment, which handlers
    need for the body and the headers. ``known_counter`` is the newest counter that the client knows
    (:mod:`marketdata.api.current_reads`), or 0.
    """

    services: Services
    caller: Caller | None
    path: Mapping[str, str]
    query: Mapping[str, Any]
    environ: Mapping[str, Any]
    known_counter: int = 0


Handler = Callable[[Request], Reply]


@dataclass(frozen=True)
class Body:
    """The body that a route accepts: the schema of its JSON, its media types, and whether gzip may pack it."""

    schema: str
    media_types: tuple[str, ...] = (JSON,)
    accepts_gzip: bool = False


@dataclass(frozen=True)
class ErrorShape:
    """How a route sends its errors: the schema and the media type of the body, the function that makes the reply, and
    the codes that have another status here than in a problem. If ``below`` is the beginning of a path, the error of a
    path without a route has this shape, too."""

    schema: str
    media_type: str
    reply: Callable[[MarketError], Reply]
    statuses: Mapping[str, int] = field(default_factory=dict)
    below: str = ""


AS_PROBLEM = ErrorShape("Problem", PROBLEM, problem)


@dataclass(frozen=True)
class Route:
    """One row of the route table. Routing, validation and the API description use it.

    ``path`` contains its parameters in braces. ``answer`` names the schema of a successful JSON response. ``scope`` is
    None if no credential is required. ``problems`` are the error codes of this route, beside those that follow from
    the other columns (:meth:`codes`). ``revalidated``: the response has an ETag, unless it is a stream, and a matching
    ``If-None-Match`` gets 304. ``headers``: names and descriptions of further header fields of a successful response.
    ``database``: whether the handler queries the database. ``database_status``: the status of all errors of the
    database. Without it, each error has its own status. ``websocket``: the schemas of the messages that a client sends
    and receives after the upgrade. ``errors``: the shape of this route's errors.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: str | None = None
    scope: Scope | None = None
    statuses: tuple[int, ...] = (200,)
    produces: tuple[str, ...] = (JSON,)
    query: str = "NoParameters"
    body: Body | None = None
    problems: tuple[str, ...] = ()
    revalidated: bool = False
    headers: Headers = ()
    database: bool = True
    database_status: int | None = None
    websocket: tuple[str, str] | None = None
    errors: ErrorShape = AS_PROBLEM

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path parameters."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    @property
    def is_read(self) -> bool:
        """Whether this route answers with stored data, so that a request may say which writes the client knows."""
        return self.revalidated and self.scope is not None and self.database

    def documented(self) -> tuple[int, ...]:
        """Every status that a response of this route may have, ascending."""
        return tuple(sorted({*self.statuses, *self.codes(), *((304,) if self.revalidated else ())}))

    def codes(self) -> dict[int, list[str]]:
        """Every code that an error of this route may have, by its status; both ascending."""
        found = {*self.problems, "invalid_value", "internal_error"}
        if self.scope is not None:
            found |= _OF_CREDENTIALS
        if self.scope is not None or self.database:
            found |= OF_DATABASE
        if self.parameters:
            found.add("not_found")
        if self.body is not None:
            found |= _OF_BODY
            found |= {"malformed_gzip"} if self.body.accepts_gzip else set()
        statuses = {**statuses_of_codes(), **self.errors.statuses}
        if self.method in _READS:
            statuses[DiskFull.code] = status_of(DatabaseUnavailable)
        if self.database_status is not None:
            statuses |= dict.fromkeys(OF_DATABASE, self.database_status)
        by_status: dict[int, list[str]] = {}
        for code in sorted(found, key=lambda code: (statuses[code], code)):
            by_status.setdefault(statuses[code], []).append(code)
        return by_status


class Application:
    """The WSGI application of ``routes``. Every error is answered with a problem, or in the shape of its route; every
    response is counted."""

    def __init__(self, routes: Iterable[Route], services: Services) -> None:
        self._services = services
        self._router = bottle.Router()
        self._shapes: dict[str, ErrorShape] = {}
        for route in routes:
            if route.errors.below:
                self._shapes[route.errors.below] = route.errors
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
        reply = gzipped(reply, environ.get("HTTP_ACCEPT_ENCODING", ""))
        return send(reply, start_response, bare=method == "HEAD")

    def admit(self, head: Mapping[str, str], may_block: bool) -> int | Spool | Reply | None:
        """Decide on a request before its body is read. ``head`` contains the variables of the WSGI environment that
        come from the request's head. Returns the maximum size of the body in bytes, or the spool for a body of CSV, or
        the reply that refuses the request, or None if only the database can decide and ``may_block`` is False."""
        began = perf_counter()
        route = None
        try:
            route, _ = self._match(head)
            if not self._is_admitted(route, head, may_block):
                return None
            if route.body is None:
                return 0
            kind = media_type(head, route.body.media_types, accepts_gzip=route.body.accepts_gzip)
            return self._services.spools.take(MAX_CSV_BYTES) if kind == CSV_TYPE else MAX_BODY_BYTES
        except Exception as error:
            reply = self._failed(head, route, error)
        self._count(head["REQUEST_METHOD"], route, reply, perf_counter() - began)
        return reply

    def _is_admitted(self, route: Route, head: Mapping[str, str], may_block: bool) -> bool:
        """Whether the caller may use the route. False if only the database can decide and ``may_block`` is False."""
        if route.scope is None:
            return True
        authenticator, authorization = self._services.authenticator, head.get("HTTP_AUTHORIZATION")
        admit = authenticator.admit if may_block else authenticator.admit_from_memory
        return admit(authorization, route.scope) is not None

    def _match(self, environ: Mapping[str, Any]) -> tuple[Route, Mapping[str, str]]:
        """Returns the route and its path parameters. Raises :class:`NotFound` or :class:`MethodNotAllowed`."""
        method, path = environ["REQUEST_METHOD"], _path(environ)
        try:
            found: tuple[Route, dict[str, str]] = self._router.match({"REQUEST_METHOD": method, "PATH_INFO": path})
        except bottle.HTTPError as error:
            if error.status_code != 405:
                raise NotFound(f"there is nothing at {path[:200]!r}: GET /openapi.json lists every path") from error
            allowed = set(error.get_header("Allow").split(","))
            allow = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
            detail = f"{path[:200]} does not support {method[:40]}; it supports {allow}"
            raise MethodNotAllowed(detail, allow) from error
        return found

    def _handled(self, route: Route, path: Mapping[str, str], environ: Mapping[str, Any]) -> Reply:
        caller = None
        if route.scope is not None:
            caller = self._services.authenticator.admit(environ.get("HTTP_AUTHORIZATION"), route.scope)
        if path:
            checked("PathParameters", dict(path), "the path")
        query = query_of(environ.get("QUERY_STRING", ""), route.query)
        known = known_counter(environ) if route.is_read else 0
        return route.handler(Request(self._services, caller, path, query, environ, known))

    def _failed(self, environ: Mapping[str, Any], route: Route | None, error: Exception) -> Reply:
        identity = environ.get(VARIABLE, "")
        what = " ".join(part for part in (identity, environ["REQUEST_METHOD"], repr(environ["PATH_INFO"])) if part)
        self._services.failure_log.note(what, error, is_limited=not identity)
        shape = self._shape_of(environ["PATH_INFO"]) if route is None else route.errors
        shown = shown_error(error, what)
        if isinstance(shown, DiskFull) and environ["REQUEST_METHOD"] in _READS:
            shown = unavailable(shown)
        return shape.reply(shown)

    def _shape_of(self, path: str) -> ErrorShape:
        return next((shape for start, shape in self._shapes.items() if path.startswith(start)), AS_PROBLEM)

    def _count(self, method: str, route: Route | None, reply: Reply, seconds: float) -> None:
        # Unknown paths and methods do not become labels, because clients could create any number of series with them.
        labels = (method, route.path) if route is not None else ("", "(none)")
        self._services.metrics.observe(*labels, reply.status, seconds)


def unavailable(error: MarketError) -> DatabaseUnavailable:
    """Returns an error with the same text, and code of the database, that is answered with 503."""
    return DatabaseUnavailable(error.detail, code=error.code if error.code in OF_DATABASE else None)


def _path(environ: Mapping[str, Any]) -> str:
    """Returns the path as text. WSGI passes the percent-decoded bytes as latin-1. Raises :class:`NotFound` if they are
    not UTF-8."""
    path: str = environ["PATH_INFO"]
    if path.isascii():
        return path
    try:
        return path.encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise NotFound("the path is not UTF-8: GET /openapi.json lists every path") from error
