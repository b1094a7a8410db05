"""kill -9 of the API and of PostgreSQL under write load: what was acknowledged is there, once, and every candle is what
its ticks make."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from marketdata.embedded import conninfo
from tests.functional.market_process import ApiProcess, Client

pytestmark = pytest.mark.functional

START = 1_700_000_000_000
SYMBOLS = 3


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    process.start()
    yield process
    process.stop()


class Writer:
    """Sends ticks until it is stopped, each again until it is acknowledged; single ones, or batches with conflicts."""

    def __init__(self, api: ApiProcess, name: str, size: int) -> None:
        self._api = api
        self._name = name
        self._size = size
        self._token = api.token("alg")
        self._stopping = threading.Event()
        self.acknowledged: list[str] = []
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
            ticks = [self._tick(number * self._size + place) for place in range(self._size)]
            body = ticks[0] if self._size == 1 else {"ticks": ticks}
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
            self.acknowledged += [f"{tick['symbol']} {tick['id']}" for tick in ticks]

    def _tick(self, number: int) -> dict[str, Any]:
        # Not in the order of time, so that candles are opened, extended and corrected all the time.
        at = START + (number * 7919 % 10_000) * 977
        price = f"{100 + number % 97}.{number % 89}"
        symbol = f"CRASH:{number % SYMBOLS}"
        return {"symbol": symbol, "id": f"{self._name}-{number}", "ts": at, "price": price, "size": "1.25"}


def kill_postgres(api: ApiProcess) -> None:
    owner = json.loads((api.state_dir / "owner.lock").read_text())
    os.kill(owner["postgres"], signal.SIGKILL)


RECOMPUTED = """
WITH made AS (
    SELECT symbol, res, date_bin(make_interval(secs => res), ts, '1970-01-05Z') AS bucket,
           (array_agg(price ORDER BY ts, seq, id))[1] AS open, max(price) AS high, min(price) AS low,
           (array_agg(price ORDER BY ts DESC, seq DESC, id DESC))[1] AS close, sum(size) AS volume,
           sum(price * size) AS quote, count(*) AS n
    FROM md_ticks_v1, (SELECT DISTINCT res FROM md_rollups_v1) AS level GROUP BY 1, 2, 3
), kept AS (SELECT symbol, res, bucket, open, high, low, close, volume, quote, n FROM md_rollups_v1)
(TABLE made EXCEPT TABLE kept) UNION ALL (TABLE kept EXCEPT TABLE made)
"""


def test_what_was_acknowledged_is_there(api: ApiProcess, loops: Callable[..., int]) -> None:
    writers = [Writer(api, f"w{n}", size) for n, size in enumerate((1, 1, 1, 20, 400))]
    pause = threading.Event()
    for n in range(loops(quick=10, full=100)):
        pause.wait(0.3)  # lets load build up; what it interrupts is chance, and the better for it
        if n % 2:
            api.kill()
            api.start()
        else:
            kill_postgres(api)
        assert_recovers(api)
    for writer in writers:
        writer.stop()
    assert [writer.trouble for writer in writers] == [[]] * len(writers)
    acknowledged = [each for writer in writers for each in writer.acknowledged]
    with psycopg.connect(conninfo(api.state_dir)) as connection:
        stored = {row[0] for row in connection.execute("SELECT symbol || ' ' || id FROM md_ticks_v1")}
        differences = connection.execute(RECOMPUTED).fetchall()
    assert len(acknowledged) > 100
    assert not set(acknowledged) - stored
    assert differences == []


def assert_recovers(api: ApiProcess) -> None:
    """The same process answers again by itself."""
    waiting = threading.Event()
    for _ in range(600):
        with suppress(OSError, http.client.HTTPException):
            with closing(Client(api.port, "none")) as client:
                status, _ = client("GET", "/ready")
            if status == 200:
                return
        waiting.wait(0.1)
    pytest.fail(f"not ready again: {api.log.read_text()[-3000:]}")
