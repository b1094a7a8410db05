"""Whatever is sent to whichever endpoint: a documented status below 500, an answer of the documented shape, and a
database that is as it was."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marketdata.api import schemas
from marketdata.api.app import ROUTES
from marketdata.api.exchange import JSON, NDJSON
from marketdata.api.route import Route
from tests.marketdata.api.conftest import Api

INJECTIONS = [
    "'", "';--", "' OR '1'='1", "\"; DROP TABLE api_tokens; --", "1; SELECT pg_sleep(9)", "$$", "\\'", "%s",
    "%(symbol)s", "{ticks}",
    "') UNION SELECT token_sha256 FROM api_tokens --", "md_ticks_v1\"", "\x00", "\ud800", "E'\\x27'",
]  # fmt: skip
_USUAL: dict[str, Any] = {
    "symbol": "FUZZ:A", "interval": "1h", "resolution": "60", "limit": 3, "sort": "desc", "fill": "previous",
    "timeZone": "+05:30", "current": "exclude", "format": "csv", "startTime": 1, "endTime": 2_000_000_000_000,
    "from": 1, "to": 2_000_000_000, "countback": 2, "query": "fuzz", "holder": "me", "ttl_s": 1.5, "state": "indexed",
    "name": "n", "scope": "read", "id": "a", "ts": "2024-01-01T00:00:00Z", "price": "1.5", "size": 2, "ticks": [],
    "block": {"number": 1, "hash": "0x"}, "side": "buy", "seq": 1, "tx": None, "expires_at": None,
}  # fmt: skip
_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.sampled_from(INJECTIONS),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(sorted(_USUAL)), inner, max_size=3)
    ),
    max_leaves=6,
)


def _object(names: list[str], odd: st.SearchStrategy[Any], required: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Mostly the usual value, now and then another one; what is required is mostly there."""
    values = {name: st.one_of(st.just(_USUAL.get(name, "x")), st.just(_USUAL.get(name, "x")), odd) for name in names}
    full = st.fixed_dictionaries(
        {name: values[name] for name in required},
        optional={name: values[name] for name in names if name not in required},
    )
    return st.one_of(full, full, full, st.fixed_dictionaries({}, optional=values))


def _queries(route: Route) -> st.SearchStrategy[str]:
    schema = schemas.definition(route.query)
    odd = st.one_of(st.sampled_from(INJECTIONS), st.text(max_size=6), st.integers().map(str))
    fields = _object([*schema.get("properties", {}), "more"], odd, schema.get("required", []))
    return st.one_of(
        fields.map(lambda chosen: urlencode(chosen, errors="surrogatepass")),
        st.binary(max_size=12).map(lambda raw: quote(raw, safe="&=;%")),
    )


def _bodies(route: Route) -> st.SearchStrategy[bytes]:
    assert route.body is not None
    branches = [schemas.resolved(each) for each in schemas.definition(route.body.schema).get("anyOf", [])]
    objects = [
        _object(list(each["properties"]), _JSON, each.get("required", []))
        for each in branches or [schemas.definition(route.body.schema)]
    ]
    batch = st.lists(st.one_of(*objects, _JSON), max_size=4).map(lambda items: {"ticks": items})
    sent = st.one_of(*objects, *([batch] if branches else []), _JSON)
    return st.one_of(sent.map(lambda value: json.dumps(value).encode()), st.binary(max_size=20))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_sent(api: Api, route: Route, data: st.DataObject) -> None:
    path = route.path
    for name in route.parameters:
        value = data.draw(
            st.one_of(st.just("999"), st.sampled_from(INJECTIONS), st.text("abc/ü\x00\u2028", min_size=1))
        )
        path = path.replace(f"{{{name}}}", quote(value.replace("/", "-"), safe="", errors="surrogatepass") or "x")
    query = data.draw(_queries(route))
    raw, headers = None, {}
    if route.body is not None:
        raw = data.draw(_bodies(route))
        headers["Content-Type"] = data.draw(st.sampled_from([JSON, JSON, JSON, NDJSON, "text/plain"]))
    response = api(route.method, f"{path}?{query}" if query else path, raw=raw, headers=headers)
    assert response.status_int < 500, response.text


def test_the_database_is_as_it_was(api: Api, database: str) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "SELECT count(*) FROM api_tokens WHERE name = 'test' AND revoked_at IS NULL"
        ).fetchone()
    assert row == (2,)
    api.get("/ready")
