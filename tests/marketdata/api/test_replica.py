"""DATABASE_READ_URL with hosts that are not replicas: the primary is read instead, and the reason is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from marketdata.settings import Settings
from marketdata.store.conninfo import address
from tests.marketdata.api.conftest import eventually, running_api

READS = ("/v1/chart?symbol={}&interval=1m", "/v1/ticks?symbol={}", "/v1/ticks?symbol={}&format=csv",
         "/v1/coverage?symbol={}", "/v1/udf/symbols?symbol={}", "/v1/symbols", "/api/v3/ticker/price",
         "/v1/udf/history?symbol={}&resolution=1&from=0&to=2000000000")  # fmt: skip


def insert(url: str, symbol: str) -> None:
    """Store a tick by another program than the API."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) VALUES (%s, '1', '2023-11-14Z', 7, 1)", (symbol,)
        )


def test_another_database_and_a_host_that_is_not_there_are_not_read(
    service_settings: Settings, database: str, new_database: Callable[..., str], state_dir: Path
) -> None:
    other = new_database(versions=1)
    insert(other, "THERE:A")
    hosts = make_conninfo(other, host=f"{state_dir},{address(other)[0]}")
    with running_api(dataclasses.replace(service_settings, database_read_url=hosts)) as api:

        def replicas() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = api.get("/ready")["replicas"]
            return found

        eventually(lambda: [each["state"] for each in replicas()] == ["database_unavailable", "other_database"])
        missing, found = replicas()
        assert (missing["host"], found["host"]) == (f"{state_dir}:5432", ":".join(address(other)))
        assert missing["reason"] == (
            "no connection to the database: check that it runs and accepts the login of DATABASE_READ_URL"
        )
        assert found["reason"] == "its data are of another cluster or database than those of the primary"
        assert found["lag_s"] is found["lag_bytes"] is None
        insert(database, "HERE:A")
        for path in READS:
            response = api("GET", path.format("HERE:A"), status=200)
            assert "THERE:A" not in response.text, path
        text = api("GET", "/metrics", status=200).text
        assert f'marketdata_replica_usable{{replica="{state_dir}:5432",state="database_unavailable"}} 0.000' in text
        assert 'state="other_database"} 0.000' in text
        assert "marketdata_replica_lag_seconds{" not in text
