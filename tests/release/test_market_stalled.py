"""PostgreSQL stopped by SIGSTOP: it keeps its connections and answers nothing. Every request ends, nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
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
TICK = {"symbol": SYMBOL, "ts": 1_700_000_000_000, "price": "1", "size": "1"}
CLIENTS = 60  # more than the listener has workers
PATIENCE = 15.0  # within which bin/start expects a service to end
# A request that finds no kept connection asks for a new one, which the stopped postmaster does not accept.
REFUSALS = {(504, "database_stalled"), (503, "database_unavailable")}
DEADLINE = 30.0  # within which every request is answered, also on a busy machine


def stop_database(state_dir: Path) -> list[int]:
    """Stop every process of PostgreSQL."""
    pids: list[int] = []
    while missing := set(Watched(state_dir).cluster.processes()) - set(pids):
        for pid in missing:  # the first of them is the postmaster, which then starts no others
            os.kill(pid, signal.SIGSTOP)
            pids.append(pid)
    return pids


def ask(port: int, path: str) -> tuple[int, Any]:
    """Send a request on a new connection, as health probes do."""
    with closing(Client(port, "none", DEADLINE)) as client:
        return client("GET", path)


def test_every_request_ends_and_sigterm_ends_the_api_in_time(state_dir: Path) -> None:
    api = ApiProcess(state_dir)
    api.start()
    with closing(Client(api.port, api.token("alg"))) as client:
        assert client("POST", "/v1/ingest/tick", TICK | {"id": "first"})[0] == 201
    stopping = threading.Event()
    answers: list[tuple[int, str]] = []
    acknowledged: set[str] = set()

    def load(number: int) -> None:
        with closing(Client(api.port, api.token("read" if number % 3 else "alg"), DEADLINE)) as client:
            count = 0
            while not stopping.is_set():
                count += 1
                if number % 3:
                    status, body = client("GET", CHART)
                else:
                    identity = f"{number}-{count}"
                    status, body = client("POST", "/v1/ingest/tick", TICK | {"id": identity})
                    acknowledged.update([identity] if status < 300 else [])
                answers.append((status, body.get("code", "")))
                stopping.wait(0.2 if status >= 400 else 0)

    pids: list[int] = []
    with ThreadPoolExecutor(CLIENTS) as threads:
        try:
            running = [threads.submit(load, number) for number in range(CLIENTS)]
            until(lambda: len(acknowledged) > 20, 60)
            pids = stop_database(state_dir)
            assert pids
            until(lambda: ask(api.port, "/healthz")[0] == 200 and ask(api.port, "/ready")[0] == 503, 60)
            until(lambda: (504, "database_stalled") in answers, 60)
            assert ask(api.port, "/ready")[1]["code"] == "database_stalled"
            assert not ask(api.port, "/healthz")[1]["database"]["reachable"]
            before = len(answers)
            until(lambda: len(answers) > before + 2 * CLIENTS, 60)
            assert set(answers[before:]) <= REFUSALS
            stopping.set()
            for each in running:
                each.result(DEADLINE)
            began = monotonic()
            assert api.stop() == 0  # it continues its database, which then shuts down as always
            assert monotonic() - began < PATIENCE
        finally:
            stopping.set()
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            api.stop()
    assert {status for status, _ in answers} <= {200, 201, 429, 503, 504}
    assert "database system is shut down" in (state_dir / "database.log").read_text().splitlines()[-1]
    api.start()
    with connect(conninfo(state_dir)) as connection:
        assert acknowledged <= {each.id for each in stored_ticks(connection, Version.of("md", 1), SYMBOL)}
    api.stop()
