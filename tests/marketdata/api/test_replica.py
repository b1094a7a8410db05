"""DATABASE_READ_URL: what is read there, what is not, and what is said when it does not answer."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.api.serve import Service
from marketdata.settings import Settings
from tests.marketdata.api.conftest import Api, new_token, prepare

Make = Callable[..., dict[str, Any]]
INGEST = "/v1/ingest/tick"
READS = ("/v1/chart?symbol={}&interval=1m", "/v1/ticks?symbol={}", "/v1/ticks?symbol={}&format=csv",
         "/v1/coverage?symbol={}", "/v1/udf/symbols?symbol={}",
         "/v1/udf/history?symbol={}&resolution=1&from=0&to=2000000000")  # fmt: skip


@pytest.fixture(scope="module")
def replica(new_database: Callable[[], str]) -> str:
    """A database of the same version, with a symbol that the other one has not; nothing flows between them."""
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


def serving(settings: Settings, database: str, read_url: str) -> Iterator[Api]:
    running = Service(dataclasses.replace(settings, database_read_url=read_url))
    running._reads._pool.timeout = 0.1
    running.start()
    try:
        yield Api(running, new_token(database, "read"), new_token(database, "write"))
    finally:
        running.stop()


@pytest.fixture
def apart(service_settings: Settings, database: str, replica: str) -> Iterator[Api]:
    yield from serving(service_settings, database, replica)


@pytest.fixture
def blind(service_settings: Settings, database: str, replica: str, state_dir: Path) -> Iterator[Api]:
    """An API whose replica is not there."""
    yield from serving(service_settings, database, make_conninfo(replica, host=str(state_dir)))


def test_reads_go_to_the_replica_and_writes_do_not(apart: Api, database: str) -> None:
    insert(database, "HERE:A")
    assert [each["symbol"] for each in apart.get("/v1/symbols")["symbols"]] == ["THERE:A"]
    assert [each["ticker"] for each in apart.get("/v1/udf/search?query=a")] == ["THERE:A"]
    for path in READS:
        response = apart("GET", path.format("THERE:A"), status=200)
        apart.problem("GET", path.format("HERE:A"), status=404, code="unknown_symbol")
        if "ETag" in response.headers:
            tag = {"If-None-Match": response.headers["ETag"]}
            apart("GET", path.format("THERE:A"), headers=tag, status=304)
    assert apart.get("/ready")["ready"]


def test_without_its_replica_it_is_not_ready(blind: Api, tick: Make) -> None:
    blind.problem("GET", "/ready", status=503, code="database_unavailable")
    blind.problem("GET", READS[0].format("THERE:A"), status=503, code="database_unavailable")
    blind("POST", INGEST, tick(symbol="HERE:B"), status=201)


def test_a_replica_without_the_version_is_not_ready(
    service_settings: Settings, database: str, new_database: Callable[[], str]
) -> None:
    for api in serving(service_settings, database, new_database()):
        api.problem("GET", "/ready", status=503, code="version_missing")
