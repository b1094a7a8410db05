"""The same ticks as batches of JSON, as NDJSON, as CSV and as packed CSV, in one run on one database; and the memory
that the largest file of CSV takes.

python -m tests.bench.market_bulk [TICKS]      (default 200 000 for each kind and round, by one client)
"""

from __future__ import annotations

import gzip
import http.client
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import BinaryIO, NamedTuple

from marketdata.limits import MAX_CSV_BYTES
from marketdata.tick_csv import COLUMNS, tick_of
from tests.bench.figures import Figure, resident, table
from tests.functional.market_process import ApiProcess

ROUNDS = 3
START = 1_704_067_200_000
SYMBOLS = 4

Row = tuple[str, ...]


class Kind(NamedTuple):
    """How the bodies of a round are made of its rows."""

    media_type: str
    bodies: Callable[[Iterator[Row]], list[bytes]]
    headers: dict[str, str] = {}  # noqa: RUF012


def measure(ticks: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        api = ApiProcess(Path(folder), durable=True)
        api.start()
        try:
            rates: dict[str, list[float]] = {name: [] for name in KINDS}
            for number in range(ROUNDS):
                for place, (name, kind) in enumerate(KINDS.items()):
                    bodies = kind.bodies(_rows(f"{place}-{number}", ticks))
                    began = perf_counter()
                    _send(api, kind, bodies)
                    rates[name].append(ticks / (perf_counter() - began))
            grown, rate = _largest(api, Path(folder, "largest.csv"))
        finally:
            api.stop()
    figures = [Figure(name, f"{statistics.median(found):,.0f} ticks/s") for name, found in rates.items()]
    for name in ("JSON, batches of 1 000", "JSON, batches of 10 000"):
        ratios = [csv / batches for csv, batches in zip(rates["CSV"], rates[name], strict=True)]
        figures.append(Figure(f"CSV : {name}, median of rounds", f"{statistics.median(ratios):.2f}", ">= 1.5"))
    figures.append(Figure("CSV of 256 MiB", f"{rate:,.0f} ticks/s"))
    return [*figures, Figure("growth of the API's peak memory by it", f"{grown / 1024:.0f} MiB", "<= 40 MiB")]


def _rows(name: str, ticks: int) -> Iterator[Row]:
    """Trades of a chain: long ids, a block, a transaction. Each name has its own symbols, so all ticks are new."""
    for n in range(ticks):
        block = f"0x{n // 20:064x}"
        yield (
            f"BULK:{name}-{n % SYMBOLS}", f"{block}:{n % 20}", str(START + n * 100), str(n),
            f"{100 + n % 50}.{n % 997 * 10 + 1:04}", "1.25", ("buy", "sell")[n % 2], str(n // 20), block, f"0x{n:064x}",
        )  # fmt: skip


def _item(row: Row) -> str:
    tick = tick_of(dict(zip(COLUMNS, row, strict=True)))
    item = tick._asdict() | {"ts": tick.ts // 1000, "block": {"number": tick.block_number, "hash": tick.block_hash}}
    return json.dumps({name: value for name, value in item.items() if not name.startswith("block_")})


def _batches(size: int) -> Callable[[Iterator[Row]], list[bytes]]:
    def made(rows: Iterator[Row]) -> list[bytes]:
        bodies = []
        while items := [_item(row) for row in islice(rows, size)]:
            bodies.append(f'{{"ticks": [{",".join(items)}]}}'.encode())
        return bodies

    return made


def _lines(rows: Iterator[Row]) -> list[bytes]:
    bodies = []
    while items := [_item(row) for row in islice(rows, 10_000)]:
        bodies.append("\n".join(items).encode())
    return bodies


def _csv(rows: Iterator[Row]) -> list[bytes]:
    return ["\n".join(map(",".join, [COLUMNS, *rows])).encode()]


def _packed(rows: Iterator[Row]) -> list[bytes]:
    return [gzip.compress(each, 6) for each in _csv(rows)]


KINDS = {
    "JSON, batches of 1 000": Kind("application/json", _batches(1000)),
    "JSON, batches of 10 000": Kind("application/json", _batches(10_000)),
    "NDJSON, batches of 10 000": Kind("application/x-ndjson", _lines),
    "CSV": Kind("text/csv", _csv),
    "CSV, packed with gzip": Kind("text/csv", _packed, {"Content-Encoding": "gzip"}),
}


def _send(api: ApiProcess, kind: Kind, bodies: list[bytes] | list[BinaryIO]) -> int:
    """Returns how many ticks were stored; all must be new."""
    headers = {"Authorization": f"Bearer {api.token('alg')}", "Content-Type": kind.media_type, **kind.headers}
    stored = 0
    with closing(http.client.HTTPConnection("127.0.0.1", api.port, timeout=600)) as connection:
        for body in bodies:
            connection.request("POST", "/v1/ingest/tick", body, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            if response.status != 200 or answer["rejected"] or answer["duplicates"]:
                raise SystemExit(f"{kind.media_type} was answered by {response.status} {str(answer)[:500]}")
            stored += answer["accepted"]
    return stored


def _largest(api: ApiProcess, file: Path) -> tuple[int, float]:
    """The growth of the peak memory in KiB by a file of almost the maximum size, and its ticks a second."""
    with file.open("wb") as writer:
        writer.write(",".join(COLUMNS).encode())
        for row in _rows("largest", 10**9):
            line = "\n" + ",".join(row)
            if writer.tell() + len(line) > MAX_CSV_BYTES:
                break
            writer.write(line.encode())
    before = resident(api.pid)
    Path(f"/proc/{api.pid}/clear_refs").write_text("5")  # the peak begins anew
    began = perf_counter()
    with file.open("rb") as reader:
        stored = _send(api, Kind("text/csv", _csv), [reader])
    return resident(api.pid, "VmHWM") - before, stored / (perf_counter() - began)


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)))
