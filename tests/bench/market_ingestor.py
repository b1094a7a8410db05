"""The time from a block of a real node to its candle, and what the check of bloom filters costs in final ranges.

python -m tests.bench.market_ingestor [BLOCKS]        (default 100)
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from marketdata.source.failover import connected
from marketdata.source.log_filter import swap_filter
from marketdata.source.pools.pool import Pool
from marketdata.source.provider import RpcProvider
from marketdata.source.rpc import Rpc
from marketdata.source.rpc_file import Chain, Endpoint
from tests.bench.figures import Figure, percentile, table
from tests.functional.anvil import CHAIN_ID
from tests.functional.chain_market import Market
from tests.functional.evm_packages import EvmPackages
from tests.functional.lying_node import LyingNode
from tests.marketdata.api.live_client import LiveClient

POLL_S = 0.5
RANGE = 50


def figures(blocks: int) -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as npm,
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder,
    ):
        market = Market(EvmPackages.install(Path(npm)), Path(folder), durable=True)
        try:
            market.trade(20)
            market.api.start()
            yield from lag(market, blocks)
            yield requests(market, 10 * blocks)
        finally:
            market.close()


def lag(market: Market, blocks: int) -> Iterator[Figure]:
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


def requests(market: Market, blocks: int) -> Figure:
    """Calls of the node for each block, by the provider that checks, beside its endpoint, which does not."""
    market.trade(blocks)
    pools = [Pool(each.name, each.address, each.kind, each.decimals, each.invert, 0) for each in market.pools]
    wanted, newest = swap_filter(pools), int(market.chain("eth_blockNumber"), 16)
    with closing(LyingNode(market.chain)) as node:
        endpoint = Endpoint(node.url, {}, 1e6)
        chain = Chain("TEST", CHAIN_ID, (endpoint,), 0)
        plain = RpcProvider(Rpc(endpoint, stopping=threading.Event()), CHAIN_ID)
        counts = []
        for provider in (plain, connected(chain, threading.Event())):
            node.calls.clear()
            for last in range(newest, newest - blocks, -RANGE):
                first = last - RANGE + 1
                provider.logs_between(first, last, wanted, (first, last))
            provider.close()
            counts.append(sum(node.calls.values()) / blocks)
    without, checked = counts
    figure = f"{checked:.3f} / {without:.3f} = {checked / without:.2f}x"
    return Figure(f"calls a block in ranges of {RANGE}, with the check / without", figure, "<= 1.1x")


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
    print(table(list(figures(int(sys.argv[1]) if len(sys.argv) > 1 else 100))))
