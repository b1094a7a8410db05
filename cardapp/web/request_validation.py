"""Makes a :class:`Request` from a WSGI environment; query and body are validated by their schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from cardapp.errors import FieldError, InvalidValue, MalformedJson
from cardapp.schema import decode
from cardapp.web import schemas
from cardapp.web.http import JSON, Request
from cardapp.web.route import Route
from cardapp.web.services import Services

_FAULTS_SHOWN = 100
_PARAMETERS = 50
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def receive(route: Route, services: Services, environ: Mapping[str, Any], path: Mapping[str, str]) -> Request:
    """The validated request; :class:`MalformedJson` or :class:`InvalidValue` otherwise."""
    query = query_of(environ.get("QUERY_STRING", ""), route.query or "NoParameters")
    body: dict[str, Any] = {}
    if route.body is not None and JSON in route.body.media_types:
        body = _decoded(environ["wsgi.input"].read(_length(environ)), optional=route.body.optional)
        checked(route.body.schema, body, "the body")
    return Request(services, path, query, body, environ)


def query_of(text: str, schema: str) -> dict[str, Any]:
    """The query parameters, converted to the types of ``schema``, with its defaults; each name may occur once."""
    properties = schemas.definition(schema)["properties"]
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS)
    except UnicodeDecodeError as error:
        raise InvalidValue("the query string is not percent-encoded UTF-8") from error
    except ValueError as error:
        raise InvalidValue(f"the query string has more than {_PARAMETERS} parameters") from error
    for name, value in pairs:
        if name in found:
            message = "occurs twice in the query"
            raise InvalidValue(f"{name} {message}", errors=(FieldError(f"/{name}", message),))
        found[name] = typed(value, properties.get(name, {}))
    checked(schema, found, "the query")
    return {name: part["default"] for name, part in properties.items() if "default" in part} | found


def typed(value: str, schema: Mapping[str, Any]) -> str | int:
    """A parameter as an integer if its schema requires one; other text is unchanged, so that the schema refuses it."""
    return int(value) if schema.get("type") == "integer" and _INTEGER.fullmatch(value) else value


def checked(schema: str, value: Any, what: str) -> None:
    """Raise :class:`InvalidValue` with all faults of ``value``, at most 100; ``what`` stands for it in the message."""
    faults = schemas.faults(schema, value)
    if faults:
        place = f"{what}, {faults[0].pointer}:" if faults[0].pointer else what
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InvalidValue(f"{place} {faults[0].message}{more}", errors=faults[:_FAULTS_SHOWN])


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
