"""A disk that is really full: a small file system of the cluster's own, in a mount namespace that ends with the API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from tests.functional import small_disk
from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import until
from tests.marketdata.store.brute_force import rollups
from tests.marketdata.store.conftest import stored_rollups, stored_ticks

pytestmark = pytest.mark.functional

BYTES = 160 << 20
START = 1_700_000_000_000
SYMBOL = "FULL:DISK"
V1 = Version.of("md", 1)
CHART = f"/v1/chart?symbol={SYMBOL}&interval=1d"
Answer = tuple[int, Any]


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    folder = state_dir / "cluster"
    folder.mkdir()
    process = ApiProcess(state_dir, inside=small_disk.inside(folder, BYTES))
    process.start()
    yield process
    process.stop()
    assert not os.path.ismount(folder)


class Disk(small_disk.Disk):
    """The cluster's file system, and its database."""

    def __init__(self, api: ApiProcess) -> None:
        super().__init__(api.pid, api.state_dir / "cluster")
        self._state_dir = api.state_dir

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        with connect(make_conninfo(conninfo(self._state_dir), host=str(self.seen))) as connection:
            yield connection

    def switch_log(self) -> None:
        with self.connection() as connection:
            connection.execute("SELECT pg_switch_wal()")


class Writer:
    """Sends ticks that nobody sent before, and knows which were acknowledged."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._number = 0
        self.acknowledged: list[str] = []

    def __call__(self, count: int = 1) -> Answer:
        ticks = [self._tick(self._number + place) for place in range(count)]
        self._number += count
        status, answer = self._client("POST", "/v1/ingest/tick", ticks[0] if count == 1 else {"ticks": ticks})
        if status < 300:
            assert count == 1 or answer["rejected"] == []
            self.acknowledged += [tick["id"] for tick in ticks]
        return status, answer

    def _tick(self, number: int) -> dict[str, Any]:
        # A minute each, so that candles need room too.
        at = START + number * 60_000
        return {"symbol": SYMBOL, "id": f"{number:0128}", "ts": at, "price": f"{1 + number % 97}.5", "size": "1.25"}


def eventually(ask: Callable[[], Answer], wanted: Callable[[Answer], bool]) -> None:
    """Ask until the answer is the wanted one; meanwhile only a refusal for a time is right."""

    def is_wanted() -> bool:
        status, answer = found = ask()
        assert wanted(found) or status in (503, 507) or status < 300, answer
        return wanted(found)

    until(is_wanted, 60)


def is_done(answer: Answer) -> bool:
    return answer[0] < 300


def is_full(answer: Answer) -> bool:
    return answer[0] in (503, 507) and answer[1]["code"] == "disk_full"


def assert_kept(disk: Disk, writer: Writer) -> None:
    with disk.connection() as connection:
        held = stored_ticks(connection, V1, SYMBOL)
        assert len(writer.acknowledged) > 500
        assert not set(writer.acknowledged) - {each.id for each in held}
        assert stored_rollups(connection, V1, SYMBOL) == rollups(held)


def test_on_a_full_disk_writes_are_refused_and_nothing_acknowledged_is_lost(api: ApiProcess) -> None:
    """Tables cannot grow: writes are refused, reads go on. Then the log cannot grow either, and PostgreSQL ends. When
    there is room again, the same process writes again, and every acknowledged tick is stored."""
    disk = Disk(api)
    pid = api.pid
    with closing(Client(api.port, api.token("alg"))) as sender, closing(Client(api.port, api.token("read"))) as reader:
        write = Writer(sender)
        assert write(500)[0] == 200
        # The write-ahead log gets a fresh segment of 16 MiB, so that the tables run out of space before the log does.
        disk.switch_log()
        assert write()[0] == 201
        disk.fill()
        eventually(lambda: write(500), is_full)
        for _ in range(5):
            disk.fill()
            status, problem = write(500)
            assert (status, problem["code"]) == (507, "disk_full")
            assert f"the file system {api.state_dir / 'cluster'} " in problem["detail"]
            assert reader("GET", CHART)[0] == 200
            assert reader("GET", f"/v1/ticks?symbol={SYMBOL}")[0] == 200
            status, found = reader("GET", "/ready")
            assert (status, found["code"], found["detail"]) == (503, "disk_full", problem["detail"])
        assert "disk_full, SQLSTATE 53100" in api.log.read_text()
        disk.free()
        assert reader("GET", "/ready")[0] == 200
        assert write()[0] == 201
        assert write(500)[0] == 200
        assert_kept(disk, write)

        disk.fill()
        disk.switch_log()
        eventually(write, is_full)
        assert reader("GET", CHART)[0] in (200, 503)
        eventually(lambda: reader("GET", "/ready"), is_full)
        status, problem = write()
        assert (status, problem["code"]) == (507, "disk_full")
        assert "DATABASE_URL" not in problem["detail"] + api.log.read_text()
        disk.free()
        eventually(write, is_done)
        eventually(lambda: reader("GET", CHART), is_done)
        assert write(500)[0] == 200
        assert_kept(disk, write)
    assert api.pid == pid
