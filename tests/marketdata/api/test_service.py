"""The service around the data: health, metrics, the description, the administration of tokens, TradingView's feed."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from typing import Any

import jsonschema
import pytest

from marketdata.api import schemas
from marketdata.api.app import ROUTES
from marketdata.settings import Settings
from tests.marketdata.api.conftest import Api, Make, running_api

START = 1_700_000_040


@pytest.fixture(scope="module")
def bars(service: Any, read_token: str, write_token: str) -> str:
    """A symbol with a tick in every other of six minutes."""
    Api(service, read_token, write_token).ingest(
        *(
            {"symbol": "UDF:A", "id": str(n), "ts": (START + 120 * n) * 1000, "price": f"1.{n}5", "size": "3"}
            for n in range(3)
        )
    )
    return "UDF:A"


def test_a_ready_service_says_so(api: Api) -> None:
    assert api.get("/healthz")["status"] == "alive"
    ready = api.get("/ready")
    assert ready.pop("checked_s_ago") < 60
    assert ready == {
        "ready": True, "ticks_table": "md_ticks_v1", "candles_function": "md_candles_v1", "replicas": [], "nodes": [],
        "graphql": None,
    }  # fmt: skip


def test_metrics_are_well_formed(api: Api) -> None:
    api.ingest({"symbol": "M:A", "id": "1", "ts": 10**12, "price": "1", "size": "1"})
    text = api("GET", "/metrics", status=200).text
    line = re.compile(r'# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? [0-9.e+-]+')
    assert all(line.fullmatch(each) for each in text.splitlines())
    assert re.search(r'marketdata_ingested_total\{outcome="created"\} [1-9]', text)
    assert 'marketdata_request_seconds_bucket{method="POST",path="/v1/ingest/tick",le="+Inf"}' in text
    assert "marketdata_pool_connections" in text
    names = [each.split()[2] for each in text.splitlines() if each.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_metrics_can_be_switched_off(service_settings: Settings) -> None:
    with running_api(dataclasses.replace(service_settings, has_metrics=False)) as without:
        problem = without.problem("GET", "/metrics", status=404, code="not_found")
        assert problem["detail"] == "this service shows no metrics: MARKET_METRICS is off"


def test_the_backfill_lag_counts_from_the_end_of_the_last_indexed_range(api: Api) -> None:
    for state, ago in (("indexed", 7200), ("indexed", 3600), ("failed", 60)):
        end = round(time.time() - ago) * 1000
        body = {"symbol": "M:LAG", "from": end - 1000, "to": end, "state": state}
        api("PUT", "/v1/coverage", body, status=200)
    text = api("GET", "/metrics", status=200).text
    found = re.search(r'^marketdata_backfill_lag_seconds\{symbol="M:LAG"\} ([0-9.]+)$', text, re.MULTILINE)
    assert found is not None
    assert 3599 < float(found[1]) < 3700


def test_unknown_paths_and_methods_are_refused(api: Api) -> None:
    api.problem("GET", "/v1/nothing", status=404, code="not_found")
    api.problem("GET", "/v1/admin/tokens/", status=404, code="not_found")
    api.problem("GET", "/%ff", status=404, code="not_found")
    response = api("PATCH", "/v1/admin/tokens", status=405)
    assert response.headers["Allow"] == "GET, HEAD, POST"


def test_head_is_get_without_its_body(api: Api, bars: str) -> None:
    for path in ("/healthz", f"/v1/chart?symbol={bars}&interval=1m"):
        response = api("HEAD", path, status=200)
        assert response.body == b""
        assert int(response.headers["Content-Length"]) > 0


def test_the_api_description_is_valid_and_complete(api: Api) -> None:
    document = api.get("/openapi.json")
    assert document["openapi"].startswith("3.1")
    documented = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    assert documented == {(route.method, route.path) for route in ROUTES}
    names = [operation["operationId"] for each in document["paths"].values() for operation in each.values()]
    assert len(names) == len(set(names))
    for reference in re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]
    for file in schemas.files().values():
        jsonschema.Draft202012Validator.check_schema(file)
    used = json.dumps([document["paths"], [value for _, value in schemas.definitions().values()]])
    for name in set(schemas.definitions()) - {route.query for route in ROUTES} - {"PathParameters"}:
        assert f'/{name}"' in used, f"{name} is used nowhere"


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_works_from_its_creation_to_its_revocation(api: Api) -> None:
    asked = {"name": "ingestor", "scope": "write", "expires_at": "2999-01-01T00:00:00Z"}
    made = api("POST", "/v1/admin/tokens", asked, status=201).json
    bearer = f"Bearer {made['token']}"
    tick = {"symbol": "T:A", "id": "1", "ts": 10**12, "price": "1", "size": "1"}
    api("POST", "/v1/ingest/tick", tick, authorization=bearer, status=201)
    listed = {each["id"]: each for each in api.get("/v1/admin/tokens")["tokens"]}
    assert listed[made["id"]]["hint"] == made["token"][:7] + "…"
    assert made["token"] not in json.dumps(listed)
    revoked = api("DELETE", f"/v1/admin/tokens/{made['id']}", status=200).json
    assert revoked["revoked_at"] is not None
    api.problem("POST", "/v1/ingest/tick", tick, authorization=bearer, status=401, code="invalid_token")
    assert api("DELETE", f"/v1/admin/tokens/{made['id']}", status=200).json == revoked


def test_an_invalid_token_request_is_refused(api: Api) -> None:
    good = {"name": "a", "scope": "read"}
    for body in (
        {}, good | {"scope": "admin"}, good | {"name": ""}, good | {"name": "a\nb"}, good | {"name": "\ud800"},
        good | {"expires_at": "soon"}, good | {"expires_at": 1}, good | {"more": 1},
    ):  # fmt: skip
        api.problem("POST", "/v1/admin/tokens", body, status=422, code="invalid_value")
    problem = api.problem(
        "POST", "/v1/admin/tokens", good | {"expires_at": "tomorrow"}, status=422, code="invalid_value"
    )
    assert problem["detail"].startswith("the body, /expires_at: must be a time: RFC 3339")
    raw = b'{"name": "a", "scope": "read", "scope": "write"}'
    api.problem("POST", "/v1/admin/tokens", raw=raw, status=400, code="malformed_json")


def test_an_unknown_token_is_not_found(api: Api) -> None:
    for identity in ("0", "x", "9" * 30, "1%27OR%271"):
        api.problem("DELETE", f"/v1/admin/tokens/{identity}", status=404, code="unknown_token")


# -- TradingView's feed ----------------------------------------------------------------------------------------------


def test_udf_describes_a_symbol(api: Api, bars: str) -> None:
    found = api.get(f"/v1/udf/symbols?symbol={bars}")
    assert (found["ticker"], found["exchange"], found["pricescale"], found["minmov"]) == (bars, "UDF", 100, 1)
    problem = api.problem("GET", "/v1/udf/symbols?symbol=NO:SUCH", status=404, code="unknown_symbol")
    assert problem["s"] == "error"
    assert problem["errmsg"] == problem["detail"]


def test_the_price_scale_keeps_five_digits_of_every_magnitude(api: Api, tick: Make) -> None:
    for at, (price, decimals) in enumerate((
        ("2500.25", 2), ("7", 0), ("0.1234567890123456789", 16), ("0.000000000000000123456789", 20),
        (f"0.{'0' * 15}1", 16), (f"0.{'0' * 28}12", 30),
    )):  # fmt: skip
        symbol = f"UDFSCALE:{at}"
        api.ingest(tick(symbol=symbol, id="1", price=price))
        assert api.get(f"/v1/udf/symbols?symbol={symbol}")["pricescale"] == 10**decimals, price


def test_udf_finds_symbols_by_name_and_exchange(api: Api, bars: str) -> None:
    assert [each["ticker"] for each in api.get("/v1/udf/search?query=udf:&type=&exchange=&limit=10")] == [bars]
    assert api.get("/v1/udf/search?query=udf:&exchange=OTHER") == []


def test_udf_history_has_the_candles_of_its_range(api: Api, bars: str) -> None:
    path = f"/v1/udf/history?symbol={bars}&resolution=1"
    every = api("GET", f"{path}&from={START}&to={START + 241}", status=200)
    assert every.json == {
        "s": "ok", "t": [START, START + 120, START + 240], "o": [1.05, 1.15, 1.25], "h": [1.05, 1.15, 1.25],
        "l": [1.05, 1.15, 1.25], "c": [1.05, 1.15, 1.25], "v": [3, 3, 3],
    }  # fmt: skip
    assert '"o":[1.05,' in every.text  # numbers, in the database's digits
    assert api.get(f"{path}&from={START}&to={START + 240}")["t"] == [START, START + 120]  # `to` is exclusive
    assert api.get(f"{path}&from={START + 240}&to={START + 300}&countback=2")["t"] == [START + 120, START + 240]
    assert api.get(f"{path}&from={START + 300}&to={START + 600}") == {"s": "no_data", "nextTime": START + 240}
    assert api.get(f"{path}&from=0&to={START}") == {"s": "no_data"}
    assert api.get(f"{path}&from=0&to={START}&countback=5") == {"s": "no_data"}
    api.problem("GET", f"{path}&to=5", status=422, code="invalid_value")
