"""The OpenAPI 3.1 description, derived from the route table, the schemas and the problem types."""

from __future__ import annotations

import http
from collections.abc import Iterable, Mapping
from typing import Any

from marketdata import __version__
from marketdata.api import schemas
from marketdata.api.current_reads import MAX_COUNTER, SENT_ABOUT, VERSION
from marketdata.api.live.websocket import SUBPROTOCOL
from marketdata.api.routing import Route
from marketdata.http.failures import RETRIED, problem_types, statuses_of_codes
from marketdata.http.reply import CSV_TYPE, JSON, NDJSON, PROBLEM
from marketdata.limits import MAX_BODY_BYTES, MAX_CSV_BYTES

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ABOUT = """Ticks and candles, exact and durable. Amounts are decimal strings, never floats. The weak ETag of candles \
and of pages of ticks is made from the symbol's version counter, because a late tick or a reorganisation can change \
any range. That of candles also has the first bucket that is not final. The ETag of summaries, symbols, coverage and \
the data feed is made from the response itself. Streams of ticks have no ETag. Every error but those below `/api/v3` \
is `application/problem+json`; its `type` refers to the page `/problems`, and `x-problem-types` of this document has \
the same. `x-problem-codes` lists the codes of a response. Before a request reaches its path, it may be refused as \
`bad_request`, `headers_too_large`, `unknown_coding`, `not_found`, `method_not_allowed`, `too_large` or `saturated`."""

_VERSION = {
    "name": VERSION,
    "in": "header",
    "required": False,
    "description": SENT_ABOUT,
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_COUNTER},
}

_TAGS = {
    "/v1/udf/": "TradingView's charts",
    "/api/v3/": "Binance's clients",
    "/v1/admin/": "Tokens",
    "/v1/": "Reading",
}
"""By the beginning of a path. The first one that matches applies."""

_LINES = {
    NDJSON: "Each line is an item of a batch.",
    CSV_TYPE: "The first line names the columns, each further line is a tick.",
}
_PACKED = f"""With `Content-Encoding: gzip` it is packed. After unpacking, JSON and NDJSON have at most \
{MAX_BODY_BYTES >> 20} MiB, CSV at most {MAX_CSV_BYTES >> 20} MiB."""

_BEARERS = {
    "read": "A token of scope `read`.",
    "write": "A token of scope `write`.",
    "admin": "The secret of `admin.json`.",
}


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """Returns the OpenAPI document of ``routes``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    components = {name: _inlined(schema) for name, (_, schema) in schemas.definitions().items()}
    components["Problem"]["properties"]["code"]["enum"] = sorted(statuses_of_codes())
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DIALECT,
        "info": {"title": "Market data", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer", "description": about} for name, about in _BEARERS.items()
            },
        },
        "x-problem-types": problem_types(),
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters = [_parameter("path", name, schemas.definition("PathParameters"), True) for name in route.parameters]
    query = schemas.definition(route.query)
    for name in query.get("properties", {}):
        parameters.append(_parameter("query", name, query, name in query.get("required", ())))
    if route.is_read:
        parameters.append(_VERSION)
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "tags": [_tag(route)],
        "summary": route.summary,
        "description": " ".join((route.handler.__doc__ or "").split()),
    }
    if route.scope is not None:
        # The entries of the list are alternatives.
        wanted = ("read", "write") if route.scope == "any" else (route.scope,)
        operation["security"] = [{name: []} for name in wanted]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = _request_body(route)
    if route.websocket is not None:
        # OpenAPI cannot describe WebSocket messages.
        sent, received = map(_reference, route.websocket)
        operation["x-websocket"] = {"subprotocol": SUBPROTOCOL, "client": sent, "service": received}
    operation["responses"] = {str(status): _response(route, status) for status in route.documented()}
    return operation


def _tag(route: Route) -> str:
    """What the operation is for."""
    for start, tag in _TAGS.items():
        if route.path.startswith(start):
            return "Writing" if tag == "Reading" and route.method != "GET" else tag
    return "The service"


def _operation_id(route: Route) -> str:
    words = [part.strip("{}") for part in route.path.replace(".", "/").split("/") if part not in ("", "v1")]
    return route.method.lower() + "".join(word[:1].upper() + word[1:] for word in words)


def _parameter(place: str, name: str, parameters: Mapping[str, Any], is_required: bool) -> dict[str, Any]:
    """``parameters`` is the schema of all parameters at this place. A parameter has an example if the schema has
    one."""
    found = {"name": name, "in": place, "required": is_required, "schema": _inlined(parameters["properties"][name])}
    examples = parameters.get("examples", [{}])[0]
    return found | {"example": examples[name]} if name in examples else found


def _request_body(route: Route) -> dict[str, Any]:
    assert route.body is not None
    content: dict[str, Any] = {}
    for media_type in route.body.media_types:
        # OpenAPI 3.1 cannot express what the lines are.
        about = _LINES.get(media_type)
        lines = {"type": "string", "description": about}
        content[media_type] = {"schema": lines if about else _reference(route.body.schema)}
    body: dict[str, Any] = {"required": True, "content": content}
    return body | {"description": _PACKED} if route.body.accepts_gzip else body


def _response(route: Route, status: int) -> dict[str, Any]:
    phrase = http.HTTPStatus(status).phrase
    if status >= 400:
        shape = route.errors
        content = {shape.media_type: {"schema": _reference(shape.schema)}}
        response: dict[str, Any] = {"description": phrase, "content": content}
        if shape.media_type == PROBLEM:
            codes = route.codes()[status]
            response["description"] += f": {', '.join(f'`{code}`' for code in codes)}"
            response["x-problem-codes"] = codes
        if status in RETRIED:
            response["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
        if status == 415:
            about = "The accepted Content-Encoding, if the request has another one."
            response["headers"] = {"Accept-Encoding": {"description": about, "schema": {"type": "string"}}}
        if status == 401:
            response["headers"] = {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}}
        return response
    if status in (101, 204, 304):
        return {"description": phrase}
    content = {kind.partition(";")[0]: {} for kind in route.produces if kind != JSON}
    if JSON in route.produces:
        content[JSON] = {"schema": _reference(route.answer)} if route.answer else {}
    headers = {name: {"description": about, "schema": {"type": "string"}} for name, about in route.headers}
    if route.revalidated:
        headers["ETag"] = {"schema": {"type": "string"}}
    return {"description": route.summary, "content": content, **({"headers": headers} if headers else {})}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema with references to the components of the OpenAPI document."""

    def converted(value: Any) -> Any:
        if isinstance(value, dict) and "$ref" in value:
            rest = {name: converted(part) for name, part in value.items() if name != "$ref"}
            return {**rest, **_reference(value["$ref"].rpartition("/")[2])}
        if isinstance(value, dict):
            return {name: converted(part) for name, part in value.items()}
        return [converted(part) for part in value] if isinstance(value, list) else value

    result: dict[str, Any] = converted(dict(schema))
    return result
