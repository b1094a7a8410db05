"""The ingestor with many pools of a factory: its memory, its start, and a round.

python -m tests.bench.market_pools [POOLS]      (default 10 000, of a provider that computes the chain)
"""

from __future__ import annotations

import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from tests.bench.figures import Figure, resident, spread, table
from tests.functional.many_pools import FIRST, ManyPools
from tests.functional.serving import until

ROUNDS = 50
SWAPS = 20
"""The number of swaps in the block of a round."""
LATE_S = 600.0


def measure(pools: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        market = ManyPools(Path(folder), pools)
        try:
            began = perf_counter()
            market.ingestor.start()
            until(lambda: "metrics: " in market.ingestor.said(), LATE_S)
            until(lambda: market.ingestor.figures()["pools"] > 0, LATE_S)
            yield Figure(f"start to {pools:,} pools found and named", f"{perf_counter() - began:.1f} s")
            market.settle()
            yield Figure("the same, and the newest block delivered", f"{perf_counter() - began:.1f} s")
            yield Figure("a block with 20 swaps into the outbox", spread(_rounds(market, new=0)))
            yield Figure("the same with a new pool in each block", spread(_rounds(market, new=1)))
            market.settle()
            peak = resident(market.ingestor.pid, "VmHWM") / 1024
            yield Figure("peak of the resident memory", f"{peak:.0f} MiB", "< 250 MiB")
            market.ingestor.stop()
            began = perf_counter()
            done = market.backfill.run()
            assert re.search(", [1-9][0-9,]* new, 0 known", done.stdout), done
            yield Figure(f"backfill of the {FIRST - 1:,} blocks before", f"{perf_counter() - began:.1f} s")
        finally:
            market.close()


def _rounds(market: ManyPools, new: int) -> list[float]:
    """The seconds from each new block until it is in the outbox, a poll of the provider included."""
    found = []
    path = market.api.state_dir / "ingestor" / "md_ticks_v1.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as outbox:
        for _ in range(ROUNDS):
            began = perf_counter()
            market.chain.mine(new=new, swaps=SWAPS)
            head = market.chain.head
            while outbox.execute("SELECT next_block FROM chains").fetchone()[0] <= head:
                if perf_counter() - began > LATE_S:
                    raise SystemExit("a block was not read")
            found.append(perf_counter() - began)
    return found


if __name__ == "__main__":
    print(table(list(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))))
