"""The rows of the route table, and the WSGI application that serves them.

For each request, bottle finds the route, the schemas validate query and body, and the handler's reply is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

import bottle

from cardapp.errors import FieldError, InvalidValue, MalformedJson, NotFound
from cardapp.schema import decode
from cardapp.web import schemas
from cardapp.web.failures import MethodNotAllowed, reporting
from cardapp.web.http import JSON, Reply, Request, StartResponse, WsgiApp, revalidated, send
from cardapp.web.services import Services

Handler = Callable[[Request], Reply]
Cache = Literal["no-cache", "no-store", "immutable"]

CACHE_CONTROL: dict[Cache, str] = {
    "no-cache": "no-cache",
    "no-store": "no-store",
    "immutable": "private, max-age=31536000, immutable",
}

_MAX_PARAMETERS = 50
_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Body:
    """The request body of a route. ``schema`` names the schema of the JSON object; with ``optional`` a missing body is
    ``{}``. For other ``media_types`` the handler reads the body, and ``schema`` describes the fields of the form.
    """

    schema: str
    optional: bool = False
    media_types: tuple[str, ...] = (JSON,)


@dataclass(frozen=True)
class Route:
    """One operation: everything that routing, validation and the API description need.

    ``path`` contains its parameters in braces. ``answer`` names the schema of a successful JSON response. ``problems``
    lists the error statuses of this route, without those of the gate and of validation, which every route has. A route
    with ``ignores_query`` does not read the query, because browsers and pages may add one, for example to load a file
    again. ``parameter`` names the schema of the path's parameter. For a value that violates the schema, the answer is
    404.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: str | None = None
    status: int = 200
    produces: tuple[str, ...] = (JSON,)
    body: Body | None = None
    query: str | None = None
    parameter: str | None = None
    ignores_query: bool = False
    problems: tuple[int, ...] = ()
    cache: Cache = "no-store"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path's parameters."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    def statuses(self) -> tuple[int, ...]:
        """Every documented status, in ascending order."""
        # 500 and 503, because every route reads the stored state, and the disk may fail.
        found = {self.status, 403, 421, 500, 503, *self.problems}
        if self.cache == "no-cache" or self.cache == "immutable":
            found.add(304)
        if self.parameters:
            found.add(404)
        if self.body is not None:
            found |= {400, 413, 415, 422}
        if not self.ignores_query:
            found.add(422)  # for unknown query parameters
        return tuple(sorted(found))


def routed(routes: Iterable[Route], services: Services) -> WsgiApp:
    """The WSGI application that serves ``routes``. Every error becomes a problem response."""
    router, fixed = bottle.Router(), dict[str, set[str]]()
    for route in routes:
        router.add(route.path.replace("{", "<").replace("}", ">"), route.method, route)
        if not route.parameters:
            fixed.setdefault(route.path, set()).add(route.method)

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        route, path = _match(router, fixed, environ)
        reply = _answer(route, receive(route, services, environ, path), environ.get("HTTP_IF_NONE_MATCH"))
        return send(reply, start_response, bare=environ["REQUEST_METHOD"] == "HEAD")

    return reporting(app)


def _match(
    router: bottle.Router, fixed: Mapping[str, set[str]], environ: Mapping[str, Any]
) -> tuple[Route, dict[str, str]]:
    """The route and its path parameters. ``fixed`` has the methods of each path without parameters.

    Raises :class:`NotFound` or :class:`MethodNotAllowed`.
    """
    method, path = environ["REQUEST_METHOD"], _path(environ)
    # Bottle would try paths with parameters next: /api/annotations/show as the annotation "show".
    if path in fixed and ("GET" if method == "HEAD" else method) not in fixed[path]:
        raise _not_allowed(method, path, fixed[path])
    try:
        found: tuple[Route, dict[str, str]] = router.match({"REQUEST_METHOD": method, "PATH_INFO": path})
    except bottle.HTTPError as error:
        if error.status_code != 405:
            raise _no_resource(path) from error
        raise _not_allowed(method, path, set(error.get_header("Allow").split(","))) from error
    return found


def _not_allowed(method: str, path: str, allowed: set[str]) -> MethodNotAllowed:
    allow = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
    return MethodNotAllowed(f"{path} does not support {method[:40]}; it supports {allow}", allow)


def _no_resource(path: str) -> NotFound:
    return NotFound(f"there is no resource {path[:200]!r}; GET /api/openapi.json lists all paths")


def _path(environ: Mapping[str, Any]) -> str:
    """The path as text. WSGI passes its decoded bytes as latin-1. Raises :class:`NotFound` if they are not UTF-8."""
    try:
        path: str = environ["PATH_INFO"].encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise NotFound("the path is not UTF-8; GET /api/openapi.json lists all paths") from error
    return path or "/"


def _answer(route: Route, request: Request, if_none_match: str | None) -> Reply:
    reply = route.handler(request).with_headers(("Cache-Control", CACHE_CONTROL[route.cache]))
    return reply if route.cache == "no-store" else revalidated(reply, if_none_match)


def receive(route: Route, services: Services, environ: Mapping[str, Any], path: Mapping[str, str]) -> Request:
    """The validated request. Raises :class:`NotFound`, :class:`MalformedJson` or :class:`InvalidValue`."""
    if route.parameter is not None and any(schemas.faults(route.parameter, value) for value in path.values()):
        raise _no_resource(_path(environ))
    text = "" if route.ignores_query else environ.get("QUERY_STRING", "")
    query = query_of(text, route.query or "NoParameters")
    body: dict[str, Any] = {}
    if route.body is not None and JSON in route.body.media_types:
        body = _decoded(environ["wsgi.input"].read(_length(environ)), optional=route.body.optional)
        schemas.check(route.body.schema, body, "the body")
    return Request(services, path, query, body, environ)


def query_of(text: str, schema: str) -> dict[str, Any]:
    """The query parameters, converted to the types of ``schema`` and completed by its defaults. A name may occur
    once."""
    properties = schemas.definition(schema)["properties"]
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except UnicodeDecodeError as error:
        raise InvalidValue("the query string is not percent-encoded UTF-8") from error
    except ValueError as error:
        raise InvalidValue(f"the query string has more than {_MAX_PARAMETERS} parameters") from error
    for name, value in pairs:
        if name in found:
            message = "occurs twice in the query"
            raise InvalidValue(f"{name} {message}", errors=(FieldError(f"/{name}", message),))
        found[name] = typed(value, properties.get(name, {}))
    schemas.check(schema, found, "the query")
    return {name: part["default"] for name, part in properties.items() if "default" in part} | found


def typed(value: str, schema: Mapping[str, Any]) -> str | int:
    """Convert a parameter to an integer if its schema requires one. A text that is not an integer is returned
    unchanged. The check of the schema then refuses it."""
    return int(value) if schema.get("type") == "integer" and _INTEGER.fullmatch(value) else value


def _length(environ: Mapping[str, Any]) -> int:
    return int(environ.get("CONTENT_LENGTH") or 0)


def _decoded(raw: bytes, *, optional: bool) -> dict[str, Any]:
    if optional and not raw:
        return {}
    if not raw.strip():
        raise MalformedJson("the body is empty: send a JSON object")
    try:
        value = decode(raw)
    except ValueError as error:
        raise MalformedJson(f"the body {error}") from error
    if not isinstance(value, dict):
        raise MalformedJson("the body is not a JSON object")
    return value
