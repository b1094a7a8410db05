"""The data API on a distributed version, and the clients that use it without a pause."""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.functional.market_process import ROOT, SECONDS, ApiProcess
from tests.release.citus.cluster import Database

START = 1_700_000_000_000
DAY = 86_400_000
SYMBOLS = tuple(f"C{n % 3}:S{n}-USD" for n in range(24))
TABLE = "md_ticks_v1"

Item = dict[str, Any]


class CitusMarket:
    """A distributed version with tokens, and processes of the API on it, which share a state directory."""

    def __init__(self, database: Database, folder: Path, shards: int = 8) -> None:
        self.database = database
        self._folder = folder
        self._processes: list[ApiProcess] = []
        self.command("version", "1", "--shards", str(shards))
        (folder / "secrets").mkdir(mode=0o700)
        for name, scope in (("read", "read"), ("alg", "write")):
            self.command("token", "create", "--name", name, "--scope", scope, "--output", f"secrets/{name}.json")

    def command(self, *arguments: str) -> None:
        settings = {"DATABASE_URL": self.database.url, "MARKET_STATE_DIR": str(self._folder)}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "marketdata", *arguments], cwd=self._folder, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | settings, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def started(self, **settings: str) -> ApiProcess:
        """One more process of the API."""
        process = ApiProcess(self._folder, DATABASE_URL=self.database.url, **settings)
        self._processes.append(process)
        process.start()
        return process

    def close(self) -> None:
        for process in self._processes:
            process.stop()

    @property
    def log(self) -> str:
        """What the processes logged."""
        return self._processes[0].log.read_text()


