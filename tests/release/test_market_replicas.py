"""DATABASE_READ_URL with several streaming replicas: which one is read, and that no answer goes back in time when one
lags, stops, or is promoted."""

from __future__ import annotations

import dataclasses
import random
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.api.serve import Times
from marketdata.postgres.cluster import Cluster
from marketdata.settings import Settings
from tests.marketdata.api.conftest import Api, eventually, running_api, tick
from tests.marketdata.api.standby import Standby, private_cluster, running_standby

__all__ = ["tick"]

pytestmark = pytest.mark.functional

Make = Callable[..., dict[str, Any]]
INGEST = "/v1/ingest/tick"
LIMIT = 2.0
OLDEST = LIMIT + 1.5
"""Positions are measured in turns, and a measurement takes some time on a busy machine."""
TURNS = 6
READS = (
    "/v1/chart?symbol={}&interval=1M",
    "/v1/ticks?symbol={}&limit=10000",
    "/api/v3/trades?symbol={}&limit=1000",
)

COUNTER = "SELECT max(version) FROM md_symbols_v1"


@pytest.fixture
def primary() -> Iterator[tuple[Cluster, Settings]]:
    with private_cluster() as found:
        yield found


@pytest.fixture
def one(primary: tuple[Cluster, Settings]) -> Iterator[Standby]:
    with running_standby(primary[0]) as found:
        yield found


@pytest.fixture
def two(primary: tuple[Cluster, Settings]) -> Iterator[Standby]:
    with running_standby(primary[0]) as found:
        yield found


@contextmanager
def serving(settings: Settings, url: str, *replicas: Standby) -> Iterator[Api]:
    hosts = make_conninfo(settings.database_url or "", host=",".join(each.host for each in replicas))
    settings = dataclasses.replace(settings, database_url=url, database_read_url=hosts, read_lag_s=LIMIT)
    with running_api(settings, Times(measure=0.1)) as api:
        eventually(lambda: all(state == "usable" for state in states(api)))
        yield api


@pytest.fixture
def api(primary: tuple[Cluster, Settings], one: Standby, two: Standby) -> Iterator[Api]:
    with serving(primary[1], primary[1].database_url or "", one, two) as found:
        yield found


@pytest.fixture
def writer(primary: tuple[Cluster, Settings]) -> Iterator[Api]:
    """Another process, which writes. Its reads go to the primary."""
    with running_api(primary[1]) as found:
        yield found


def states(api: Api) -> list[str]:
    return [each["state"] for each in api.get("/ready")["replicas"]]


def count(api: Api, symbol: str, **options: Any) -> int:
    return len(api.get(f"/v1/ticks?symbol={symbol}&limit=10000", **options)["ticks"])


def write(api: Api, tick: dict[str, Any]) -> dict[str, str]:
    """Store a tick. Returns the header for later reads."""
    return {"Marketdata-Version": api("POST", INGEST, tick, status=201).headers["Marketdata-Version"]}


def test_a_promoted_replica_is_not_read(api: Api, writer: Api, one: Standby, two: Standby, tick: Make) -> None:
    write(writer, tick(symbol="P:A"))
    eventually(lambda: count(api, "P:A") == 1)
    one.promote()
    eventually(lambda: states(api) == ["promoted", "usable"])
    with psycopg.connect(one.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) SELECT 'P:A', i::text, '2023-11-14Z', 7, 1"
            " FROM generate_series(1, 3) AS i"
        )
    two.stop()
    for number in range(2, 5):
        for path in (*(path.format("P:A") for path in READS), "/v1/symbols"):
            api("GET", path, status=200)
        header = write(writer, tick(symbol="P:A", id=f"later-{number}"))
        assert count(api, "P:A", headers=header) == number
    eventually(lambda: states(api) == ["promoted", "database_unavailable"])
    assert count(api, "P:A") == 4


