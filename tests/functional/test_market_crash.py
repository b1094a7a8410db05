"""kill -9 of the API and of PostgreSQL under write load. Every acknowledged tick is stored once, and every candle
matches its ticks."""

from __future__ import annotations

import http.client
import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import until
from tests.marketdata.store.brute_force import rollups
from tests.marketdata.store.conftest import stored_rollups, stored_ticks

pytestmark = pytest.mark.functional

START = 1_700_000_000_000
SYMBOLS = ("CRASH:0", "CRASH:1", "CRASH:2")
V1 = Version.of("md", 1)


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    process.start()
    yield process
    process.stop()


class Writer:
    """Sends ticks until it is stopped: single ticks, or batches with the ticks of a block. Each request is repeated
    until it is acknowledged. A writer that reorganises retracts the previous block with every other batch."""

    def __init__(self, api: ApiProcess, name: str, size: int, reorganises: bool = False) -> None:
        self._api = api
        self._name = name
        self._size = size
        self._reorganises = reorganises
        self._token = api.token("alg")
        self._stopping = threading.Event()
        self.acknowledged: list[list[str]] = []
        self.retracted: list[str] = []
        self.trouble: list[Any] = []
        self._thread = threading.Thread(target=self._run, name=f"writer-{name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        client: Client | None = None
        for number in itertools.count():
            ticks = [self._tick(number, place) for place in range(self._size)]
            # Without an answer it is unknown whether the block before was retracted. Both outcomes are right.
            going = self.acknowledged.pop() if self._reorganises and number % 2 else []
            items = [*self._retractions(number - 1), *ticks] if going else ticks
            body = items[0] if len(items) == 1 else {"ticks": items}
            while True:
                if self._stopping.is_set():
                    if client is not None:
                        client.close()
                    return
                try:
                    client = client or Client(self._api.port, self._token)
                    status, answer = client("POST", "/v1/ingest/tick", body)
                except (OSError, http.client.HTTPException):
                    if client is not None:
                        client.close()
                    client = None
                else:
                    if status in (200, 201):
                        break
                    if status not in (429, 503):
                        self.trouble.append((status, answer))
                        return
                self._stopping.wait(0.05)
            if self._size > 1 and answer["rejected"]:
                self.trouble.append(answer)
            self.acknowledged.append([f"{tick['symbol']} {tick['id']}" for tick in ticks])
            self.retracted += going

    def _tick(self, block: int, place: int) -> dict[str, Any]:
        number = block * self._size + place
        symbol = SYMBOLS[number % len(SYMBOLS)]
        # Not in the order of time, so that candles are opened, extended and corrected all the time.
        at = START + (number * 7919 % 10_000) * 977
        price = f"{100 + number % 97}.{number % 89}"
        return {
            "symbol": symbol, "id": f"{self._name}-{number}", "ts": at, "price": price, "size": "1.25",
            "block": {"number": block, "hash": f"{self._name}-{block}"},
        }  # fmt: skip

    def _retractions(self, block: int) -> list[dict[str, Any]]:
        hash = f"{self._name}-{block}"
        return [{"retract": {"symbol": symbol, "block_hash": hash}} for symbol in SYMBOLS]


def restart_api(api: ApiProcess) -> None:
    api.kill()
    api.start()


def test_acknowledged_ticks_survive_a_killed_api_and_database(api: ApiProcess) -> None:
    assert_survives_kills(api, 2)


def assert_survives_kills(api: ApiProcess, rounds: int) -> None:
    writers = [Writer(api, f"w{n}", size) for n, size in enumerate((1, 1, 20, 400))]
    writers += [Writer(api, f"r{n}", size, reorganises=True) for n, size in enumerate((2, 50))]
    for _ in range(rounds):
        for kill in (ApiProcess.kill_database, restart_api):
            # The kill comes at a random point of the work of all writers.
            before = [len(writer.acknowledged) for writer in writers]
            until(lambda before=before: all(len(w.acknowledged) > n for w, n in zip(writers, before, strict=True)), 60)  # type: ignore[misc]
            kill(api)
            until(lambda: is_ready(api), 60)
    for writer in writers:
        writer.stop()
    assert [writer.trouble for writer in writers] == [[]] * len(writers)
    acknowledged = {each for writer in writers for block in writer.acknowledged for each in block}
    retracted = {each for writer in writers for each in writer.retracted}
    with connect(conninfo(api.state_dir)) as connection:
        held = {symbol: stored_ticks(connection, V1, symbol) for symbol in SYMBOLS}
        stored = {f"{symbol} {tick.id}" for symbol, ticks in held.items() for tick in ticks}
        assert len(acknowledged) > 100
        assert retracted
        assert not acknowledged - stored
        assert not retracted & stored
        for symbol, ticks in held.items():
            assert stored_rollups(connection, V1, symbol) == rollups(ticks)


def is_ready(api: ApiProcess) -> bool:
    with suppress(OSError, http.client.HTTPException), closing(Client(api.port, "none")) as client:
        return client("GET", "/ready")[0] == 200
    return False
