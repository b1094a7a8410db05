"""The data API on a distributed version, the clients that use it without a pause, and a plain version to compare with.

Every item that the API acknowledged is noted. A plain version that gets the same items must give the same answers.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, time
from typing import Any

from marketdata.interval import WIDTHS
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client
from tests.release.citus.cluster import CitusCluster, Database

START = 1_700_000_000_000
DAY = 86_400_000
SYMBOLS = tuple(f"C{n % 3}:S{n}-USD" for n in range(24))
CHAINS = ("C0", "C1", "C2")
BLOCKS = 200
TABLE = "md_ticks_v1"
OF_THE_MOMENT = re.compile(rb'"(as_of|serverTime|openTime|closeTime)":\d+')

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

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a process of the API, except its state directory."""
        return {"DATABASE_URL": self.database.url}

    def command(self, *arguments: str) -> None:
        settings = self.settings | {"MARKET_STATE_DIR": str(self._folder)}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "marketdata", *arguments], cwd=self._folder, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | settings, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def started(self, **settings: str) -> ApiProcess:
        """One more process of the API."""
        process = ApiProcess(self._folder, **self.settings, **settings)
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
    """A tick with a random time in four days. Half of them are in a block."""
    made: Item = {
        "symbol": symbol or chance.choice(SYMBOLS), "id": id, "ts": START + chance.randrange(4 * DAY // 1000) * 1000,
        "price": f"{chance.randrange(1, 10**6)}.{chance.randrange(10**4):04d}",
        "size": f"{chance.randrange(10**4)}.{chance.randrange(1, 1000)}",
    }  # fmt: skip
    if chance.random() < 0.5:
        number = chance.randrange(BLOCKS)
        made["block"] = {"number": number, "hash": f"0x{number:02x}"}
    return made


def first_items(chance: random.Random, streamed: int) -> list[Item]:
    """Ticks of all symbols, some of the last hour, and ``streamed`` of the first symbol."""
    recent = int(time()) * 1000 - 3_600_000
    return [
        *(tick(chance, f"first-{n}", SYMBOLS[n % len(SYMBOLS)]) for n in range(2400)),
        *(tick(chance, f"streamed-{n}", SYMBOLS[0]) for n in range(streamed)),
        *(tick(chance, f"recent-{n}", SYMBOLS[n % len(SYMBOLS)]) | {"ts": recent + n * 1000} for n in range(100)),
    ]


class Journal:
    """What was acknowledged, in the order of each client: batches of items, and ranges of coverage."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Item]] = []
        self.coverage: list[Item] = []

    def replay(self, client: Client) -> None:
        items = [item for batch in self.batches for item in batch]
        for first in range(0, len(items), 5000):
            status, answer = client("POST", "/v1/ingest/tick", {"ticks": items[first : first + 5000]})
            assert status == 200, answer
        for each in self.coverage:
            assert client("PUT", "/v1/coverage", each)[0] == 200


class Traffic:
    """Clients in threads, until ``stop``. Writers send to one process and read what they wrote from both. Readers and
    streams ask the other one. ``failures`` are answers that a client must not get."""

    def __init__(self, writes: ApiProcess, reads: ApiProcess, journal: Journal, *, writers: int = 3) -> None:
        self._writes, self._reads = writes, reads
        self._tokens = {name: writes.token(name) for name in ("read", "alg")}
        self.journal = journal
        self.failures: list[Any] = []
        self.counts: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        self._stopping = threading.Event()
        loops: list[tuple[Callable[[int], None], int]] = [
            *((self._write, n) for n in range(writers)), (self._read, 0), (self._read, 1), (self._stream, 0)
        ]  # fmt: skip
        self._threads = [threading.Thread(target=self._guarded, args=each, daemon=True) for each in loops]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join(SECONDS)
            assert not each.is_alive()

    def wait(self, seconds: float) -> None:
        """Let the clients go on for some time."""
        self._stopping.wait(seconds)

    def _guarded(self, loop: Callable[[int], None], number: int) -> None:
        try:
            loop(number)
        except Exception as error:
            self.failures.append(error)

    def _timed(self, kind: str, began: float) -> None:
        self.counts[kind] += 1
        self.longest[kind] = max(monotonic() - began, self.longest.get(kind, 0.0))

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        with (
            closing(Asking(self._writes.port, self._tokens["alg"])) as write,
            closing(Asking(self._writes.port, self._tokens["read"])) as own,
            closing(Asking(self._reads.port, self._tokens["read"])) as other,
        ):
            round = 0
            while not self._stopping.wait(0.005):
                round += 1
                size = chance.choice((1, 1, 1, 20, 60, 300))
                items = [tick(chance, f"w{number}-{round}-{n}") for n in range(size)]
                items[0].pop("block", None)  # so that no writer retracts the tick
                version = self._send(write, items, number, chance)
                if version is None:
                    return
                known = {"Marketdata-Version": str(version)}
                # A single process remembers what it has written.
                self._expect_current(own, items[0], known if self._writes is self._reads else {}, 0)
                # The counter of a batch is the greatest one of its symbols. The counters of its other symbols may never
                # reach it.
                self._expect_current(other, items[0], known, version if size == 1 else 0)
                if round % 20 == 0:
                    self._cover(write, number, round)

    def _send(self, write: Asking, items: list[Item], number: int, chance: random.Random) -> int | None:
        """Send the ticks, sometimes with other items, and return the version of the answer; None if it failed."""
        body: Any = items[0] if len(items) == 1 else {"ticks": items}
        if len(items) > 1 and chance.random() < 0.3:
            hash_ = f"0x{chance.randrange(BLOCKS):02x}"
            items += [
                {"retract": {"symbol": chance.choice(SYMBOLS[1:]), "block_hash": hash_}},
                {"finalize": {"chain": CHAINS[number % 3], "block": self.counts["write"] // 10, "ts": START}},
            ]
        began = monotonic()
        status, headers, content = write("POST", "/v1/ingest/tick", body)
        self._timed("write", began)
        if status not in (200, 201) or not _rejections(content) <= {"retracted"}:
            self.failures.append(("write", len(items), status, content[:500]))
            return None
        self.journal.batches.append(items)
        return int(headers["Marketdata-Version"])

    def _cover(self, write: Asking, number: int, round: int) -> None:
        range_ = {
            "symbol": SYMBOLS[number], "from": START + round * 1000, "to": START + round * 3000, "state": "indexed"
        }  # fmt: skip
        began = monotonic()
        status, _, content = write("PUT", "/v1/coverage", range_)
        self._timed("coverage", began)
        if status != 200:
            self.failures.append(("coverage", status, content))
        self.journal.coverage.append(range_)

    def _expect_current(self, read: Asking, item: Item, headers: dict[str, str], version: int) -> None:
        symbol, ts = item["symbol"], item["ts"]
        began = monotonic()
        path = f"/v1/ticks?symbol={symbol}&startTime={ts}&endTime={ts}&limit=10000"
        status, _, content = read("GET", path, headers=headers)
        self._timed("ticks", began)
        if status != 200 or item["id"].encode() not in content:
            self.failures.append(("not current", status, item["id"], headers, content[:500]))
        began = monotonic()
        status, found, content = read("GET", f"/v1/chart?symbol={symbol}&interval=1m&limit=10", headers=headers)
        self._timed("chart", began)
        if status != 200 or int(found["ETag"].split('"')[1].partition(".")[0]) < version:
            self.failures.append(("old chart", status, version, found.get("ETag"), content[:500]))

    def _read(self, number: int) -> None:
        chance = random.Random(-number)
        # Each of several processes sends only one stream at a time.
        paths = [each for each in urls(SYMBOLS, ("1m", "1h")) if not re.fullmatch("/v1/ticks.*&format=csv", each)]
        known: dict[str, str] = {}
        with closing(Asking(self._reads.port, self._tokens["read"])) as read:
            while not self._stopping.wait(0.005):
                path = chance.choice(paths)
                headers = {"If-None-Match": known[path]} if path in known else {}
                began = monotonic()
                status, found, content = read("GET", path, headers=headers)
                self._timed("read", began)
                if status not in (200, 304):
                    self.failures.append((path, status, content[:500]))
                if "ETag" in found:
                    known[path] = found["ETag"]

    def _stream(self, _number: int) -> None:
        most = 0
        with closing(Asking(self._reads.port, self._tokens["read"])) as read:
            while not self._stopping.wait(0.05):
                began = monotonic()
                status, _, content = read("GET", f"/v1/ticks?symbol={SYMBOLS[0]}&format=csv")
                self._timed("stream", began)
                lines = content.count(b"\n")
                if status != 200 or lines < most:  # nobody retracts these ticks
                    self.failures.append(("stream", status, lines, most))
                most = lines


def _rejections(content: bytes) -> set[str]:
    return {each["code"] for each in json.loads(content).get("rejected", ())}


class Asking:
    """One kept-alive connection; a call returns the status, the headers and the content."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, self._headers | (headers or {}))
        response = self._connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def close(self) -> None:
        self._connection.close()


def urls(symbols: Sequence[str], intervals: Sequence[str]) -> Iterator[str]:
    """A request of each kind to each endpoint that reads."""
    a, b, c = symbols[:3]
    yield from ("/v1/symbols", "/v1/summary?sort=volume&limit=10", "/v1/summary?sort=newest&limit=30&closes=1h")
    yield from ("/v1/summary?sort=change&limit=7", f"/v1/summary?symbol={a},{b},{c}", "/v1/udf/config")
    yield from (f"/v1/udf/search?query={a[:4]}&limit=30", f"/v1/udf/quotes?symbols={c},{a},NOPE")
    yield from ("/api/v3/exchangeInfo", "/api/v3/ticker/price", "/api/v3/ticker/24hr")
    yield f"/api/v3/ticker/price?symbols=%5B%22{a}%22,%22{c}%22%5D"
    for symbol in symbols:
        for interval in intervals:
            for question in _QUESTIONS:
                yield f"/v1/chart?symbol={symbol}&interval={interval}&{question}"
            yield f"/api/v3/klines?symbol={symbol}&interval={interval}"
        yield from (f"/v1/ticks?symbol={symbol}&{each}" for each in ("limit=50", "limit=70&sort=asc", "format=csv"))
        yield from (f"/v1/coverage?symbol={symbol}", f"/v1/udf/symbols?symbol={symbol}")
        yield f"/v1/udf/history?symbol={symbol}&resolution=60&from={START // 1000}&to={(START + 4 * DAY) // 1000}"
        yield f"/api/v3/ticker/24hr?symbol={symbol}"
        yield from (f"/api/v3/aggTrades?symbol={symbol}&limit=20", f"/api/v3/trades?symbol={symbol}")


_QUESTIONS = (
    "limit=100", f"limit=50&startTime={START + DAY}", f"limit=20&sort=desc&endTime={START + 2 * DAY}",
    f"fill=previous&limit=30&endTime={START + 2 * DAY}", "timeZone=%2B05:30&limit=40",
    "timeZone=Europe/Berlin&limit=20", "format=columns&limit=30", "format=csv&limit=30",
)  # fmt: skip


def differences(
    plain: ApiProcess,
    distributed: ApiProcess,
    symbols: Sequence[str] = SYMBOLS,
    intervals: Sequence[str] = tuple(WIDTHS),
) -> tuple[int, list[Any]]:
    """Ask both for everything. Returns the number of answers that were compared, and those that differ."""
    found, count = [], 0
    with (
        closing(Asking(plain.port, plain.token("read"))) as one,
        closing(Asking(distributed.port, distributed.token("read"))) as other,
    ):
        for path in urls(symbols, intervals):
            count += 1
            if _answer(one, path) != _answer(other, path):
                # Values that depend on the time of the request may have changed between the two.
                pair = _answer(one, path), _answer(other, path)
                if pair[0] != pair[1]:
                    found.append((path, *(each[:1000] for _, each in pair)))
    return count, found


def _answer(ask: Asking, path: str) -> tuple[int, bytes]:
    status, _, content = ask("GET", path)
    return status, OF_THE_MOMENT.sub(rb'"\1":0', content)


@contextmanager
def running_market(citus: CitusCluster, folder: Path | None = None) -> Iterator[CitusMarket]:
    """A distributed version in a database of its own. ``folder`` is a new state directory."""
    database = citus.fresh_database()
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as made:
        found = CitusMarket(database, folder or Path(made))
        yield found
        found.close()
    database.drop()


@contextmanager
def running_plain() -> Iterator[ApiProcess]:
    """The API on a private cluster."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = ApiProcess(Path(folder))
        found.start()
        yield found
        found.stop()


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
