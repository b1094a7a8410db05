"""The time from a block of a real node to its candle.

python -m tests.bench.market_ingestor [BLOCKS]        (default 100)
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from tests.bench.figures import Figure, percentile, table
from tests.functional.chain_market import Market
from tests.functional.evm_packages import EvmPackages
from tests.marketdata.api.live_client import LiveClient

POLL_S = 0.5


def lag(blocks: int) -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as npm,
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder,
    ):
        market = Market(EvmPackages.install(Path(npm)), Path(folder), durable=True)
        try:
            market.trade(20)
            market.api.start()
            ways = (
                (f"polled every {1000 * POLL_S:.0f} ms", f"p50 <= {1000 * POLL_S + 50:.0f} ms", None),
                ("announced by `newHeads`", "p50 <= 150 ms", f"ws://127.0.0.1:{market.chain.port}"),
            )
            for way, goal, url in ways:
                market.ingestor.configure(poll_s=POLL_S, ws_url=url)
                market.ingestor.start()
                market.assert_complete()
                found = _lags(market, blocks)
                market.ingestor.stop()
                figure = f"p50 {percentile(found, 0.5):.0f} ms, p95 {percentile(found, 0.95):.0f} ms"
                yield Figure(f"a block to its candle over `/v1/live`, {way}", figure, goal)
        finally:
            market.close()


def _lags(market: Market, blocks: int) -> list[float]:
    pool = market.pools[0]
    found = []
    with LiveClient(market.api.port, market.api.token("read")) as live:
        live.subscribe(f"TEST:{pool.name}", "1M")
        for _ in range(blocks):
            # At any moment between two polls.
            threading.Event().wait(market.random.random() * POLL_S)
            market.exchanges.swap(pool, pool.amounts[0] // 1000, sell=True)
            market.chain.mine()
            began = perf_counter()
            live.candles()
            found.append(perf_counter() - began)
    return found


if __name__ == "__main__":
    print(table(list(lag(int(sys.argv[1]) if len(sys.argv) > 1 else 100))))
