"""PostgreSQL stopped by SIGSTOP: it keeps its connections and answers nothing. Every request ends, nothing is lost."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import until
from tests.marketdata.postgres.client_process import Watched
from tests.marketdata.store.conftest import stored_ticks

pytestmark = pytest.mark.functional

SYMBOL = "STALL:A"
CHART = f"/v1/chart?symbol={SYMBOL}&interval=1m"
CLIENTS = 60  # more than the listener has workers
ANSWER_SECONDS = 10.0  # within which health and readiness are answered at every moment
PATIENCE = 15.0  # within which bin/start expects a service to end
# A request that finds no kept connection asks for a new one, which the stopped postmaster does not accept.
REFUSALS = {(504, "database_stalled"), (503, "database_unavailable")}
DEADLINE = 30.0  # within which every request is answered, also on a busy machine


class Stopped:
    """Every process of PostgreSQL, stopped until ``go_on``."""

    def __init__(self, state_dir: Path) -> None:
        self._pids: list[int] = []
        watched = Watched(state_dir)
        while missing := set(watched.cluster.processes()) - set(self._pids):
            for pid in missing:  # the first of them is the postmaster, which then starts no others
                os.kill(pid, signal.SIGSTOP)
                self._pids.append(pid)
        assert self._pids

    def go_on(self) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._pids.clear()


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    process.start()
    yield process
    process.stop()


class Load:
    """Clients that each send requests one after another, until they are stopped."""

    def __init__(self, api: ApiProcess) -> None:
        self._api = api
        self._stopping = threading.Event()
        self._numbers = itertools.count()
        self.statuses: list[tuple[int, str]] = []
        self.acknowledged: list[str] = []
        self.unanswered: list[Exception] = []
        self._threads = [threading.Thread(target=self._run, args=(n % 3 == 0,)) for n in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, writes: bool) -> None:
        client = Client(self._api.port, self._api.token("alg" if writes else "read"), DEADLINE)
        with closing(client):
            while not self._stopping.is_set():
                try:
                    status, body = self._write(client) if writes else client("GET", CHART)
                except (OSError, HTTPException) as error:
                    self.unanswered.append(error)
                    return
                self.statuses.append((status, body.get("code", "")))
                if status >= 400:
                    self._stopping.wait(0.2)

    def _write(self, client: Client) -> tuple[int, Any]:
        identity = str(next(self._numbers))
        status, answer = client("POST", "/v1/ingest/tick", tick(identity))
        if status < 300:
            self.acknowledged.append(identity)
        return status, answer


def tick(identity: str) -> dict[str, Any]:
    return {"symbol": SYMBOL, "id": identity, "ts": 1_700_000_000_000, "price": "1", "size": "1"}


def ask(port: int, path: str) -> tuple[int, Any]:
    """Send a request on a new connection, as health probes do. Raises an error when the answer takes too long."""
    with closing(Client(port, "none", ANSWER_SECONDS)) as client:
        return client("GET", path)


@pytest.fixture
def load(api: ApiProcess) -> Iterator[Load]:
    with closing(Client(api.port, api.token("alg"))) as client:
        assert client("POST", "/v1/ingest/tick", tick("first"))[0] == 201
    load = Load(api)
    yield load
    load.stop()


def test_every_request_ends_and_nothing_acknowledged_is_lost(api: ApiProcess, load: Load) -> None:
    until(lambda: len(load.acknowledged) > 20, 60)
    stopped = Stopped(api.state_dir)
    try:
        until(lambda: ask(api.port, "/healthz")[0] == 200 and ask(api.port, "/ready")[0] == 503, 60)
        until(lambda: (504, "database_stalled") in load.statuses, 60)
        assert ask(api.port, "/ready")[1]["code"] == "database_stalled"
        assert not ask(api.port, "/healthz")[1]["database"]["reachable"]
        before = len(load.statuses)
        until(lambda: len(load.statuses) > before + 2 * CLIENTS, 60)
        assert set(load.statuses[before:]) <= REFUSALS
    finally:
        stopped.go_on()
    until(lambda: ask(api.port, "/ready")[0] == 200, 60)
    acknowledged = len(load.acknowledged)
    until(lambda: len(load.acknowledged) > acknowledged + 20, 60)
    load.stop()
    assert load.unanswered == []
    assert {status for status, _ in load.statuses} <= {200, 201, 429, 503, 504}
    with connect(conninfo(api.state_dir)) as connection:
        stored = {each.id for each in stored_ticks(connection, Version.of("md", 1), SYMBOL)}
    assert set(load.acknowledged) <= stored


def test_sigterm_ends_the_api_in_time(api: ApiProcess, load: Load) -> None:
    """Requests wait meanwhile. The API continues its database, which then shuts down as always."""
    until(lambda: len(load.acknowledged) > 20, 60)
    assert_ends_in_time(api, Stopped(api.state_dir))
    load.stop()
    log = (api.state_dir / "database.log").read_text().splitlines()
    assert "database system is shut down" in log[-1]
    api.start()
    with connect(conninfo(api.state_dir)) as connection:
        stored = {each.id for each in stored_ticks(connection, Version.of("md", 1), SYMBOL)}
    assert set(load.acknowledged) <= stored


def assert_ends_in_time(api: ApiProcess, stopped: Stopped | None) -> None:
    began = monotonic()
    try:
        assert api.stop() == 0
        assert monotonic() - began < PATIENCE
    finally:
        if stopped is not None:
            stopped.go_on()
