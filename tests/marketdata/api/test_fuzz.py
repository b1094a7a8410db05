"""SQL in any parameter gets a documented status below 500 and an answer of the documented shape, and leaves the
database as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest

from marketdata.api import schemas
from marketdata.api.app import ROUTES
from marketdata.api.routing import Route
from tests.marketdata.api.conftest import Api

INJECTIONS = [
    "'", "';--", "' OR '1'='1", "\"; DROP TABLE api_tokens; --", "1; CREATE TABLE injected ()",
    "'; CREATE TABLE injected (); --", "$$", "\\'", "%s",
    "%(symbol)s", "{ticks}",
    "') UNION SELECT token_sha256 FROM api_tokens --", "md_ticks_v1\"", "\x00", "\ud800", "E'\\x27'",
]  # fmt: skip
_USUAL: dict[str, Any] = {
    "symbol": "FUZZ:A", "symbols": "FUZZ:A", "interval": "1h", "resolution": "60", "limit": 3, "sort": "desc",
    "fill": "previous",
    "timeZone": "+05:30", "current": "exclude", "format": "csv", "startTime": 0, "endTime": 2_000_000_000_000,
    "from": 1, "to": 2_000_000_000, "countback": 2, "query": "fuzz", "holder": "me", "ttl_s": 1.5, "state": "indexed",
    "name": "n", "scope": "read", "id": "a", "ts": "2024-01-01T00:00:00Z", "price": "1.5", "size": 2, "ticks": [],
    "block": {"number": 1, "hash": "0x"}, "side": "buy", "seq": 1, "tx": None, "expires_at": None,
    "fromId": 0, "chain": "FUZZ", "below": 9,
}  # fmt: skip
# -- injections ------------------------------------------------------------------------------------------------------

Way = tuple[str | int, ...]
"""Where a value stands: ``("query", "symbol")``, ``("path", "id")``, ``("body", 1, "ticks", 0, "id")``."""

TICK = {name: _USUAL[name] for name in ("ts", "seq", "price", "size", "side", "block")}
TICK |= {"symbol": "FUZZ:SQL", "id": "known", "tx": "0x1"}
_ITEMS = [
    TICK,
    {"retract": {"symbol": "FUZZ:SQL", "block_hash": "0x2"}},
    {"restore": {"symbol": "FUZZ:SQL", "block_hash": "0x2"}},
    {"finalize": {"symbol": "FUZZ:SQL", "block": 1}},
    {"finalize": {"chain": "FUZZ", "block": 1, "ts": 1_700_000_000_000}},
]


_NEEDED_BY = {"sort": ("limit",)}
"""For one of several parameters that exclude each other, the parameters that have a meaning only with it."""
_EXCLUDED_BY = {"symbols": ("symbol",), "fromId": ("startTime", "endTime")}
"""Parameters that the handler refuses beside another one."""


def _sound(name: str, part: dict[str, Any]) -> Any:
    """The usual value, or if the schema has other values, the first of these."""
    if part.get("$ref", "").endswith("/BinanceSymbols"):
        return '["FUZZ:A"]'
    choices = schemas.resolved(part).get("enum", [])
    return choices[0] if choices and _USUAL.get(name) not in choices else _USUAL.get(name, "")


def sound_request(route: Route, way: Way = ()) -> dict[str, Any]:
    """A valid request of ``route`` with all its parameters, except those that exclude the one at ``way``."""
    schema = schemas.definition(route.query)
    query = {name: _sound(name, part) for name, part in schema.get("properties", {}).items() if name != "cursor"}
    branches = [each["required"][0] for each in schema.get("oneOf", [])]
    groups = [(each, *_NEEDED_BY.get(each, ())) for each in branches]
    chosen = [group for group in groups if way[1:] and way[1] in group] or groups
    for group in groups:
        if group != chosen[0]:
            query = {name: value for name, value in query.items() if name not in group}
    for name, others in _EXCLUDED_BY.items():
        if name in query and any(each in query for each in others):
            left_out = others if way[1:] == (name,) else (name,)
            query = {each: value for each, value in query.items() if each not in left_out}
    return {"query": query, "path": dict.fromkeys(route.parameters, "999"), "body": _sound_bodies(route)}


def _sound_bodies(route: Route) -> list[dict[str, Any]]:
    if route.body is None:
        return []
    schema = schemas.definition(route.body.schema)
    branches = [schemas.resolved(each) for each in schema.get("anyOf", [schema])]
    usual = _USUAL | TICK | {"ticks": _ITEMS, "symbols": ["FUZZ:A", "FUZZ:B"], "chain": "FUZZ"}
    exclusive = [each["required"][0] for each in schema.get("oneOf", [])]
    return [
        {name: usual[name] for name in each["properties"] if name == one or name not in exclusive}
        for each in branches
        for one in exclusive or [""]
    ]


def leaves(value: Any, way: Way = ()) -> Iterator[Way]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if members is None:
        yield way
    for key, each in members or ():
        yield from leaves(each, (*way, key))


def _with(value: Any, way: Way, leaf: Any) -> Any:
    """``value`` with ``leaf`` at ``way``."""
    if not way:
        return leaf
    if isinstance(value, list):
        return [_with(each, way[1:], leaf) if place == way[0] else each for place, each in enumerate(value)]
    return {**value, str(way[0]): _with(value.get(way[0]), way[1:], leaf)}


def ways(route: Route) -> Iterator[Way]:
    known = schemas.definition(route.query).get("properties", {})
    yield from (("query", name) for name in known)
    sound = sound_request(route)
    yield from leaves({"path": sound["path"], "body": sound["body"]})


def _send(api: Api, route: Route, sent: dict[str, Any], which: int) -> int:
    path = route.path
    for name, value in sent["path"].items():
        path = path.replace(f"{{{name}}}", quote(value, safe="", errors="surrogatepass"))
    query = urlencode(sent["query"], errors="surrogatepass")
    raw = json.dumps(sent["body"][which]).encode() if sent["body"] else None
    return api(route.method, f"{path}?{query}" if query else path, raw=raw).status_int


def _census(connection: psycopg.Connection[Any], passed_over: str) -> Any:
    """The state that no request may change: tables, functions, usable tokens, and the ticks of all symbols but one."""
    return connection.execute(
        "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc), "
        "(SELECT count(*) FROM api_tokens WHERE name = 'test' AND revoked_at IS NULL), "
        "(SELECT count(*) FROM md_ticks_v1 WHERE symbol <> %s)",
        (passed_over,),
    ).fetchone()


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", [route for route in ROUTES if any(ways(route))], ids=name_of)
def test_sql_in_a_parameter_changes_nothing(api: Api, admin: psycopg.Connection[Any], route: Route) -> None:
    api.ingest(TICK, {**TICK, "symbol": "FUZZ:A"})
    own = str(TICK["symbol"]) if route.path.startswith("/v1/ingest") else ""
    before = None
    for number, way in enumerate(ways(route)):
        which = int(way[1]) if way[0] == "body" else 0
        sound = sound_request(route, way)
        assert _send(api, route, sound, which) < 300 or (route.method, route.parameters) == ("DELETE", ("id",)), way
        before = before or _census(admin, own)
        for text in INJECTIONS[number % 2 :: 2]:
            assert _send(api, route, _with(sound, way, text), which) < 500, (way, text)
    assert _census(admin, own) == before
    api.get("/ready")
