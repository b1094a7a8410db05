"""A database that cuts, stalls, runs full, or is not there: problem answers, and work again without a restart."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from marketdata.api import auth
from marketdata.api.serve import Service
from marketdata.errors import UsageError, VersionMissing
from marketdata.settings import Settings
from marketdata.store import pool
from tests.marketdata.api.conftest import Api, eventually, new_token, waiting_for_locks

Make = Callable[..., dict[str, Any]]
CHART = "/v1/chart?symbol=ROBUST:A&interval=1d"
INGEST = "/v1/ingest/tick"


@pytest.fixture(autouse=True)
def stored(api: Api, tick: Make) -> None:
    api.ingest(tick(symbol="ROBUST:A", id="first"))


def cut(admin: psycopg.Connection[Any]) -> None:
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_the_service_recovers_from_cut_connections(api: Api, tick: Make, admin: psycopg.Connection[Any]) -> None:
    for number in range(3):
        cut(admin)
        assert api("GET", CHART).status_int in (200, 503)
        eventually(lambda: api("GET", CHART).status_int == 200)
        eventually(lambda n=number: api("POST", INGEST, tick(symbol="ROBUST:A", id=f"cut{n}")).status_int in (200, 201))  # type: ignore[misc]
    eventually(lambda: api.get("/healthz")["database"]["reachable"])


def test_a_pool_without_a_free_connection_answers_503(
    api: Api, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as held:
        for _ in range(pool.SIZE):
            held.enter_context(service.services.pool.connection())
        monkeypatch.setattr(service.services.pool._pool, "timeout", 0.1)  # opening one may take longer
        problem = api("GET", CHART, status=503)
        assert problem.headers["Retry-After"]
        assert problem.json["code"] == "database_exhausted"
        api.problem("GET", "/ready", status=503, code="database_exhausted")
        api.get("/healthz")
    api.get(CHART)


def test_a_full_disk_answers_503_to_writes_only(api: Api, tick: Make, admin: psycopg.Connection[Any]) -> None:
    admin.execute(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
    )
    admin.execute("CREATE TRIGGER full_disk BEFORE INSERT ON md_ticks_v1 EXECUTE FUNCTION full_disk()")
    try:
        one = tick(symbol="ROBUST:A", id="full")
        problem = api.problem("POST", INGEST, one, status=503, code="database_exhausted")
        assert "extend" not in problem["detail"]
        batch = {"ticks": [tick(symbol="ROBUST:A", id=f"full{n}") for n in range(500)]}
        api.problem("POST", INGEST, batch, status=503, code="database_exhausted")
        api.get(CHART)
    finally:
        admin.execute("DROP FUNCTION full_disk CASCADE")
    api("POST", INGEST, one, status=201)


def test_an_invalid_value_fails_only_its_own_request(api: Api, tick: Make, admin: psycopg.Connection[Any]) -> None:
    """Requests share a transaction. If only the database can refuse a value, the other requests still succeed."""
    admin.execute("ALTER TABLE md_ticks_v1 ADD CONSTRAINT apple CHECK (id <> 'bad')")
    ids = ["bad" if n == 4 else f"apple{n}" for n in range(8)]
    statuses: dict[str, int] = {}

    def send(name: str) -> None:
        statuses[name] = api("POST", INGEST, tick(symbol="ROBUST:A", id=name)).status_int

    first, *others = [threading.Thread(target=send, args=(name,)) for name in ["first-in-line", *ids]]
    try:
        with admin.transaction():
            admin.execute("LOCK TABLE md_symbols_v1")
            first.start()
            eventually(lambda: waiting_for_locks(admin) == 1)
            for thread in others:  # they queue behind it
                thread.start()
            eventually(lambda: api.service.services.tick_writer.depth == len(ids))
        for thread in (first, *others):
            thread.join(30)
    finally:
        admin.execute("ALTER TABLE md_ticks_v1 DROP CONSTRAINT apple")
    assert statuses == {name: 422 if name == "bad" else 201 for name in ["first-in-line", *ids]}


def test_a_stalled_statement_ends(
    service_settings: Settings,
    database: str,
    tick: Make,
    admin: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool._configure, "__defaults__", (0.3,))
    running = Service(service_settings)
    running.start()
    try:
        api = Api(running, new_token(database, "read"), new_token(database, "write"))
        with admin.transaction():
            admin.execute("LOCK TABLE md_symbols_v1, md_rollups_v1")
            api.problem("POST", INGEST, tick(symbol="ROBUST:A", id="slow"), status=503, code="too_slow")
            api.problem("GET", CHART, status=503, code="too_slow")
        api("POST", INGEST, tick(symbol="ROBUST:A", id="slow"), status=201)
        api.get(CHART)
    finally:
        running.stop()


def test_saturation_is_reported_before_anything_grows(api: Api, tick: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    tick_writer = api.service.services.tick_writer
    with monkeypatch.context() as patch:
        patch.setattr(tick_writer, "_backlog", lambda: 1000)
        assert api("POST", INGEST, tick(), status=429).headers["Retry-After"] == "1"
    with monkeypatch.context() as patch:
        patch.setattr(tick_writer._group_commit, "_capacity", 0)
        api.problem("POST", INGEST, tick(), status=429, code="saturated")


@pytest.fixture
def long_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is cached for longer than any wait here, so whatever removes one is not its age."""
    monkeypatch.setattr(auth, "CACHE_SECONDS", 3600.0)


