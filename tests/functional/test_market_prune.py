"""kill -9 of bin/marketdata-prune while ticks are stored: the next run goes on, and no stored candle changes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from marketdata.interval import WIDTHS
from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client
from tests.marketdata.store.brute_force import rollups
from tests.marketdata.store.conftest import stored_rollups, stored_ticks

pytestmark = [pytest.mark.functional, pytest.mark.full]

DAY = 86_400_000
START = 1_700_006_400_000
LINE = START + 3 * DAY
"""2023-11-18, in milliseconds."""
SYMBOLS = ("PRUNE:A", "PRUNE:B")
PER_KILL = 6000
V1 = Version.of("md", 1)
BELOW = f"ts < to_timestamp({LINE // 1000})"


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    process.start()
    yield process
    process.stop()


def tick(number: int, ts: int) -> dict[str, Any]:
    return {
        "symbol": SYMBOLS[number % 2], "id": f"{number}", "ts": ts, "price": f"{100 + number % 97}.{number % 89}",
        "size": "1.25", "side": ("buy", "sell", None)[number % 3],
    }  # fmt: skip


class Writer:
    """Stores ticks from the line on. Every tenth is below it, and is stored or refused as pruned."""

    def __init__(self, api: ApiProcess) -> None:
        self._api = api
        self._stopping = threading.Event()
        self.stored = 0
        self.outcomes: set[tuple[str, int, str]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with closing(Client(self._api.port, self._api.token("alg"))) as client:
            for number in itertools.count(10_000_000):
                if self._stopping.is_set():
                    return
                is_late = number % 10 == 0
                ts = (LINE - 1 - number % DAY) if is_late else LINE + number * 7919 % (2 * DAY)
                status, answer = client("POST", "/v1/ingest/tick", tick(number, ts))
                self.outcomes.add(("late" if is_late else "new", status, answer.get("code", "")))
                self.stored += status == 201


def fill(api: ApiProcess, count: int) -> None:
    """Store ticks of the five days around the line, all but the last two days of them below it."""
    with closing(Client(api.port, api.token("alg"))) as client:
        for first in range(0, count, 2000):
            batch = [tick(number, START + number * 65_537 % (5 * DAY)) for number in range(first, first + 2000)]
            assert client("POST", "/v1/ingest/tick", {"ticks": batch})[1]["accepted"] == 2000


def prune(state_dir: Path) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-P", "-m", "marketdata", "prune", "--before", "2023-11-18T05:00:00Z"]
    return subprocess.Popen(
        arguments, cwd=ROOT, env=os.environ | {"MARKET_STATE_DIR": str(state_dir)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def count_below(connection: Connection) -> int:
    ((count,),) = connection.execute(f"SELECT count(*) FROM md_ticks_v1 WHERE {BELOW}").fetchall()
    return int(count)


def candles(client: Client) -> dict[str, Any]:
    """Every candle below the line of every interval that needs no tick, and some that are filled or in a time zone."""
    found = {}
    for symbol, interval in itertools.product(SYMBOLS, WIDTHS):
        for more in ("", "&timeZone=Europe/Berlin", "&fill=previous&timeZone=%2B05:30"):
            if interval == "1s":
                continue
            path = (
                f"/v1/chart?symbol={symbol}&interval={interval}&startTime={START}&endTime={LINE - 1}&limit=10000{more}"
            )
            status, answer = client("GET", path)
            assert status == 200
            # A candle that ends after the line changes with the ticks there.
            found[path] = [each for each in answer["candles"] if each["T"] < LINE]
    return found


def test_killed_prunes_change_no_candle(api: ApiProcess, loops: Callable[..., int]) -> None:
    kills = loops(quick=2, full=10)
    fill(api, PER_KILL * (kills + 2) * 5 // 3 // 2000 * 2000)
    with (
        connect(conninfo(api.state_dir)) as connection,
        closing(Client(api.port, api.token("read"))) as client,
    ):
        before = {symbol: below(connection, symbol) for symbol in SYMBOLS}
        shown = candles(client)
        left = count_below(connection)
        writer = None
        for _ in range(kills):
            process = prune(api.state_dir)
            left -= PER_KILL
            waited = threading.Event()
            while count_below(connection) > left:
                assert process.poll() is None, process.communicate()
                waited.wait(0.02)
            process.kill()
            process.communicate()
            assert count_below(connection)
            writer = writer or Writer(api)  # now the line is drawn
        assert writer is not None
        done = prune(api.state_dir)
        output, errors = done.communicate(timeout=SECONDS)
        assert (done.returncode, errors) == (0, "")
        assert output.startswith("line 2023-11-18, rounded down from 2023-11-18T05:00:00Z; deleted ")
        assert count_below(connection) == 0
        writer.stop()
        assert writer.outcomes == {("new", 201, ""), ("late", 409, "pruned")}
        assert writer.stored > 10
        assert {symbol: below(connection, symbol) for symbol in SYMBOLS} == before
        assert candles(client) == shown
        for symbol in SYMBOLS:
            above = [row for row in stored_rollups(connection, V1, symbol) if row[1] >= LINE * 1000]
            assert above == rollups(stored_ticks(connection, V1, symbol))
        refused = client("GET", f"/v1/chart?symbol={SYMBOLS[0]}&interval=1s&startTime={LINE - 1000}")
        assert (refused[0], refused[1]["code"], refused[1]["type"]) == (409, "pruned", "/problems#pruned")


def below(connection: Connection, symbol: str) -> list[tuple[Any, ...]]:
    """The stored candles below the line."""
    return [row for row in stored_rollups(connection, V1, symbol) if row[1] < LINE * 1000]