def tick(chance: random.Random, id: str, symbol: str | None = None) -> Item:
    """A tick with a random time in four days."""
    return {
        "symbol": symbol or chance.choice(SYMBOLS), "id": id, "ts": START + chance.randrange(4 * DAY // 1000) * 1000,
        "price": f"{chance.randrange(1, 10**6)}.{chance.randrange(10**4):04d}",
        "size": f"{chance.randrange(10**4)}.{chance.randrange(1, 1000)}",
    }  # fmt: skip


def first_items(streamed: int) -> list[Item]:
    """Ticks of all symbols, and ``streamed`` of the first one."""
    chance = random.Random(1)
    return [
        *(tick(chance, f"first-{n}", SYMBOLS[n % len(SYMBOLS)]) for n in range(2400)),
        *(tick(chance, f"streamed-{n}", SYMBOLS[0]) for n in range(streamed)),
    ]


class Traffic:
    """Clients in threads, until ``stop``. Writers send to one process and read what they wrote from both. Readers and
    streams ask the other one. ``failures`` are answers that a client must not get."""

    def __init__(self, writes: ApiProcess, reads: ApiProcess, first: list[Item], *, writers: int = 3) -> None:
        self._writes, self._reads = writes, reads
        self.failures: list[Any] = []
        self._stopping = threading.Event()
        with closing(Asking(writes, "alg")) as ask:
            for start in range(0, len(first), 5000):
                assert ask("POST", "/v1/ingest/tick", {"ticks": first[start : start + 5000]})[0] == 200
        self.acknowledged = {item["id"] for item in first}
        loops: list[tuple[Callable[[int], None], int]] = [
            *((self._write, n) for n in range(writers)), (self._read, 0), (self._read, 1), (self._stream, 0)
        ]  # fmt: skip
        self._threads = [threading.Thread(target=self._guarded, args=each, daemon=True) for each in loops]

    def __enter__(self) -> Traffic:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join(SECONDS)
            assert not each.is_alive()

    def wait(self, seconds: float) -> None:
        """Let the clients go on for some time. None of them may have failed."""
        self._stopping.wait(seconds)
        assert self.failures == []

    def _guarded(self, loop: Callable[[int], None], number: int) -> None:
        try:
            loop(number)
        except Exception as error:
            self.failures.append(error)

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        with (
            closing(Asking(self._writes, "alg")) as write,
            closing(Asking(self._writes, "read")) as own,
            closing(Asking(self._reads, "read")) as other,
        ):
            round = 0
            while not self._stopping.wait(0.005):
                round += 1
                items = [tick(chance, f"w{number}-{round}-{n}") for n in range(chance.choice((1, 1, 1, 20, 60, 300)))]
                status, headers, content = write(
                    "POST", "/v1/ingest/tick", items[0] if len(items) == 1 else {"ticks": items}
                )
                if status not in (200, 201) or json.loads(content).get("rejected"):
                    self.failures.append(("write", len(items), status, content[:500]))
                    return
                self.acknowledged.update(item["id"] for item in items)
                known = {"Marketdata-Version": headers["Marketdata-Version"]}
                # A single process remembers what it has written.
                self._expect_current(own, items[0], known if self._writes is self._reads else {})
                self._expect_current(other, items[0], known)

    def _expect_current(self, read: Asking, item: Item, headers: dict[str, str]) -> None:
        path = "/v1/ticks?symbol={symbol}&startTime={ts}&endTime={ts}&limit=10000".format_map(item)
        status, _, content = read("GET", path, headers=headers)
        if status != 200 or item["id"].encode() not in content:
            self.failures.append(("not current", status, item["id"], headers, content[:500]))

    def _read(self, number: int) -> None:
        chance = random.Random(-number)
        known: dict[str, str] = {}
        with closing(Asking(self._reads, "read")) as read:
            while not self._stopping.wait(0.005):
                path = chance.choice(PATHS).format(chance.choice(SYMBOLS))
                headers = {"If-None-Match": known[path]} if path in known else {}
                status, found, content = read("GET", path, headers=headers)
                if status not in (200, 304):
                    self.failures.append((path, status, content[:500]))
                if "ETag" in found:
                    known[path] = found["ETag"]

    def _stream(self, _number: int) -> None:
        most = 0
        with closing(Asking(self._reads, "read")) as read:
            while not self._stopping.wait(0.05):
                status, _, content = read("GET", f"/v1/ticks?symbol={SYMBOLS[0]}&format=csv")
                lines = content.count(b"\n")
                if status != 200 or lines < most:
                    self.failures.append(("stream", status, lines, most))
                most = lines


PATHS = (
    "/v1/symbols", "/v1/summary?sort=volume&limit=10", f"/v1/summary?symbol={{}},{SYMBOLS[1]},{SYMBOLS[2]}",
    "/v1/chart?symbol={}&interval=1m&limit=100", "/v1/chart?symbol={}&interval=1h&timeZone=Europe/Berlin&limit=20",
    "/v1/ticks?symbol={}&limit=50", "/v1/coverage?symbol={}", "/v1/udf/symbols?symbol={}",
    "/api/v3/klines?symbol={}&interval=1h", "/api/v3/aggTrades?symbol={}&limit=20", "/api/v3/ticker/24hr?symbol={}",
)  # fmt: skip


class Asking:
    """One kept-alive connection; a call returns the status, the headers and the content."""

    def __init__(self, api: ApiProcess, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=SECONDS)
        self._headers = {"Authorization": f"Bearer {api.token(token)}", "Content-Type": "application/json"}

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, self._headers | (headers or {}))
        response = self._connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def close(self) -> None:
        self._connection.close()


def stray_rows(database: Database) -> list[Any]:
    """The tables of shards with rows on a node that does not hold the shard."""
    placed = set(database.execute("SELECT shardid, nodeport FROM pg_dist_placement JOIN pg_dist_node USING (groupid)"))
    found = []
    for node in database.nodes:
        tables = node.execute(
            rf"SELECT relname, oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relname ~ '^{TABLE}_\d+$'",
            database=database.name,
        )
        for name, table in tables:
            if (int(name.rpartition("_")[2]), node.port) not in placed:
                found.append((node.port, name, node.execute(f"SELECT count(*) FROM {table}", database=database.name)))
    return found
