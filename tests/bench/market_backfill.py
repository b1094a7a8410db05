"""The backfill from a real node into PostgreSQL, compared with the rate of reading and decoding alone.

python -m tests.bench.market_backfill [BLOCKS]      (default 20 000, with 2.5 swaps each on average)

The limit is the rate of one thread that asks the same node for the same logs and makes exact prices and sizes of them,
without block headers, checks or storage. Limit and backfill take turns, each backfill into an empty table.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from marketdata.source import evm
from marketdata.source.log_filter import swap_filter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Pool, PoolIndex
from marketdata.source.swaps import trade
from tests.bench.figures import Figure, table
from tests.functional.chain_market import Market
from tests.functional.evm_packages import EvmPackages
from tests.functional.market_process import ROOT, ApiProcess

ROUNDS = 3
RANGE = 2_000
"""Blocks of a request of the limit."""


def measure(blocks: int) -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as npm,
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder,
    ):
        market = Market(EvmPackages.install(Path(npm)), Path(folder), durable=True)
        try:
            market.trade(blocks)
            market.chain.mine(13)
            market.api.start()
            market.ingestor.configure(requests_per_s=100_000)
            limits, rates = [], []
            for number in range(2, 2 + ROUNDS):
                limits.append(_limit(market))
                rates.append(_backfill(market, number))
        finally:
            market.close()
    limit, rate = statistics.median(limits), statistics.median(rates)
    yield Figure("`eth_getLogs` and decoding alone", f"{limit:,.0f} events/s")
    yield Figure("backfill into PostgreSQL, with candles", f"{rate:,.0f} events/s")
    shares = [one / other for one, other in zip(rates, limits, strict=True)]
    yield Figure("backfill : limit, median of pairs", f"{statistics.median(shares):.2f}", ">= 0.6")


def _limit(market: Market) -> float:
    pools = [Pool(each.name, each.address, each.kind, each.decimals, each.invert, 0) for each in market.pools]
    index, wanted = PoolIndex(pools), swap_filter(pools).parameters()
    last = int(market.chain("eth_blockNumber"), 16)
    began, events = perf_counter(), 0
    with closing(http.client.HTTPConnection("127.0.0.1", market.chain.port)) as connection:
        for first in range(0, last + 1, RANGE):
            asked = {**wanted, "fromBlock": hex(first), "toBlock": hex(min(last, first + RANGE - 1))}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [asked]})
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            for each in json.loads(connection.getresponse().read())["result"]:
                log = evm.log(each)
                [pool] = index.of(log)
                trade(KINDS[pool.kind].decode(log.data), pool.decimals, invert=pool.invert)
                events += 1
    return events / (perf_counter() - began)


def _backfill(market: Market, version: int) -> float:
    """Run the backfill into the table of a new version."""
    state = market.api.state_dir
    environment = os.environ | {"MARKET_STATE_DIR": str(state)}
    subprocess.run(
        [sys.executable, "-P", "-m", "marketdata", "version", str(version)],
        cwd=ROOT, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    names = {"TICKS_TABLE": f"md_ticks_v{version}", "CANDLES_FUNCTION": f"md_candles_v{version}"}
    api = ApiProcess(state, **names)
    api.start()
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "marketdata", "backfill"],
            cwd=ROOT, env=environment | names | {"API_UPSTREAM": f"http://127.0.0.1:{api.port}"},
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    finally:
        api.stop()
    said = re.search(r"read in ([\d.]+) s: ([\d,]+) ticks, ([\d,]+) new, 0 known, 0 refused", done.stdout)
    assert said is not None, done.stdout
    assert said[2] == said[3], done.stdout
    return int(said[2].replace(",", "")) / float(said[1])


if __name__ == "__main__":
    print(table(list(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))))
