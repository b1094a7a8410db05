"""From a request to checked values: query parameters against their schemas, and JSON bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from marketdata.api import schemas
from marketdata.errors import FieldError, InvalidValue, MalformedJson, TooLarge, UnsupportedMediaType
from marketdata.http.reply import JSON
from marketdata.limits import MAX_BODY_BYTES
from marketdata.tick import JsonNumber, microseconds

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?utf-8"?\s*', re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=2048)
def query_of(text: str, schema: str) -> Mapping[str, Any]:
    """The query's parameters with the types and the defaults of ``schema``; no name may occur twice.

    Results are cached, since the same queries are sent again and again.
    """
    properties = schemas.definition(schema).get("properties", {})
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=50) if text else []
    except ValueError as error:
        raise InvalidValue("the query string is not percent-encoded UTF-8, or has more than 50 parameters") from error
    for name, value in pairs:
        if name in found:
            message = "occurs twice in the query"
            raise InvalidValue(f"{name[:80]} {message}", errors=(FieldError(schemas.pointer([name]), message),))
        found[name] = _typed(value, properties.get(name, {}))
    if not schemas.accepts(schema, found):
        checked(schema, found, "the query")
    defaults = {name: part["default"] for name, part in properties.items() if "default" in part}
    return MappingProxyType(defaults | found)


def checked(schema: str, value: Any, what: str) -> None:
    """Raise :class:`InvalidValue` with every fault of ``value``, which the message calls ``what``."""
    try:
        faults = schemas.faults(schema, value)
    except RecursionError as error:  # the library nests deeper than the decoder
        raise _too_deep() from error
    if faults:
        place = f"{what}, {faults[0].pointer}:" if faults[0].pointer else what
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InvalidValue(f"{place} {faults[0].message}{more}", errors=faults)


def media_type(environ: Mapping[str, Any], allowed: Iterable[str]) -> str:
    """The body's media type, which must be allowed, with charset UTF-8 and without Content-Encoding."""
    sent, _, parameters = environ.get("CONTENT_TYPE", "").partition(";")
    name: str = sent.strip().lower()
    if name not in allowed or (parameters and not _CHARSET.fullmatch(";" + parameters)):
        raise UnsupportedMediaType(f"send Content-Type: {' or '.join(allowed)}, in UTF-8")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise UnsupportedMediaType("send the body without a Content-Encoding")
    return name


def raw_body(environ: Mapping[str, Any]) -> bytes:
    """The body as bytes; :class:`TooLarge` for more than :data:`MAX_BODY_BYTES`."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length > MAX_BODY_BYTES:
        raise TooLarge.body(MAX_BODY_BYTES)
    body: bytes = environ["wsgi.input"].read(length)
    return body


def json_body(environ: Mapping[str, Any], schema: str) -> dict[str, Any]:
    """A JSON body that is valid by ``schema``; no object may have a name twice."""
    media_type(environ, (JSON,))
    value = decoded(raw_body(environ))
    checked(schema, value, "the body")
    found: dict[str, Any] = value
    return found


def decoded(raw: bytes, *, for_ingest: bool = False) -> Any:
    """A JSON value. Numbers with a point or an exponent become :class:`Decimal`, and so do integers of thousands of
    digits, which Python does not convert to an ``int``.

    ``for_ingest`` is for speed: they become :class:`marketdata.tick.JsonNumber`, and names are not checked for
    occurring twice.
    """
    try:
        text = raw.decode("utf-8")
        value = _ingest_decoded(text) if for_ingest else _STRICT.decode(text)
    except UnicodeDecodeError as error:
        raise MalformedJson(f"the body is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedJson(f"the body is not JSON: {error.msg} ({place})") from error
    except RecursionError as error:
        raise _too_deep() from error
    except _NotJson as error:
        raise MalformedJson(f"the body is not JSON: {error}") from error
    return value


def _ingest_decoded(text: str) -> Any:
    """The C decoder converts integers itself, which is faster; it fails for those of thousands of digits."""
    try:
        return _INGEST.decode(text)
    except (json.JSONDecodeError, _NotJson):
        raise
    except ValueError:
        return _INGEST_LONG.decode(text)


def _too_deep() -> MalformedJson:
    return MalformedJson("the body has too many levels of nesting")


def instant(value: Any) -> int:
    """A time that is valid by the schema ``Instant``, in microseconds since 1970."""
    return microseconds(value)


def _typed(value: str, schema: Mapping[str, Any]) -> str | int:
    """An integer where the schema allows one and the text is one; otherwise the text, for the schema to judge."""
    wanted = schemas.resolved(dict(schema)).get("type", ())
    return int(value) if "integer" in wanted and _INTEGER.fullmatch(value) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse repeated names: two JSON parsers could read such a body as two different requests."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NotJson("a name occurs twice in one object")
    return found


class _NotJson(ValueError):
    """Python's decoder accepts it, this service does not."""


def _refuse(name: str) -> NoReturn:
    raise _NotJson(f"{name} is not a JSON value")


def _integer_or_text(text: str) -> int | JsonNumber:
    try:
        return int(text)
    except ValueError:
        return JsonNumber(text)


def _integer_or_decimal(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


def _decimal(text: str) -> Decimal:
    """With an exponent that :class:`Decimal` cannot hold, infinity or 0: both are out of every range, or in it."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal(0) if "e-" in text.lower() else Decimal("-Infinity" if text[0] == "-" else "Infinity")


_INGEST = json.JSONDecoder(parse_float=JsonNumber, parse_constant=_refuse)
_INGEST_LONG = json.JSONDecoder(parse_float=JsonNumber, parse_int=_integer_or_text, parse_constant=_refuse)
_STRICT = json.JSONDecoder(
    parse_float=_decimal, parse_int=_integer_or_decimal, parse_constant=_refuse, object_pairs_hook=_unique
)