@pytest.mark.usefixtures("long_memory")
def test_a_revocation_reaches_another_process_at_once(api: Api, service_settings: Settings) -> None:
    other = Service(service_settings)
    other.start()
    try:
        made = api("POST", "/v1/admin/tokens", {"name": "two", "scope": "read"}, status=201).json
        there = Api(other, made["token"], made["token"])
        eventually(lambda: other.services.revocation_listener.is_receiving)
        there.get("/v1/symbols")
        api("DELETE", f"/v1/admin/tokens/{made['id']}", status=200)
        eventually(lambda: there("GET", "/v1/symbols").status_int == 401)
    finally:
        other.stop()


@pytest.mark.usefixtures("long_memory")
def test_a_revocation_missed_while_disconnected_is_found_on_reconnecting(
    api: Api, admin: psycopg.Connection[Any]
) -> None:
    made = api("POST", "/v1/admin/tokens", {"name": "unheard", "scope": "read"}, status=201).json
    api.tokens["read"] = made["token"]
    api.get("/v1/symbols")
    admin.execute("UPDATE api_tokens SET revoked_at = now() WHERE name = 'unheard'")
    api.get("/v1/symbols")  # still cached
    cut(admin)
    eventually(lambda: api("GET", "/v1/symbols").status_int == 401)


def test_use_of_a_token_is_recorded_at_the_stop(api: Api, service_settings: Settings, database: str) -> None:
    text = new_token(database, "read", "lazy")
    one = Service(service_settings)
    one.start()
    eventually(lambda: one.services.revocation_listener.is_receiving)
    Api(one, text, text).get("/v1/symbols")

    def noted() -> bool:
        return any(each["last_used_at"] for each in api.get("/v1/admin/tokens")["tokens"] if each["name"] == "lazy")

    assert not noted()
    one.stop()
    assert noted()


def test_an_api_waits_for_its_database(service_settings: Settings, database: str, state_dir: Path, tick: Make) -> None:
    url = service_settings.database_url or ""
    nowhere = make_conninfo(url, host=str(state_dir))
    running = Service(dataclasses.replace(service_settings, database_url=nowhere))
    running._pool._pool.timeout = 0.1
    running.start()
    try:
        api = Api(running, new_token(database, "read"), new_token(database, "write"))
        assert not api.get("/healthz")["database"]["reachable"]
        late = tick(symbol="ROBUST:A", id="late")
        for method, path, body in (("GET", "/ready", None), ("GET", CHART, None), ("POST", INGEST, late)):
            api.problem(method, path, body, status=503, code="database_unavailable")
        reached = conninfo_to_dict(url)
        door = f".s.PGSQL.{reached['port']}"
        (state_dir / door).symlink_to(Path(str(reached["host"])) / door)
        eventually(lambda: api("GET", "/ready").status_int == 200)
        eventually(lambda: api.get("/healthz")["database"]["reachable"])
        eventually(lambda: api("POST", INGEST, late).status_int == 201)  # after the pool has connected, too
        api.get(CHART)
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ({"ticks_table": "md_ticks_v9"}, VersionMissing),
        ({"ticks_table": "md_ticks_v9", "candles_function": "md_candles_v9"}, VersionMissing),
        ({"ticks_table": "md_ticks_v1", "candles_function": "md_candles_v9"}, VersionMissing),
        ({"ticks_table": "md_ticks_v1", "candles_function": "md_bucket_of_v1"}, UsageError),
        ({"ticks_table": "pg_class", "candles_function": "md_candles_v1"}, UsageError),
    ],
)
def test_a_version_that_is_not_there_is_a_start_up_error(
    service: Service, service_settings: Settings, names: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Service(dataclasses.replace(service_settings, **names)).start()
