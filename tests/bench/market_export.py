"""How fast ticks are imported from files and exported to files, and how much memory that takes.

python -m tests.bench.market_export [TICKS]      (default 10 000 000 of four symbols)

Version 1 imports CSV that this program wrote, and exports it. Version 2 imports the Parquet file. At the end both
export the same bytes, which are those of the first file.
"""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from tests.bench.figures import Figure, table

SYMBOLS = 4
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
GOAL_MIB = 150


def measure(folder: Path, ticks: int) -> Iterator[Figure]:
    first, second, third, parquet = (folder / name for name in ("1.csv", "2.csv", "3.csv", "1.parquet"))
    write_ticks(first, ticks)
    run(folder, "version", "1")
    run(folder, "version", "2")
    yield from timed("import of CSV", ticks, folder, "import", str(first))
    yield from timed("export as CSV", ticks, folder, "export", "--format", "csv", "-o", str(second))
    yield from timed("export as Parquet", ticks, folder, "export", "--format", "parquet", "-o", str(parquet))
    v2 = ("--env-file", str(folder / "v2.env"))
    yield from timed("import of Parquet", ticks, folder, "import", *v2, str(parquet))
    run(folder, "export", *v2, "--format", "csv", "-o", str(third))
    if not filecmp.cmp(first, second, shallow=False) or not filecmp.cmp(first, third, shallow=False):
        raise SystemExit("the exported ticks differ from the imported ones")
    yield Figure("size of the Parquet file, share of the CSV", f"{parquet.stat().st_size / first.stat().st_size:.2f}")


def write_ticks(path: Path, ticks: int) -> None:
    """CSV as the service writes it: symbol by symbol, a tick each two seconds, four of them in a block."""
    with path.open("w") as file:
        file.write("symbol,id,ts,seq,price,size,side,block_number,block_hash,tx\n")
        for symbol in range(SYMBOLS):
            for n in range(ticks // SYMBOLS):
                block, tx = n // 4, n * 2654435761 % (1 << 64)
                ts = f"{BEGIN + timedelta(seconds=2 * n, microseconds=n % 1000):%Y-%m-%dT%H:%M:%S.%fZ}"
                price, size = f"{2500 + n % 500}.{n % 999983 * 10 + 1:07}", f"0.{n % 9973 + 1:06}1"
                side = "buy" if n % 3 else "sell"
                file.write(
                    f'BENCH:{symbol},"0x{block:064x}:{n:x}",{ts},{n},{price},{size},{side},{block},"0x{block:064x}",'
                    f'"0x{tx:064x}"\n'
                )


def timed(name: str, ticks: int, folder: Path, *arguments: str) -> Iterator[Figure]:
    began = perf_counter()
    peak = run(folder, *arguments)
    yield Figure(name, f"{ticks / (perf_counter() - began):,.0f} ticks/s")
    yield Figure(f"{name}, peak memory", f"{peak:.0f} MiB", f"< {GOAL_MIB} MiB")


def run(folder: Path, *arguments: str) -> float:
    """Run a command of the service, and return the peak of its memory in MiB."""
    environment = os.environ | {"MARKET_STATE_DIR": str(folder)}
    process = subprocess.Popen([sys.executable, "-P", "-m", "marketdata", *arguments], env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    return used.ru_maxrss / 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        print(table(list(measure(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000))))
