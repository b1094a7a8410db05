"""Many pools of a factory, live and in the past: the ingestor and the backfill beside the real API and PostgreSQL."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marketdata.source.log_filter import MAX_ADDRESSES
from tests.functional.chain_market import indexed
from tests.functional.many_pools import FIRST, ManyPools
from tests.functional.market_process import Client
from tests.marketdata.source.synthetic_factory import SyntheticPool

pytestmark = pytest.mark.functional


@pytest.fixture
def market() -> Iterator[ManyPools]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = ManyPools(Path(folder), 700)
        yield found
        found.close()


def sample(symbols: dict[str, SyntheticPool], count: int) -> dict[str, SyntheticPool]:
    return dict(random.Random(3).sample(sorted(symbols.items()), count))


def test_many_pools_are_found_read_and_backfilled(market: ManyPools) -> None:
    chain = market.chain
    market.start()
    known = chain.symbols()
    assert market.ingestor.figures()["pools"] == len(known)
    traded = {symbol for symbol, pool in known.items() if chain.ticks(symbol, pool, FIRST)}
    with closing(Client(market.api.port, market.api.token("read"))) as read:
        assert {each["symbol"] for each in read("GET", "/v1/symbols")[1]["symbols"]} == traded
    market.assert_ticks(sample(known, 200), FIRST)
    market.assert_covered(sample(known, 20), FIRST)

    # A round of one block costs one request with its ticks and its finality, and one with its coverage.
    market.relay.writes.clear()
    for _ in range(5):
        chain.mine()
        market.settle()
    market.assert_covered(sample(known, 1), FIRST)
    batches = [body for _, path, body in market.relay.writes if path == "/v1/ingest/tick"]
    coverage = [json.loads(body) for _, path, body in market.relay.writes if path == "/v1/coverage"]
    assert len(batches) <= 5 * 2, batches
    assert all(body.count('"finalize"') <= 2 for body in batches)
    assert {frozenset(each) for each in coverage} == {frozenset(("chain", "from", "to", "state"))}

    # The factory keeps announcing pools, which are traded at once.
    for _ in range(10):
        chain.mine(new=3)
    market.settle()
    late = {symbol: pool for symbol, pool in chain.symbols().items() if symbol not in known}
    assert len(late) > 20
    market.assert_ticks(late, 0)
    market.assert_covered(sample(late, 10), FIRST)

    # The past of the old pools is left to the backfill, which reads it in few ranges.
    market.ingestor.stop()
    chain.asked.clear()
    done = market.backfill.run()
    assert done.returncode == 0, done.stderr
    ticks = sum(len(chain.ticks(symbol, pool)) for symbol, pool in known.items())
    ticks -= sum(len(chain.ticks(symbol, pool, FIRST)) for symbol, pool in known.items())
    assert re.fullmatch(
        rf"TEST: {FIRST - 1:,} blocks up to block {FIRST - 1:,} read in .* s: {ticks} ticks, {ticks} new, 0 known.*\n",
        done.stdout,
    ), done.stdout
    assert len(chain.ranges()) < 100
    market.assert_ticks(sample(known, 200), 0)
    with closing(Client(market.api.port, market.api.token("read"))) as read:
        for symbol in sample(known, 20):
            assert indexed(read, symbol)[0][0] == chain.time(1) * 1000
    again = market.backfill.run()
    assert again.returncode == 0
    assert again.stdout.startswith("TEST: nothing to read: ")

    _assert_listed(market)

    assert max(len(asked.get("address", ())) for asked in chain.ranges()) <= MAX_ADDRESSES


def _assert_listed(market: ManyPools) -> None:
    done = market.ingestor.run("pools", "--chain", "TEST")
    pools, readable = len(market.chain.pools), len(market.chain.symbols())
    assert done.stdout.endswith(f"\n{readable} pools are read, {pools - readable} are not\n"), done.stderr
    assert len(done.stdout.splitlines()) == pools + 3
    assert done.stdout.count("not read: token0 (0xaa") == pools - readable
    # The reader of the list may end early.
    market.ingestor.inside, inside = ("bash", "-c", '"$@" | head -2', "-"), market.ingestor.inside
    done = market.ingestor.run("pools")
    market.ingestor.inside = inside
    assert (len(done.stdout.splitlines()), done.stderr) == (2, "")
