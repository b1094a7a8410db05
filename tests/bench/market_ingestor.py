"""The ingestor live: the time from a block to its candle, and its memory while events pour in.

python -m tests.bench.market_ingestor lag [BLOCKS]        (default 100, on a real node)
python -m tests.bench.market_ingestor memory [EVENTS]     (default 1 000 000, from a provider that computes them)
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from tests.bench.figures import Figure, percentile, resident, table
from tests.functional.chain_market import Market
from tests.functional.evm_packages import EvmPackages
from tests.functional.ingestor_process import IngestorProcess
from tests.functional.market_process import ApiProcess
from tests.functional.serving import until
from tests.marketdata.api.live_client import LiveClient
from tests.marketdata.source.synthetic_chain import SyntheticChain

POLL_S = 0.5
SWAPS = 20
"""The number of swaps in a synthetic block."""
RESULTS = 10_000
"""Maximum number of events in an answer, a limit of many providers."""
STEPS = 10


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


def memory(events: int) -> Iterator[Figure]:
    step = events // SWAPS // STEPS
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        closing(SyntheticChain(head=step, swaps=SWAPS, most=RESULTS // SWAPS)) as chain,
    ):
        api = ApiProcess(Path(folder), durable=True)
        ingestor = IngestorProcess(api, chain.url, ())
        sizes = []
        try:
            api.start()
            ingestor.configure(**chain.rpc_file())
            ingestor.settings = {"MARKET_INGESTOR_METRICS_PORT": "0"}
            ingestor.start()
            until(lambda: "metrics: " in ingestor.said())
            for number in range(1, STEPS + 1):
                chain.head = number * step
                until(lambda wanted=number * step: _is_read(ingestor, wanted), 3600)  # type: ignore[misc]
                sizes.append(resident(ingestor.pid))
                yield Figure(f"resident after {number * step * SWAPS:,} events", f"{sizes[-1] / 1024:.1f} MiB")
        finally:
            ingestor.stop()
            api.stop()
    yield Figure("end : middle", f"{sizes[-1] / sizes[STEPS // 2 - 1]:.3f}", "<= 1.05")


def _is_read(ingestor: IngestorProcess, block: int) -> bool:
    figures = ingestor.figures()
    return figures["next_block"] > block and figures["outbox_items"] == 0


if __name__ == "__main__":
    kind, *count = sys.argv[1:] or ["lag"]
    measure, default = (memory, 1_000_000) if kind == "memory" else (lag, 100)
    print(table(list(measure(int(count[0]) if count else default))))
