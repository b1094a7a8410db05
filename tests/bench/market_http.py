"""The data API over HTTP: single ticks, batches with and without candles, charts beside another framework.

python -m tests.bench.market_http [TICKS]      (default 1 000 000; everything in one run, on one database)
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from marketdata.interval import LEVELS
from marketdata.postgres.cluster import conninfo
from tests.bench.figures import Figure, spread, table
from tests.bench.market_load import BATCH
from tests.functional.market_process import ROOT, ApiProcess

SECONDS = 8.0
ROUNDS = 3
START = 1_704_067_200_000
YEAR = 366 * 86_400_000
FULL = 6_000_000
"""The approximate number of ticks of a symbol in a year. More ticks are divided among several symbols."""
CHUNK = 20_000
WRITERS = 2
CHART = "/v1/chart?symbol=CHART:0&interval=1h&limit=500"
_RIVAL = ("fastapi", "uvicorn[standard]", "asyncpg")


def measure(ticks: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        api = ApiProcess(state, durable=True)
        api.start()
        try:
            symbols = max(1, round(ticks / FULL))
            _fill(state, ticks, symbols)
            return [*_levels(api, symbols), *_charts(api, state, symbols), *_singles(api), *_batches(api)]
        finally:
            api.stop()


def _fill(state: Path, ticks: int, symbols: int) -> None:
    """A year of each symbol, stored side by side in the order of time."""
    writers = min(symbols, WRITERS)
    with ThreadPoolExecutor(writers) as threads:
        for done in [threads.submit(_fill_part, state, ticks, symbols, writers, part) for part in range(writers)]:
            done.result()
    with psycopg.connect(conninfo(state), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE md_ticks_v1")
        connection.execute("VACUUM ANALYZE md_rollups_v1")


def _fill_part(state: Path, ticks: int, symbols: int, writers: int, part: int) -> None:
    """The ticks of every ``writers``-th symbol."""
    with psycopg.connect(conninfo(state), autocommit=True) as connection:
        for first in range(0, ticks, CHUNK):
            connection.execute(
                "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) "
                "SELECT 'CHART:' || n %% %(symbols)s, lpad(n::text, 12, '0'), "
                "timestamptz '2024-01-01Z' + make_interval(secs => n * 366 * 86400.0 / %(ticks)s), "
                "100 + (n * 7919 %% 5003) / 100.0, (n %% 1009) / 8.0 "
                "FROM generate_series(%(first)s::bigint, %(last)s) AS n "
                "WHERE n %% %(symbols)s %% %(writers)s = %(part)s",
                {
                    "symbols": symbols, "ticks": ticks, "writers": writers, "part": part,
                    "first": first, "last": min(first + CHUNK, ticks) - 1,
                },
            )  # fmt: skip


def _anywhere(symbols: int) -> str:
    """A random symbol and a random end, so that the same chart is not requested again soon. Before the end there are
    500 candles of every interval but ``1d``."""
    return f"symbol=CHART:{{0-{symbols}}}&end={{{START + YEAR * 6 // 10}-{START + YEAR}}}"


def _load(port: int, kind: str, clients: int, token: str, seconds: float = SECONDS) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "tests.bench.market_load", str(port), kind, str(clients), str(seconds)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, input=token, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(ended.stdout)
    unexpected = set(found["statuses"]) - {"200", "201"}
    if unexpected:
        raise SystemExit(f"{kind}: answers with {found['statuses']}")
    return found


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted(runs, key=lambda run: run["rate"])[len(runs) // 2]


def _figure(name: str, run: dict[str, Any], goal: str = "", *, per: int = 1, unit: str = "req/s") -> Figure:
    return Figure(name, f"{run['rate'] * per:,.0f} {unit}, {spread(run['latencies'])}", goal)


def _uncached(level: str, symbols: int) -> str:
    return f"/v1/chart?interval={level}&limit=500&{_anywhere(symbols).replace('end=', 'endTime=')}"


def _levels(api: ApiProcess, symbols: int) -> list[Figure]:
    token = api.token("read")
    return [
        _figure(
            f"{'220 to 366' if level == '1d' else '500'} candles of {level}, one client, uncached",
            _load(api.port, _uncached(level, symbols), 1, token, seconds=2),
            "p50 <= 5 ms, p99 <= 15 ms",
        )
        for level in LEVELS
    ]


def _charts(api: ApiProcess, state: Path, symbols: int) -> list[Figure]:
    token = api.token("read")
    kinds = {"ours, uncached": (api.port, _uncached("1h", symbols)), "ours, cached": (api.port, CHART)}
    with _rival(state) as rival:
        kinds |= {
            "FastAPI, rows": (rival, f"/rows?{_anywhere(symbols)}"),
            "FastAPI, text passed through": (rival, f"/text?{_anywhere(symbols)}"),
            "ours, the listener alone (`/healthz`)": (api.port, "/healthz"),
        }
        # Interleaved, so that other load on the machine affects all of them alike.
        runs = {name: [] for name in kinds}  # type: dict[str, list[dict[str, Any]]]
        for _ in range(ROUNDS):
            for name, (port, path) in kinds.items():
                runs[name].append(_load(port, path, 16, token))
    goals = {"ours, uncached": ">= 1 200 req/s", "ours, cached": ">= 3 000 req/s"}
    return [
        _figure(f"500 candles, 16 connections: {name}", _median(found), goals.get(name, ""))
        for name, found in runs.items()
    ]


def _singles(api: ApiProcess) -> list[Figure]:
    runs = [_load(api.port, "tick", 32, api.token("alg")) for _ in range(ROUNDS)]
    return [_figure("single ticks, 32 clients (durable)", _median(runs), ">= 8 000 ticks/s", unit="ticks/s")]


def _batches(api: ApiProcess) -> list[Figure]:
    """The same requests to a version whose candles are not kept: all that differs is the trigger."""
    environment = os.environ | {"MARKET_STATE_DIR": str(api.state_dir)}
    subprocess.run(
        [sys.executable, "-P", "-m", "marketdata", "version", "2"],
        cwd=ROOT, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    with psycopg.connect(conninfo(api.state_dir), autocommit=True) as connection:
        connection.execute("ALTER TABLE md_ticks_v2 DISABLE TRIGGER md_rollups_insert_v2")
    plain = ApiProcess(api.state_dir, TICKS_TABLE="md_ticks_v2", CANDLES_FUNCTION="md_candles_v2")
    plain.start()
    try:
        token, kept, bare = api.token("alg"), [], []
        for _ in range(ROUNDS):
            kept.append(_load(api.port, "batch", 4, token))
            bare.append(_load(plain.port, "batch", 4, token))
    finally:
        plain.stop()
    share = statistics.median(run["rate"] for run in kept) / statistics.median(run["rate"] for run in bare)
    return [
        _figure(
            "batches of 10 000, 4 clients, with candles", _median(kept), ">= 60 000 ticks/s", per=BATCH, unit="ticks/s"
        ),
        _figure("the same without candles", _median(bare), per=BATCH, unit="ticks/s"),
        Figure("with candles : without", f"{share:.2f}", ">= 0.75"),
    ]


@contextmanager
def _rival(state: Path) -> Iterator[int]:
    """Yields the port of FastAPI, which runs in a temporary environment of its own."""
    with tempfile.TemporaryDirectory(prefix="rival-", dir="/tmp") as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/pip", "install", "-q", *_RIVAL], check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        parts = psycopg.conninfo.conninfo_to_dict(conninfo(state))
        url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}&port={parts['port']}"
        process = subprocess.Popen(
            [f"{folder}/bin/python", "-P", str(Path(__file__).with_name("market_fastapi.py")), str(port)],
            env=os.environ | {"BENCH_DATABASE": url},
        )
        try:
            _wait_for(port)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(port: int) -> None:
    waiting = threading.Event()
    for _ in range(300):
        with suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/docs")
            connection.getresponse().read()
            connection.close()
            return
        waiting.wait(0.1)
    raise SystemExit("the other framework does not answer")


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)))
