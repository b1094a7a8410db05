"""Processes and whole services are killed again and again under load, and lose nothing that was acknowledged."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.functional.market_process import SECONDS, ApiProcess, Client
from tests.functional.test_market_crash import assert_survives_kills
from tests.functional.test_market_processes import PROCESSES, SYMBOLS, Processes, freeze, peers_of, tick
from tests.marketdata.api.conftest import eventually
from tests.marketdata.store.brute_force import rollups
from tests.marketdata.store.conftest import stored_rollups, stored_ticks

pytestmark = pytest.mark.functional

V1 = Version.of("md", 1)
PAUSE_SECONDS = 0.05
"""Between two requests of a client. Without it, 64 clients leave no processor time for the start of a process."""
KILLS = 8


@pytest.fixture
def api(state_dir: Path) -> Iterator[Processes]:
    process = Processes(state_dir)
    process.start()
    eventually(process.all_serve)
    yield process
    process.stop()


def test_acknowledged_ticks_survive_many_kills_of_the_api_and_the_database(state_dir: Path) -> None:
    process = ApiProcess(state_dir)
    process.start()
    try:
        assert_survives_kills(process, KILLS)
    finally:
        process.stop()


class Loading:
    """A client on one kept-alive connection at a time. ``broken`` has the local ports of the connections that broke."""

    def __init__(self, api: Processes, number: int) -> None:
        self._number = number
        self._writes = number % 2 == 0
        token = api.token("alg" if self._writes else "read")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=SECONDS)
        self._stopping = threading.Event()
        self.acknowledged: list[str] = []
        self.answered = 0
        self.broken: list[int] = []
        self.trouble: list[Any] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for count in itertools.count():
            while not self._stopping.is_set():
                port = 0
                try:
                    if self._connection.sock is None:
                        self._connection.connect()
                    port = self._connection.sock.getsockname()[1]
                    status, answer = self._ask(count)
                except (OSError, http.client.HTTPException):
                    self.broken.append(port)
                    self._connection.close()
                    continue
                self.answered += 1
                if status not in (200, 201):
                    self.trouble.append((status, answer))
                    return
                self._stopping.wait(PAUSE_SECONDS)
                break
            else:
                self._connection.close()
                return

    def _ask(self, count: int) -> tuple[int, bytes]:
        if not self._writes:
            return self._exchange("GET", f"/v1/chart?symbol={SYMBOLS[0]}&interval=1h&limit=20")
        symbol = SYMBOLS[self._number // 2 % len(SYMBOLS)]
        sent = tick(self._number * 1_000_000 + count, symbol)
        status, answer = self._exchange("POST", "/v1/ingest/tick", sent)
        if status in (200, 201):
            self.acknowledged.append(f"{symbol} {sent['id']}")
        return status, answer

    def _exchange(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        self._connection.request(method, path, body and json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def test_killed_processes_lose_nothing_and_disturb_no_others(api: Processes) -> None:
    with closing(Client(api.port, api.token("alg"))) as writer:
        for symbol in SYMBOLS:
            assert writer("POST", "/v1/ingest/tick", tick(0, symbol))[0] == 201
    clients = [Loading(api, number) for number in range(64)]
    may_break: set[int] = set()
    for number in range(KILLS):
        answered = sum(client.answered for client in clients)
        eventually(lambda answered=answered: sum(client.answered for client in clients) > answered + 200)  # type: ignore[misc]
        victim = api.pids()[number % PROCESSES]
        freeze(victim)  # so that what it holds is known
        may_break |= peers_of(victim)
        os.kill(victim, signal.SIGKILL)
        eventually(lambda victim=victim: victim not in api.pids() and api.all_serve())  # type: ignore[misc]
    for client in clients:
        client.stop()
    assert [client.trouble for client in clients if client.trouble] == []
    assert {port for client in clients for port in client.broken} <= may_break
    assert all(client.answered for client in clients)
    assert_everything_is_stored(api, {each for client in clients for each in client.acknowledged})


def assert_everything_is_stored(api: Processes, acknowledged: set[str]) -> None:
    with connect(conninfo(api.state_dir)) as connection:
        held = {symbol: stored_ticks(connection, V1, symbol) for symbol in SYMBOLS}
        stored = {f"{symbol} {tick.id}" for symbol, ticks in held.items() for tick in ticks}
        assert len(acknowledged) > 100
        assert not acknowledged - stored
        for symbol, ticks in held.items():
            assert stored_rollups(connection, V1, symbol) == rollups(ticks)
