"""DATABASE_READ_URL with a streaming replica: its lag is reported, the primary is read while the replica cannot be
read, and a read that knows of a write is never older."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from marketdata.api.serve import Times
from marketdata.postgres.cluster import Cluster
from marketdata.settings import Settings
from tests.marketdata.api.conftest import Api, Make, eventually, running_api
from tests.marketdata.api.standby import Standby, private_cluster, running_standby

pytestmark = pytest.mark.functional

INGEST = "/v1/ingest/tick"
LIMIT = 600.0
"""Some tests pause the replica for longer than the default of MARKET_READ_LAG_S."""
PATIENT = 30.0
"""Seconds that a read waits for the replica, in tests of that."""
READS = ("/v1/chart?symbol={}&interval=1m", "/v1/ticks?symbol={}", "/v1/ticks?symbol={}&format=csv",
         "/v1/summary?symbol={}", "/v1/udf/history?symbol={}&resolution=1&from=0&to=2000000000",
         "/v1/udf/quotes?symbols={}", "/api/v3/trades?symbol={}", "/api/v3/ticker/price?symbol={}",
         "/api/v3/exchangeInfo?symbol={}")  # fmt: skip
LISTS = ("/v1/symbols", "/v1/summary?sort=newest", "/v1/udf/search?query=", "/api/v3/ticker/price")


@pytest.fixture(scope="module")
def primary() -> Iterator[tuple[Cluster, Settings]]:
    with private_cluster() as found:
        yield found


@pytest.fixture(scope="module")
def standby(primary: tuple[Cluster, Settings]) -> Iterator[Standby]:
    with running_standby(primary[0]) as found:
        yield found


@pytest.fixture
def times() -> Times:
    return Times(measure=0.1, check_stall=1.0)


@pytest.fixture
def api(primary: tuple[Cluster, Settings], standby: Standby, times: Times) -> Iterator[Api]:
    settings = dataclasses.replace(primary[1], database_read_url=standby.url, read_lag_s=LIMIT)
    with running_api(settings, times) as found:
        eventually(lambda: bool(shown_replica(found) == USABLE))
        yield found


@pytest.fixture(scope="module")
def writer(primary: tuple[Cluster, Settings]) -> Iterator[Api]:
    """Another process, which writes. Its reads go to the primary."""
    with running_api(primary[1]) as found:
        yield found


def shown_replica(api: Api) -> Any:
    (found,) = api.get("/ready")["replicas"]
    return {name: value for name, value in found.items() if name != "host"}


USABLE = {"state": "usable", "reason": None, "lag_s": 0.0, "lag_bytes": 0}


def metric(api: Api, name: str) -> float | None:
    found = re.search(rf"^{name}{{[^}}]*}} (\S+)$", api("GET", "/metrics", status=200).text, re.MULTILINE)
    return None if found is None else float(found[1])


def written(api: Api, *ticks: dict[str, Any]) -> dict[str, str]:
    """Store ticks. Returns the header for later reads."""
    response = api("POST", INGEST, {"ticks": list(ticks)}, status=200)
    assert response.json["accepted"] == len(ticks)
    return {"Marketdata-Version": response.headers["Marketdata-Version"]}


def shown(api: Api, path: str, headers: dict[str, str] | None = None) -> str:
    """The body, without the time of the request."""
    response = api("GET", path, headers=headers or {})
    return re.sub(r'"(as_of|serverTime|openTime|closeTime)":\d+', "", response.text)


def replayed(api: Api, path: str) -> None:
    eventually(lambda: api("GET", path).status_int == 200)


def count(api: Api, symbol: str, **options: Any) -> int:
    return len(api.get(f"/v1/ticks?symbol={symbol}", **options)["ticks"])


# -- its state ---------------------------------------------------------------------------------------------------------


def test_the_lag_is_that_of_the_data(api: Api, writer: Api, standby: Standby, tick: Make) -> None:
    with standby.paused():
        written(writer, tick(symbol="LAG:A"))
        eventually(lambda: bool(shown_replica(api)["lag_s"]))
        first = shown_replica(api)
        assert first["state"] == "usable"
        assert first["lag_bytes"] > 0
        eventually(lambda: bool(shown_replica(api)["lag_s"] > first["lag_s"]))
        for name in ("lag_s", "lag_bytes"):
            of_metric = metric(api, f"marketdata_replica_{name.replace('_s', '_seconds')}")
            assert of_metric is not None
            assert of_metric >= first[name]
        api("GET", "/v1/ticks?symbol=LAG:A", status=404)
    eventually(lambda: bool(shown_replica(api) == USABLE))
    assert metric(api, "marketdata_replica_lag_seconds") == 0
    assert metric(api, "marketdata_replica_usable") == 1
    assert count(api, "LAG:A") == 1


def test_a_stopped_replica_is_not_read(api: Api, standby: Standby, tick: Make, writer: Api) -> None:
    standby.stop()
    try:
        written(writer, tick(symbol="LAG:B"))
        for path in (*(path.format("LAG:B") for path in READS), *LISTS):
            api("GET", path, status=200)
        eventually(lambda: bool(shown_replica(api)["state"] == "database_unavailable"))
        assert metric(api, "marketdata_replica_usable") == 0
        assert metric(api, "marketdata_replica_lag_seconds") is None
        assert metric(api, "marketdata_replica_lag_bytes") is None
    finally:
        standby.start()
    eventually(lambda: bool(shown_replica(api) == USABLE))


# -- reads that are never older than a known write --------------------------------------------------------------------


def test_a_read_that_sends_the_version_is_never_older(api: Api, writer: Api, standby: Standby, tick: Make) -> None:
    now = int(time.time() * 1000)
    named = {f"READ:{number}-X": path for number, path in enumerate(READS)}
    for symbol, path in named.items():
        written(writer, tick(symbol=symbol, price="1", ts=now))
        replayed(api, path.format(symbol))
    with standby.paused():
        for symbol, path in named.items():
            path = path.format(symbol)
            old = shown(api, path)  # the answer is cached now, if it can be cached
            header = written(writer, tick(symbol=symbol, price="2.25", ts=now + 1, id="b"))
            new = shown(writer, path)
            assert old != new
            assert shown(api, path, header) == new
            assert shown(api, path) == old  # without the header, the replica may lag behind
        for number, path in enumerate((*READS[:2], "/v1/coverage?symbol={}")):
            symbol = f"NEW:{number}-X"
            header = written(writer, tick(symbol=symbol))
            assert shown(api, path.format(symbol), header) == shown(writer, path.format(symbol))
        for path in LISTS:
            assert shown(api, path, header) == shown(writer, path)
            assert symbol in shown(api, path, header)


@pytest.mark.parametrize("path", ["/v1/chart?symbol=TAG:A&interval=1M", "/v1/ticks?symbol=TAG:A"])
def test_an_etag_holds_the_version(api: Api, writer: Api, standby: Standby, tick: Make, path: str) -> None:
    name = f"{len(path)}"
    written(writer, tick(symbol="TAG:A", id=name))
    eventually(lambda: shown(api, path) == shown(writer, path))
    old = api("GET", path, status=200).headers["ETag"]
    with standby.paused():
        header = written(writer, tick(symbol="TAG:A", price="9", id=f"{name}-later"))
        api("GET", path, headers={"If-None-Match": old}, status=304)  # the client knows of nothing newer
        response = api("GET", path, headers={"If-None-Match": old} | header, status=200)
        assert '"9"' in response.text
        new = response.headers["ETag"]
        api("GET", path, headers={"If-None-Match": new}, status=304)
        api("GET", path, headers={"If-None-Match": f"{old}, {new}"}, status=304)
        written(writer, tick(symbol="TAG:A", price="11", id=f"{name}-last"))
        assert '"11"' in api("GET", path, headers={"If-None-Match": new}, status=200).text


def test_an_etag_holds_the_finality(api: Api, writer: Api, standby: Standby, tick: Make) -> None:
    """A report about a chain changes the finality of its symbols without their counters."""
    path = "/v1/chart?symbol=FIN:A&interval=1m"
    written(writer, tick(symbol="FIN:A", block={"number": 7, "hash": "0x07"}))
    replayed(api, path)
    with standby.paused():
        writer.ingest({"finalize": {"chain": "FIN", "block": 9, "ts": 1_750_000_000_000}})
        final = writer("GET", path, status=200)
        assert '"finalized":true' in final.text
        assert '"finalized":false' in shown(api, path)
        api("GET", path, headers={"If-None-Match": final.headers["ETag"]}, status=304)
        tag = {"If-None-Match": final.headers["ETag"].replace("FIN:A", "FIN:B")}
        assert '"finalized":true' in shown(api, path, tag)


@pytest.mark.parametrize("times", [Times(measure=0.1, replica=PATIENT)])
def test_a_read_waits_for_the_replica(api: Api, writer: Api, standby: Standby, tick: Make) -> None:
    written(writer, tick(symbol="WAIT:A"))
    replayed(api, "/v1/ticks?symbol=WAIT:A")
    with standby.delayed(300):
        for number in range(3):
            header = written(writer, tick(symbol="WAIT:A", id=f"{number}"))
            began = time.monotonic()
            assert count(api, "WAIT:A", headers=header) == number + 2
            assert time.monotonic() - began < PATIENT


def test_a_process_remembers_its_own_writes(
    api: Api, standby: Standby, tick: Make, primary: tuple[Cluster, Settings]
) -> None:
    with psycopg.connect(primary[0].conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('OWN-ALIAS', 'OWN:A')")
    written(api, tick(symbol="OWN:A"))
    replayed(api, "/v1/ticks?symbol=OWN-ALIAS")
    with standby.paused():
        for number, name in enumerate(("OWN:A", "OWN-ALIAS"), 1):
            written(api, tick(symbol=name, id=f"{number}", price="4"))
            for each in ("OWN:A", "OWN-ALIAS"):
                assert count(api, each) == number + 1
                chart = api("GET", f"/v1/chart?symbol={each}&interval=1M", status=200)
                assert chart.json["candles"][0]["n"] == number + 1
        # The client has what is newest: 304 comes from the primary, too.
        tag = {"If-None-Match": chart.headers["ETag"]}
        api("GET", "/v1/chart?symbol=OWN-ALIAS&interval=1M", headers=tag, status=304)


def test_while_the_replica_lags_no_read_is_older_than_an_acknowledged_write(
    api: Api, writer: Api, standby: Standby, tick: Make
) -> None:
    """Several clients each use a symbol of their own. One process writes; the other one reads, also from its caches."""
    paths = ("/v1/chart?symbol={}&interval=1M", "/v1/ticks?symbol={}", "/api/v3/trades?symbol={}")

    def client(name: str) -> None:
        tag = {}
        for number in range(1, 11):
            header = written(writer, tick(symbol=name, id=f"{number}"))
            for path in paths:
                response = api("GET", path.format(name), headers=header, status=200)
                assert response.text.count('"price"') == number or f'"n":{number},' in response.text
            chart = paths[0].format(name)
            response = api("GET", chart, headers=header | tag)
            assert response.status_int == 200
            tag = {"If-None-Match": response.headers["ETag"]}
            api("GET", chart, headers=header | tag, status=304)

    with standby.delayed(50), ThreadPoolExecutor(4) as clients:
        list(clients.map(client, [f"LAGGING:{number}" for number in range(4)]))


def test_another_value_of_the_header_is_refused(writer: Api) -> None:
    for value in ("0", "-1", "1.5", "", "x", "1, 2", "9" * 30):
        for path in ("/v1/symbols", "/v1/chart?symbol=ANY&interval=1m"):
            headers = {"Marketdata-Version": value}
            problem = writer.problem("GET", path, headers=headers, status=422, code="invalid_value")
            assert "Marketdata-Version" in problem["detail"], value
        refused = writer("GET", "/api/v3/trades?symbol=ANY", headers=headers, status=400)
        assert "Marketdata-Version" in refused.json["msg"], value