def test_a_failover_that_loses_writes_gives_no_answer_of_the_lost_history(state_dir: Path, tick: Make) -> None:
    """The primary and ``two`` have a write that ``one`` does not have, and ``one`` becomes the primary. Its next write
    gets the same counter, in a transaction of the same number."""
    with ExitStack() as first, ExitStack() as others:
        cluster, settings = first.enter_context(private_cluster())
        one, two = (others.enter_context(running_standby(cluster)) for _ in range(2))
        hosts = f"{cluster.folder},{one.host}"
        url = make_conninfo(settings.database_url or "", host=hosts, target_session_attrs="read-write")
        settings = dataclasses.replace(settings, state_dir=state_dir)
        api = others.enter_context(serving(settings, url, two))
        write(api, tick(symbol="F:A"))
        eventually(lambda: one.value(COUNTER) == 1)
        one.stop()
        with psycopg.connect(cluster.conninfo, autocommit=True) as connection:
            for _ in range(20):
                connection.execute("SELECT pg_current_xact_id()")
        write(api, tick(symbol="F:A", id="b", price="31"))
        eventually(lambda: two.value(COUNTER) == 2)
        lost = int(two.value("SELECT xmin::text FROM md_symbols_v1"))
        tags = {path: api("GET", path.format("F:A"), status=200).headers["ETag"] for path in READS}
        first.close()
        for path, tag in tags.items():  # while there is no primary, the replica is read
            api("GET", path.format("F:A"), headers={"If-None-Match": tag}, status=304)
        one.start()
        one.promote()
        while int(one.value("SELECT pg_current_xact_id()::text")) < lost - 1:
            pass
        eventually(lambda: api("GET", "/ready").status_int == 200)
        write(api, tick(symbol="F:A", id="b", price="41"))
        assert (one.value(COUNTER), int(one.value("SELECT xmin::text FROM md_symbols_v1"))) == (2, lost)
        for path, tag in tags.items():
            for headers in ({}, {"If-None-Match": tag}, {"Marketdata-Version": "2"}):
                assert '"41"' in api("GET", path.format("F:A"), headers=headers, status=200).text
        eventually(lambda: states(api) == ["not_following"])


class Reader:
    """Asks for the same again and again, like a page that is open. It sends the ETag of its last answer."""

    def __init__(self, api: Api, path: str, written: list[float]) -> None:
        self._api = api
        self._path = path
        self._written = written
        self._tag: dict[str, str] = {}
        self._seen = 0
        self.answers = {200: 0, 304: 0}

    def read(self) -> None:
        before = time.monotonic() - OLDEST
        expected = bisect_left(self._written, before)
        response = self._api("GET", self._path, headers=self._tag)
        assert response.status_int in self.answers, response.text
        self.answers[response.status_int] += 1
        if response.status_int == 200:
            found = re.findall(r'"n":(\d+)', response.text)
            seen = sum(map(int, found)) if found else response.text.count('"price"')
            assert seen >= self._seen, "the answer is older than the one before"
            self._seen, self._tag = seen, {"If-None-Match": response.headers["ETag"]}
        assert self._seen >= expected, "the answer is older than MARKET_READ_LAG_S"


def test_no_answer_is_older_than_the_one_before(
    api: Api, writer: Api, one: Standby, two: Standby, tick: Make, rng: random.Random
) -> None:
    """Replicas lag, pause and stop in turn. The answers to a client never go back in time, and none is older than
    MARKET_READ_LAG_S."""
    written: list[float] = []
    write(writer, tick(symbol="O:A", id="0"))
    written.append(time.monotonic())
    eventually(lambda: count(api, "O:A") == 1)
    readers = [Reader(api, path.format("O:A"), written) for path in READS[:2]]  # the third one ends at 1000
    stopping = threading.Event()

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not stopping.is_set():
                work()
        finally:
            stopping.set()

    def write_one() -> None:
        write(writer, tick(symbol="O:A", id=f"{len(written)}"))
        written.append(time.monotonic())

    def after_writes(more: int) -> None:
        wanted = len(written) + more
        eventually(lambda: stopping.is_set() or len(written) >= wanted)

    def disturb() -> None:
        for _ in range(TURNS):
            first, second = rng.sample((one, two), 2)
            first.set_delay(rng.choice((0, 200, 1500, 60_000)))
            second.set_delay(rng.choice((0, 100)))
            after_writes(rng.choice((20, 150)))
            second.stop()
            after_writes(25)
            second.start()
        stopping.set()

    try:
        with ThreadPoolExecutor() as threads:
            running = [threads.submit(repeat, work) for work in (write_one, disturb, *(each.read for each in readers))]
            for each in running:
                each.result()
    finally:
        for standby in (one, two):
            standby.set_delay(0)
    for reader in readers:
        assert min(reader.answers.values()) > 10, reader.answers
