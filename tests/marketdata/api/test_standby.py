"""DATABASE_READ_URL with a streaming replica: its lag is reported, and ``prefer-standby`` does without it."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from marketdata.api import database_health
from marketdata.api.serve import Service
from marketdata.postgres.client import Client
from marketdata.postgres.cluster import Cluster
from marketdata.settings import Settings
from marketdata.store import pool
from tests.functional.market_process import give_cluster
from tests.marketdata.api.conftest import Api, eventually, new_token, prepare
from tests.marketdata.api.standby import Standby

pytestmark = pytest.mark.functional

Make = Callable[..., dict[str, Any]]
TICKS = "/v1/ticks?symbol=LAG:A"


@pytest.fixture(scope="module")
def primary() -> Iterator[tuple[Cluster, Settings]]:
    """A private cluster of its own: a copy of the one of the whole run would hold the databases of all tests."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        give_cluster(Path(folder))
        with Client(Path(folder), linger=False) as client:
            yield Cluster(Path(folder)), prepare(Path(folder), client.conninfo)


@pytest.fixture(scope="module")
def standby(primary: tuple[Cluster, Settings]) -> Iterator[Standby]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        standby = Standby(primary[0], Path(folder))
        standby.start()
        yield standby
        standby.stop()


@pytest.fixture(autouse=True)
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_health, "PERIOD_SECONDS", 0.2)


def serving(settings: Settings, read_url: str) -> Iterator[Api]:
    running = Service(dataclasses.replace(settings, database_read_url=read_url))
    running.start()
    try:
        database = settings.database_url or ""
        yield Api(running, new_token(database, "read"), new_token(database, "write"))
    finally:
        running.stop()


@pytest.fixture
def api(primary: tuple[Cluster, Settings], standby: Standby) -> Iterator[Api]:
    yield from serving(primary[1], standby.url)


@pytest.fixture
def preferring(primary: tuple[Cluster, Settings], standby: Standby) -> Iterator[Api]:
    """Its URL names both, the primary first."""
    hosts = f"{primary[0].folder},{standby.url.partition('host=')[2].split()[0]}"
    url = make_conninfo(primary[0].conninfo, host=hosts, target_session_attrs="prefer-standby")
    yield from serving(primary[1], url)


def lag(api: Api) -> Any:
    response = api("GET", "/ready")
    return response.json["replica"] if response.status_int == 200 else None


def metric(api: Api, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", api("GET", "/metrics", status=200).text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_the_lag_is_that_of_the_data(api: Api, standby: Standby, tick: Make) -> None:
    caught_up = {"is_standby": True, "lag_s": 0.0, "lag_bytes": 0}
    eventually(lambda: lag(api) == caught_up)
    standby.execute("SELECT pg_wal_replay_pause()")
    api("POST", "/v1/ingest/tick", tick(symbol="LAG:A"), status=201)
    eventually(lambda: (lag(api) or caught_up)["lag_s"] > 0)
    first = lag(api)
    assert first["lag_bytes"] > 0
    eventually(lambda: lag(api)["lag_s"] > first["lag_s"])
    assert metric(api, "marketdata_replica_lag_seconds") >= first["lag_s"]
    assert metric(api, "marketdata_replica_lag_bytes") >= first["lag_bytes"]
    api("GET", TICKS, status=404)
    standby.execute("SELECT pg_wal_replay_resume()")
    eventually(lambda: lag(api) == caught_up)
    assert metric(api, "marketdata_replica_lag_seconds") == 0
    api("GET", TICKS, status=200)


def test_a_frozen_replica_fails_reads_alone(
    api: Api, standby: Standby, tick: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_health, "STALL_SECONDS", 1.0)
    monkeypatch.setattr(pool, "STALL_SECONDS", 1.0)
    api("POST", "/v1/ingest/tick", tick(symbol="LAG:F"), status=201)
    eventually(lambda: api("GET", "/v1/ticks?symbol=LAG:F").status_int == 200)
    with standby.frozen():
        api.problem("GET", "/v1/ticks?symbol=LAG:F", status=504, code="database_stalled")
        api.problem("GET", "/v1/symbols", status=504, code="database_stalled")
        eventually(lambda: "replica" in api.problem("GET", "/ready", status=503, code="database_stalled")["detail"])
        eventually(lambda: api.get("/healthz")["database"]["reachable"])
        api("POST", "/v1/ingest/tick", tick(symbol="LAG:F", id="b"), status=201)
    eventually(lambda: lag(api) == {"is_standby": True, "lag_s": 0.0, "lag_bytes": 0})
    eventually(lambda: len(api.get("/v1/ticks?symbol=LAG:F")["ticks"]) == 2)


def test_a_stopped_replica_is_not_ready_unless_the_primary_may_take_its_place(
    api: Api, preferring: Api, standby: Standby, tick: Make
) -> None:
    preferring("POST", "/v1/ingest/tick", tick(symbol="LAG:B"), status=201)
    eventually(lambda: (lag(preferring) or {}).get("is_standby") is True)
    standby.stop()
    try:
        eventually(lambda: api("GET", "/ready").status_int == 503)
        assert api("GET", "/ready").json["code"] == "database_unavailable"
        assert "marketdata_replica_lag" not in api("GET", "/metrics", status=200).text  # the last one is out of date
        eventually(lambda: lag(preferring) == {"is_standby": False, "lag_s": 0.0, "lag_bytes": 0})
        eventually(lambda: preferring("GET", "/v1/ticks?symbol=LAG:B").status_int == 200)
    finally:
        standby.start()
    eventually(lambda: (lag(preferring) or {}).get("is_standby") is True)
    eventually(lambda: lag(api) is not None)
