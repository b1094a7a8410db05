"""Generates the OpenAPI 3.1 description from the route table, the schemas and the table of problem types."""

from __future__ import annotations

import http
from collections.abc import Iterable, Mapping
from typing import Any

from cardapp import __version__
from cardapp.web import schemas
from cardapp.web.failures import problem_types
from cardapp.web.http import JSON, PROBLEM
from cardapp.web.problem_codes import DESCRIBED
from cardapp.web.routing import Route

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def describe(routes: Iterable[Route], websockets: Mapping[str, Any]) -> dict[str, Any]:
    """The complete description. A problem's ``type`` refers to ``x-problem-types``, ``code`` to ``x-problem-codes``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DIALECT,
        "info": {
            "title": "Card application",
            "version": __version__,
            "description": "State, navigation and replayed debugger checkpoints of one card. There is no login: the "
            "service listens only on loopback addresses and a private Unix socket, admits its own account and root, "
            "and refuses requests from pages of other origins.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: _with_local_references(schema) for name, (_, schema) in schemas.definitions().items()}
        },
        "x-websockets": websockets,
        "x-problem-types": problem_types(),
        "x-problem-codes": _problem_codes(),
    }


def _problem_codes() -> dict[str, str]:
    """What each code means. The code of a class of errors has the description of the class."""
    classes = {code: kind["description"] for code, kind in problem_types().items()}
    return dict(sorted((classes | DESCRIBED).items()))


def _operation(route: Route) -> dict[str, Any]:
    in_path: dict[str, Any] = {"type": "string"} if route.parameter is None else _reference(route.parameter)
    parameters = [_parameter("path", name, in_path, required=True) for name in route.parameters]
    if route.query is not None:
        query = schemas.definition(route.query)
        for name, part in query["properties"].items():
            parameters.append(_parameter("query", name, part, required=name in query.get("required", ())))
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": " ".join((route.handler.__doc__ or "").split()),
    }
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = _request_body(route)
    operation["responses"] = {str(status): _response(route, status) for status in route.statuses()}
    return operation


def _operation_id(route: Route) -> str:
    words = [part.strip("{}") for part in route.path.replace(".", "/").replace("-", "/").split("/") if part != "api"]
    return route.method.lower() + "".join(word[:1].upper() + word[1:] for word in words)


def _parameter(place: str, name: str, schema: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": _with_local_references(schema)}


def _request_body(route: Route) -> dict[str, Any]:
    assert route.body is not None
    content: dict[str, Any] = {}
    for media_type in route.body.media_types:
        if media_type == JSON:
            content[media_type] = {"schema": _reference(route.body.schema)}
        elif media_type.startswith("multipart/"):
            fields = _with_local_references(schemas.definition(route.body.schema))
            fields["properties"] = {"file": {"contentMediaType": "image/png"}, **fields["properties"]}
            content[media_type] = {"schema": {**fields, "required": ["file"]}}
        else:
            content[media_type] = {}
    return {"required": not route.body.optional, "content": content}


def _response(route: Route, status: int) -> dict[str, Any]:
    if status >= 400:
        return {"description": http.HTTPStatus(status).phrase, "content": {PROBLEM: {"schema": _reference("Problem")}}}
    if status == 304:
        return {"description": "Not modified: the client's copy is current"}
    content: dict[str, Any] = {
        kind: {"schema": _reference(route.answer)} if kind == JSON and route.answer else {} for kind in route.produces
    }
    response: dict[str, Any] = {"description": route.summary, "content": content}
    headers = {}
    if status == 201:
        headers["Location"] = {"required": True, "schema": {"type": "string", "format": "uri-reference"}}
    if route.cache != "no-store":
        headers["ETag"] = {"required": True, "schema": {"type": "string"}}
    return response | ({"headers": headers} if headers else {})


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _with_local_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with changed references: they lead to the ``components`` of the description, not to schema files."""

    def rewritten(value: Any) -> Any:
        if isinstance(value, dict) and "$ref" in value:
            rest = {name: rewritten(part) for name, part in value.items() if name != "$ref"}
            return {**rest, **_reference(value["$ref"].rpartition("/")[2])}
        if isinstance(value, dict):
            return {name: rewritten(part) for name, part in value.items()}
        return [rewritten(part) for part in value] if isinstance(value, list) else value

    result: dict[str, Any] = rewritten(dict(schema))
    return result
