"""DATABASE_READ_URL with hosts that are not replicas: the primary is read instead, and the reason is shown."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.api.serve import Service
from marketdata.settings import Settings
from marketdata.store.conninfo import address
from tests.marketdata.api.conftest import Api, eventually, new_token, prepare

READS = ("/v1/chart?symbol={}&interval=1m", "/v1/ticks?symbol={}", "/v1/ticks?symbol={}&format=csv",
         "/v1/coverage?symbol={}", "/v1/udf/symbols?symbol={}", "/v1/symbols", "/api/v3/ticker/price",
         "/v1/udf/history?symbol={}&resolution=1&from=0&to=2000000000")  # fmt: skip


@pytest.fixture(scope="module")
def replica(new_database: Callable[[], str]) -> str:
    """A database of the same version, with a symbol that the other database does not have. Nothing is replicated
    between them."""
    url = new_database()
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder:
        prepare(Path(folder), url)
    insert(url, "THERE:A")
    return url


def insert(url: str, symbol: str) -> None:
    """Store a tick by another program than the API."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) VALUES (%s, '1', '2023-11-14Z', 7, 1)", (symbol,)
        )


@contextmanager
def serving(settings: Settings, database: str, read_url: str) -> Iterator[Api]:
    running = Service(dataclasses.replace(settings, database_read_url=read_url))
    running.start()
    try:
        yield Api(running, new_token(database, "read"), new_token(database, "write"))
    finally:
        running.stop()


def replicas(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/ready")["replicas"]
    return found


def assert_the_primary_is_read(api: Api, database: str, symbol: str) -> None:
    insert(database, symbol)
    for path in READS:
        response = api("GET", path.format(symbol), status=200)
        assert "THERE:A" not in response.text
        if "ETag" in response.headers:
            tag = {"If-None-Match": response.headers["ETag"]}
            api("GET", path.format(symbol), headers=tag, status=304)


def test_another_database_is_not_read(service_settings: Settings, database: str, replica: str) -> None:
    with serving(service_settings, database, replica) as api:
        eventually(lambda: replicas(api)[0]["state"] == "other_database")
        (found,) = replicas(api)
        assert found["host"] == ":".join(address(replica))
        assert found["reason"] == "its data are of another cluster or database than those of the primary"
        assert found["lag_s"] is found["lag_bytes"] is None
        assert_the_primary_is_read(api, database, "HERE:A")


def test_the_primary_itself_is_no_replica(service_settings: Settings, database: str) -> None:
    with serving(service_settings, database, database) as api:
        eventually(lambda: replicas(api)[0]["state"] == "primary")
        assert_the_primary_is_read(api, database, "HERE:B")


def test_a_host_that_is_not_there_is_not_read(
    service_settings: Settings, database: str, replica: str, state_dir: Path
) -> None:
    hosts = f"{state_dir},{address(replica)[0]}"
    with serving(service_settings, database, make_conninfo(replica, host=hosts)) as api:
        eventually(lambda: [each["state"] for each in replicas(api)] == ["database_unavailable", "other_database"])
        assert replicas(api)[0]["host"] == f"{state_dir}:5432"
        assert replicas(api)[0]["reason"] == (
            "no connection to the database: check that it runs and accepts the login of DATABASE_READ_URL"
        )
        assert_the_primary_is_read(api, database, "HERE:C")
        text = api("GET", "/metrics", status=200).text
        assert f'marketdata_replica_usable{{replica="{state_dir}:5432",state="database_unavailable"}} 0.000' in text
        assert 'state="other_database"} 0.000' in text
        assert "marketdata_replica_lag_seconds{" not in text


def test_a_database_without_the_version_is_not_read(
    service_settings: Settings, database: str, new_database: Callable[[], str]
) -> None:
    with serving(service_settings, database, new_database()) as api:
        eventually(lambda: replicas(api)[0]["state"] == "version_missing")
        assert_the_primary_is_read(api, database, "HERE:D")
