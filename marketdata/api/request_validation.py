"""Checks query parameters and JSON bodies against their schemas and converts them to values."""

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
from marketdata.api.content_coding import coding_of, whole
from marketdata.errors import FieldError, InvalidValue, MalformedJson, UnsupportedMediaType
from marketdata.http.reply import JSON
from marketdata.limits import MAX_BODY_BYTES
from marketdata.tick import JsonNumber, microseconds

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?utf-8"?\s*', re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=2048)
def query_of(text: str, schema: str) -> Mapping[str, Any]:
    """Returns the parameters of the query string ``text``, with the types and the defaults of ``schema``.
    Raises :class:`InvalidValue` if a name occurs twice or a value is invalid.

    Results are cached, because clients repeat their queries.
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
    """Raise :class:`InvalidValue` with all faults of ``value``. ``what`` names the value in the message."""
    try:
        faults = schemas.faults(schema, value)
    except RecursionError as error:  # the library needs more stack frames per level than the decoder
        raise _too_deep() from error
    if faults:
        place = f"{what}, {faults[0].pointer}:" if faults[0].pointer else what
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InvalidValue(f"{place} {faults[0].message}{more}", errors=faults)


def media_type(environ: Mapping[str, Any], allowed: Iterable[str], *, accepts_gzip: bool = False) -> str:
    """Returns the body's media type. Raises :class:`UnsupportedMediaType` if it is not allowed, or if the body has
    another charset than UTF-8 or a Content-Encoding that is not accepted."""
    sent, _, parameters = environ.get("CONTENT_TYPE", "").partition(";")
    name: str = sent.strip().lower()
    if name not in allowed or (parameters and not _CHARSET.fullmatch(";" + parameters)):
        raise UnsupportedMediaType(f"send Content-Type: {' or '.join(allowed)}, in UTF-8")
    coding_of(environ, accepts_gzip)
    return name


def json_body(environ: Mapping[str, Any], schema: str) -> dict[str, Any]:
    """Returns the JSON body, which must be valid by ``schema``. No object may contain a name twice."""
    media_type(environ, (JSON,))
    value = decoded(whole(environ, MAX_BODY_BYTES))
    checked(schema, value, "the body")
    found: dict[str, Any] = value
    return found


def decoded(raw: bytes, *, for_ingest: bool = False) -> Any:
    """Decodes a JSON value. Numbers with a point or an exponent become :class:`Decimal`. So do integers of thousands of
    digits, which Python does not convert to an ``int``.

    ``for_ingest`` is faster: all these numbers become :class:`marketdata.tick.JsonNumber` instead, and an object may
    contain a name twice.
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
    """Decode with the integer conversion that is built into the decoder. It is faster than a function in Python, but
    raises ValueError for thousands of digits."""
    try:
        return _INGEST.decode(text)
    except (json.JSONDecodeError, _NotJson):
        raise
    except ValueError:
        return _INGEST_LONG.decode(text)


def _too_deep() -> MalformedJson:
    return MalformedJson("the body has too many levels of nesting")


def instant(value: Any) -> int:
    """Converts a time that is valid by the schema ``Instant`` to microseconds since 1970."""
    return microseconds(value)


def _typed(value: str, schema: Mapping[str, Any]) -> str | int:
    """Returns ``value`` as an integer if the schema allows integers and ``value`` has the form of one, otherwise as
    text. The other rules of the schema are checked later."""
    wanted = schemas.resolved(dict(schema)).get("type", ())
    return int(value) if "integer" in wanted and _INTEGER.fullmatch(value) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse repeated names, because two JSON parsers could read such a body as different requests."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NotJson("a name occurs twice in one object")
    return found


class _NotJson(ValueError):
    """The text is accepted by Python's decoder, but not by this service."""


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
    """Converts a number. If :class:`Decimal` cannot hold the exponent, the result is infinity or 0. The schemas accept
    or refuse this result as they would the number itself."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal(0) if "e-" in text.lower() else Decimal("-Infinity" if text[0] == "-" else "Infinity")


_INGEST = json.JSONDecoder(parse_float=JsonNumber, parse_constant=_refuse)
_INGEST_LONG = json.JSONDecoder(parse_float=JsonNumber, parse_int=_integer_or_text, parse_constant=_refuse)
_STRICT = json.JSONDecoder(
    parse_float=_decimal, parse_int=_integer_or_decimal, parse_constant=_refuse, object_pairs_hook=_unique
)
