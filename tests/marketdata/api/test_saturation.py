"""More load than the service accepts at once: the refusals say so, and workers, connections and memory stay within
their limits."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from marketdata.api.group_commit import MAX_SHARED_ITEMS
from marketdata.api.serve import Service, Times
from marketdata.api.stream_limit import MAX_STREAMS
from marketdata.api.tick_writer import MAX_CONCURRENT, MAX_LARGE
from marketdata.http.listener import WORKERS
from marketdata.settings import Settings
from tests.marketdata.api.conftest import (
    Api,
    Make,
    eventually,
    running_api,
    waiting_for_locks,
    webtest,
    without_storing,
)

Admin = psycopg.Connection[Any]
CHART = "/v1/chart?symbol=CROWD:A&interval=1d"
INGEST = "/v1/ingest/tick"


def ask(port: int, token: str, method: str, path: str, body: Any = None) -> tuple[int, str | None]:
    """The status and Retry-After of an answer over a connection of its own."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, json.dumps(body), headers)
        response = connection.getresponse()
        response.read()
        return response.status, response.headers["Retry-After"]


class Crowd:
    """Clients that all send at once; ``found`` has the answer to each by the id of its tick."""

    def __init__(self, send: Callable[[str], Any], names: list[str]) -> None:
        self.found: dict[str, Any] = {}
        self._send = send
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in names]
        for thread in self._threads:
            thread.start()

    def _run(self, name: str) -> None:
        self.found[name] = self._send(name)

    def join(self) -> dict[str, Any]:
        for thread in self._threads:
            thread.join(60)
        return self.found


@pytest.fixture
def crowd(service: Service, write_token: str, tick: Make) -> Callable[[str, int], Crowd]:
    """``crowd(name, n)``: ``n`` clients that post one tick each."""

    def send(name: str) -> tuple[int, str | None]:
        return ask(service.port, write_token, "POST", INGEST, tick(symbol="CROWD:A", id=name))

    return lambda name, count: Crowd(send, [f"{name}{n}" for n in range(count)])


def test_blocked_ingests_leave_workers_for_other_requests(
    api: Api, service: Service, read_token: str, tick: Make, admin: Admin, crowd: Callable[[str, int], Crowd]
) -> None:
    api.ingest(tick(symbol="CROWD:A", id="first"))
    with without_storing(admin):
        waiting = crowd("still", 60)
        for path in ("/healthz", CHART) * 4:
            assert ask(service.port, read_token, "GET", path) == (200, None)
        eventually(lambda: len(waiting.found) == 60 - MAX_CONCURRENT)
        assert set(waiting.found.values()) == {(429, "1")}
    found = waiting.join()
    accepted = {name for name, answer in found.items() if answer == (201, None)}
    assert len(accepted) == MAX_CONCURRENT
    rows = admin.execute("SELECT id FROM md_ticks_v1 WHERE symbol = 'CROWD:A' AND id LIKE 'still%'").fetchall()
    assert {name for (name,) in rows} == accepted


def test_an_ingest_beyond_the_limit_waits_while_others_finish(
    service_settings: Settings, admin: Admin, tick: Make
) -> None:
    with running_api(service_settings, Times(progress=60.0)) as patient:
        service, token = patient.service, patient.tokens["write"]

        def send(name: str) -> tuple[int, str | None]:
            return ask(service.port, token, "POST", INGEST, tick(symbol="CROWD:A", id=name))

        with without_storing(admin):
            waiting = Crowd(send, [f"moving{n}" for n in range(100)])
            eventually(lambda: service.services.backlog() == 100 - WORKERS)
        assert set(waiting.join().values()) == {(201, None)}


def test_more_batches_than_are_stored_at_once(api: Api, tick: Make, admin: Admin) -> None:
    def batch(name: str) -> dict[str, Any]:
        return {"ticks": [tick(symbol="CROWD:B", id=f"{name}-{n}") for n in range(MAX_SHARED_ITEMS + 1)]}

    def send(name: str) -> Any:
        return api("POST", INGEST, batch(name), status=200).json["accepted"]

    with without_storing(admin):
        storing = Crowd(send, [f"batch{n}" for n in range(MAX_LARGE)])
        eventually(lambda: waiting_for_locks(admin) == MAX_LARGE)
        problem = api.problem("POST", INGEST, batch("late"), status=429, code="saturated")
        assert "too many large batches" in problem["detail"]
    assert list(storing.join().values()) == [MAX_SHARED_ITEMS + 1] * MAX_LARGE
    assert send("late") == MAX_SHARED_ITEMS + 1


def test_more_streams_than_run_at_once(api: Api, tick: Make, read_token: str) -> None:
    api.ingest(tick(symbol="CROWD:C"))
    path = "/v1/ticks?symbol=CROWD:C&format=ndjson"
    running = []
    for _ in range(MAX_STREAMS):
        request = webtest.TestRequest.blank(path, headers={"Authorization": f"Bearer {read_token}"})
        status, _, body = request.call_application(api.app.app)
        assert status == "200 OK"
        running.append(body)
    problem = api.problem("GET", path, status=429, code="saturated")
    assert f"{MAX_STREAMS} streams are running" in problem["detail"]
    api.get("/v1/ticks?symbol=CROWD:C")
    running.pop().close()
    api("GET", path, status=200)
    for body in running:
        body.close()
