"""Live push: from a commit to its arrival at 100 clients; ingest with and without subscribers and notifications.

python -m tests.bench.market_live      (everything in one run, on one database)
"""

from __future__ import annotations

import json
import os
import re
import selectors
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from marketdata.postgres.cluster import conninfo
from tests.bench.figures import Figure, spread, table
from tests.bench.market_http import ROUNDS, _load
from tests.bench.market_load import BATCH, SYMBOLS
from tests.functional.market_process import ROOT, ApiProcess
from tests.marketdata.api.live_client import LiveClient

CLIENTS = 100
COMMITS = 200
GAP_SECONDS = 0.1
LOAD_SECONDS = 6.0
_COUNT = re.compile(rb'"n":(\d+)')
_SILENT = "CREATE OR REPLACE FUNCTION md_changed_v1(symbol text, first timestamptz, last timestamptz, kind text)"
_SILENT += " RETURNS void LANGUAGE sql AS 'SELECT 1'"


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        api = ApiProcess(Path(folder), durable=True)
        api.start()
        try:
            with psycopg.connect(conninfo(api.state_dir), autocommit=True) as connection:
                return [_pushed(api, connection), *_ingested(api, connection)]
        finally:
            api.stop()


def _pushed(api: ApiProcess, connection: psycopg.Connection[Any]) -> Figure:
    """The time from sending COMMIT to the arrival, which includes writing the log to the disk."""
    _insert(connection, 0)
    sent = {}
    with _subscribers(api, ["LIVE:A"], COMMITS + 1) as clients:
        waiting = threading.Event()
        for number in range(1, COMMITS + 1):
            waiting.wait(GAP_SECONDS)
            with connection.transaction():
                _insert(connection, number)
                sent[number + 1] = time.monotonic()
        received = json.loads(clients.communicate(timeout=60)[0])
    # A candle that shows a commit shows all before it, too.
    seconds = [
        next(at for count, at in of_client if count >= commit) - began
        for of_client in received
        for commit, began in sent.items()
    ]
    return Figure(f"commit to arrival, {CLIENTS} clients", spread(seconds), "p50 <= 20 ms, p99 <= 100 ms")


def _insert(connection: psycopg.Connection[Any], number: int) -> None:
    connection.execute(
        "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) VALUES ('LIVE:A', %s, '2026-01-01Z', %s, 1)",
        (f"{number}", 100 + number),
    )


def _ingested(api: ApiProcess, connection: psycopg.Connection[Any]) -> list[Figure]:
    token = api.token("alg")
    row = connection.execute("SELECT pg_get_functiondef('md_changed_v1'::regproc)").fetchone()
    assert row is not None
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    loads = (("tick", 32, 1), ("batch", 4, BATCH))
    for kind, clients, _ in loads:
        _load(api.port, kind, clients, token, 1.0)  # makes the symbols
    symbols = [f"BENCH:{number}" for number in range(SYMBOLS)]
    for _ in range(ROUNDS):
        for kind, clients, _ in loads:
            connection.execute(_SILENT)
            runs.setdefault((kind, "without notifications"), []).append(
                _load(api.port, kind, clients, token, LOAD_SECONDS)
            )
            connection.execute(row[0])
            runs.setdefault((kind, "without subscribers"), []).append(
                _load(api.port, kind, clients, token, LOAD_SECONDS)
            )
            with _subscribers(api, symbols, 0) as watching:
                runs.setdefault((kind, f"with {CLIENTS} subscribers"), []).append(
                    _load(api.port, kind, clients, token, LOAD_SECONDS)
                )
                watching.terminate()
    figures = []
    for kind, clients, per in loads:
        first = None
        for (of, how), found in runs.items():
            if of == kind:
                rate = statistics.median(run["rate"] for run in found) * per
                first = first or rate
                name = "single ticks" if per == 1 else f"batches of {per}"
                figures.append(Figure(f"{name}, {clients} clients, {how}", f"{rate:,.0f} ticks/s, {rate / first:.2f}"))
    return figures


@contextmanager
def _subscribers(api: ApiProcess, symbols: list[str], until: int) -> Iterator[subprocess.Popen[str]]:
    """The clients, in a process of their own, which ends when all have seen a candle of ``until`` ticks."""
    command = [sys.executable, "-P", "-m", "tests.bench.market_live", str(api.port), str(until), *symbols]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(api.token("read") + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def watch(port: int, token: str, until: int, symbols: list[str]) -> list[list[tuple[int, float]]]:
    """What each client received: the number of ticks of the candle, and when."""
    received: list[list[tuple[int, float]]] = [[] for _ in range(CLIENTS)]
    selector = selectors.DefaultSelector()
    for number in range(CLIENTS):
        client = LiveClient(port, token)
        client.subscribe(symbols[number % len(symbols)], "1m")
        selector.register(client.socket, selectors.EVENT_READ, (client.socket, received[number]))
    print("ready", flush=True)
    while selector.get_map():
        for key, _ in selector.select():
            connection, of_client = key.data
            data = connection.recv(1 << 16)
            at = time.monotonic()
            counts = [int(each) for each in _COUNT.findall(data)] if until else []
            of_client += [(count, at) for count in counts]
            if not data or until in counts:
                selector.unregister(connection)
                connection.close()
    return received


if __name__ == "__main__":
    if len(sys.argv) > 1:
        port, until, *symbols = sys.argv[1:]
        print(json.dumps(watch(int(port), sys.stdin.readline().strip(), int(until), symbols)))
    else:
        print(table(measure()))
