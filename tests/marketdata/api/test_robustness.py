"""A database that cuts, stalls, runs full, or is not there: problem answers, and work again without a restart."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from marketdata import token
from marketdata.api.metrics import Metrics
from marketdata.api.serve import Service, Times
from marketdata.api.shared_memory import SharedMemory
from marketdata.api.tick_writer import MAX_BACKLOG, TickWriter
from marketdata.errors import DatabaseUnavailable, Saturated, UsageError, VersionMissing
from marketdata.settings import Settings
from marketdata.store import pool
from tests.marketdata.api.conftest import (
    Api,
    Make,
    eventually,
    new_token,
    running_api,
    waiting_for_locks,
    without_storing,
)
from tests.marketdata.api.test_admission import INGEST as INGEST_LINE
from tests.marketdata.api.test_admission import SOME, head
from tests.marketdata.http.wire import ask

Admin = psycopg.Connection[Any]
CHART = "/v1/chart?symbol=ROBUST:A&interval=1d"
INGEST = "/v1/ingest/tick"
LONG_MEMORY = Times(token_cache=3600.0, connection=0.2)
"""A token is cached for longer than any wait here, so whatever removes one is not its age."""


@pytest.fixture(autouse=True)
def stored(api: Api, tick: Make) -> None:
    api.ingest(tick(symbol="ROBUST:A", id="first"))


def cut(admin: Admin) -> None:
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_an_invalid_value_fails_only_its_own_request(api: Api, tick: Make, admin: Admin) -> None:
    """Requests share a transaction. If only the database can refuse a value, the other requests still succeed."""
    admin.execute("ALTER TABLE md_ticks_v1 ADD CONSTRAINT apple CHECK (id <> 'bad')")
    ids = ["bad" if n == 4 else f"apple{n}" for n in range(8)]
    statuses: dict[str, int] = {}

    def send(name: str) -> None:
        statuses[name] = api("POST", INGEST, tick(symbol="ROBUST:A", id=name)).status_int

    first, *others = [threading.Thread(target=send, args=(name,)) for name in ["first-in-line", *ids]]
    with ExitStack() as stack:
        stack.callback(admin.execute, "ALTER TABLE md_ticks_v1 DROP CONSTRAINT apple")
        with without_storing(admin):
            first.start()
            stack.callback(first.join, 60)
            eventually(lambda: waiting_for_locks(admin) == 1)
            for thread in others:  # they queue behind it
                thread.start()
                stack.callback(thread.join, 60)
            eventually(lambda: api.service.services.tick_writer.depth == len(ids))
    assert statuses == {name: 422 if name == "bad" else 201 for name in ["first-in-line", *ids]}


def test_a_long_backlog_is_refused_before_anything_grows() -> None:
    backlog = MAX_BACKLOG
    served: Any = SimpleNamespace(version=lambda: SimpleNamespace(shards=None))
    metrics = Metrics(SharedMemory.of_one_process())
    nothing = cast(Any, None)
    writer = TickWriter(nothing, served, metrics, lambda: backlog, nothing, nothing)
    with pytest.raises(DatabaseUnavailable, match="stopping"):  # it was not started
        writer.store([nothing])
    backlog += 1
    with pytest.raises(Saturated):
        writer.store([nothing])


@pytest.fixture(scope="module")
def remembering(service_settings: Settings) -> Iterator[Api]:
    with running_api(service_settings, LONG_MEMORY) as found:
        eventually(lambda: found.service.services.revocation_listener.is_receiving)
        yield found


def test_a_pool_without_a_free_connection_answers_503(remembering: Api) -> None:
    with ExitStack() as held:
        remembering.get(CHART)
        for _ in range(pool.SIZE):
            held.enter_context(remembering.service.services.pool.connection())
        problem = remembering("GET", CHART, status=503)
        assert problem.headers["Retry-After"]
        assert problem.json["code"] == "database_exhausted"
        remembering.problem("GET", "/ready", status=503, code="database_exhausted")
        remembering.get("/healthz")
    remembering.get(CHART)


def test_a_revocation_reaches_another_process_at_once(api: Api, remembering: Api) -> None:
    made = api("POST", "/v1/admin/tokens", {"name": "two", "scope": "read"}, status=201).json
    there = Api(remembering.service, made["token"], made["token"])
    there.get("/v1/symbols")
    api("DELETE", f"/v1/admin/tokens/{made['id']}", status=200)
    eventually(lambda: there("GET", "/v1/symbols").status_int == 401)


def test_a_revocation_missed_while_disconnected_is_found_on_reconnecting(
    api: Api, remembering: Api, admin: Admin
) -> None:
    made = api("POST", "/v1/admin/tokens", {"name": "unheard", "scope": "read"}, status=201).json
    there = Api(remembering.service, made["token"], made["token"])
    there.get("/v1/symbols")
    admin.execute("UPDATE api_tokens SET revoked_at = now() WHERE name = 'unheard'")
    there.get("/v1/symbols")  # still cached
    cut(admin)
    eventually(lambda: there("GET", "/v1/symbols").status_int == 401)


def test_use_of_a_token_is_recorded_at_the_stop(api: Api, service_settings: Settings, database: str) -> None:
    text = new_token(database, "read", "lazy")

    def noted() -> bool:
        return any(each["last_used_at"] for each in api.get("/v1/admin/tokens")["tokens"] if each["name"] == "lazy")

    with running_api(service_settings) as one:
        eventually(lambda: one.service.services.revocation_listener.is_receiving)
        Api(one.service, text, text).get("/v1/symbols")
        assert not noted()
    assert noted()


def test_an_api_waits_for_its_database(service_settings: Settings, database: str, state_dir: Path, tick: Make) -> None:
    url = service_settings.database_url or ""
    nowhere = make_conninfo(url, host=str(state_dir))
    running = Service(dataclasses.replace(service_settings, database_url=nowhere), times=Times(connection=0.1))
    running.start()
    try:
        api = Api(running, new_token(database, "read"), new_token(database, "write"))
        assert not api.get("/healthz")["database"]["reachable"]
        late = tick(symbol="ROBUST:A", id="late")
        for method, path, body in (("GET", "/ready", None), ("GET", CHART, None), ("POST", INGEST, late)):
            api.problem(method, path, body, status=503, code="database_unavailable")
        status, headers, body = ask(running.port, head(INGEST_LINE, token.generate()) + SOME)
        assert (status, headers["retry-after"], json.loads(body)["code"]) == (503, "1", "database_unavailable")
        reached = conninfo_to_dict(url)
        door = f".s.PGSQL.{reached['port']}"
        (state_dir / door).symlink_to(Path(str(reached["host"])) / door)
        eventually(lambda: api("GET", "/ready").status_int == 200)
        eventually(lambda: api.get("/healthz")["database"]["reachable"])
        eventually(lambda: api("POST", INGEST, late).status_int == 201)  # after the pool has connected, too
        eventually(lambda: api("GET", CHART).status_int == 200)
    finally:
        running.stop()


def test_a_version_that_is_not_there_is_a_start_up_error(service: Service, service_settings: Settings) -> None:
    for ticks_table, candles_function, error in (
        ("md_ticks_v9", None, VersionMissing),
        ("md_ticks_v9", "md_candles_v9", VersionMissing),
        ("md_ticks_v1", "md_candles_v9", VersionMissing),
        ("md_ticks_v1", "md_bucket_of_v1", UsageError),
        ("pg_class", "md_candles_v1", UsageError),
    ):
        named = dataclasses.replace(service_settings, ticks_table=ticks_table, candles_function=candles_function)
        with pytest.raises(error):
            Service(named).start()
