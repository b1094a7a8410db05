"""A long run on a chain whose first node leaves out logs, with kills and reorganisations, and then a falsified store.

TEST_SOAK_BLOCKS is the number of blocks (default 6000, some minutes); `--log-cli-level=info` shows what was lost.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from tests.functional.chain_market import running, stored_ticks
from tests.functional.evm_packages import EvmPackages
from tests.functional.lying_node import Lies, LyingNode
from tests.functional.market_process import Client
from tests.functional.serving import until
from tests.functional.test_market_lies import CONFIRMATIONS, Doubted

BLOCKS = int(os.environ.get("TEST_SOAK_BLOCKS", "6000"))
LIES = BLOCKS // 40
"""Of each kind."""
ROUND = 20
OLD_BLOCKS = 600
"""More blocks than the ingestor reads one by one."""
FALSE = (
    "price = price * 2", "size = size + 1", "side = CASE side WHEN 'buy' THEN 'sell' ELSE 'buy' END", "seq = seq + 1",
    "ts = ts + interval '1 day'", "tx = 'false'", "block_number = block_number + 1", "block_hash = 'false'",
    "id = id || '0'", "",
)  # fmt: skip
"""What is changed in falsified ticks; with an empty text the tick is removed."""

_log = logging.getLogger(__name__)

pytestmark = pytest.mark.timeout(900 + BLOCKS)


class Soaked(Doubted):
    def found(self, command: str) -> dict[str, set[str]]:
        """The ids of the ticks that ``verify`` or ``repair`` names, by how they differ."""
        last = int(self.chain("eth_blockNumber"), 16) - CONFIRMATIONS
        done = self.ingestor.run(command, "--from-block", "0", "--to-block", str(last), "--format", "json")
        found = json.loads(done.stdout)
        kinds = {kind: {tick["id"] for tick in found[kind]} for kind in ("missing", "superfluous", "different")}
        assert done.returncode == (command == "verify" and any(kinds.values())), done.stdout + done.stderr
        return kinds

    def missing(self) -> set[str]:
        """The ids of the ticks of the chain that are not stored."""
        with closing(Client(self.api.port, self.api.token("read"))) as read:
            stored = {tick["id"] for pool in self.pools for tick in stored_ticks(read, f"TEST:{pool.name}")}
        return {tick["id"] for tick in self.exchanges.ticks(*self.pools)} - stored

    def kill_and_reorganise(self) -> None:
        """Mine blocks, while the ingestor is killed and started again."""
        instant = threading.Timer(self.random.uniform(0, 0.3), self.ingestor.kill)
        instant.start()
        self.trade(ROUND // 2)
        instant.join()
        if self.random.random() < 0.3:
            self.chain("anvil_reorg", self.random.randint(1, 10), [])
        self.trade(ROUND // 2)
        said = len(self.ingestor.said())
        self.ingestor.start()
        until(lambda: " read blocks " in self.ingestor.said()[said:], 60)

    def falsify(self, ids: list[str]) -> None:
        """Change these ticks in the database, past its triggers."""
        with connect(conninfo(self.api.state_dir)) as connection:
            connection.execute("SET session_replication_role = replica")
            for at, id in enumerate(ids):
                change = FALSE[at % len(FALSE)]
                statement = f"UPDATE md_ticks_v1 SET {change} WHERE" if change else "DELETE FROM md_ticks_v1 WHERE"
                assert connection.execute(f"{statement} id = %s", (id,)).rowcount == 1


@pytest.fixture
def market(evm_packages: EvmPackages) -> Iterator[Soaked]:
    with running(partial(Soaked, full=True), evm_packages) as found:
        yield found


def test_no_tick_is_lost_by_lies_kills_and_reorganisations_or_verify_finds_it(market: Soaked) -> None:
    with closing(LyingNode(market.chain)) as node:
        market.ingestor.configure(url=None, urls=[node.url, market.chain.url])
        market.ingestor.start()
        market.assert_complete()
        node.logs = lies = Lies(market.random, LIES, one_in=10)
        for _ in range(BLOCKS // ROUND):
            market.kill_and_reorganise()
        until(lambda: lies.is_done or market.trade(5), 60)
        # Every block was checked: no pool lacks all its ticks of a block.
        market.assert_lacks_nothing()
        _log.info(
            "%d blocks, %d dropped logs and emptied answers each: %d ticks lack", BLOCKS, LIES, len(market.missing())
        )
        # Older blocks are read in ranges, of which only a sample is checked.
        market.ingestor.kill()
        market.trade(OLD_BLOCKS)
        node.most_blocks = ROUND
        node.logs = lies = Lies(market.random, LIES, one_in=2)
        market.ingestor.start()
        market.chain.mine(CONFIRMATIONS + 1)
        market.assert_covered(60)
        missing = market.missing()
        _log.info("%d more in ranges, %d and %d: %d lack", OLD_BLOCKS, lies.dropped, lies.emptied, len(missing))
        assert market.found("verify") == {"missing": missing, "superfluous": set(), "different": set()}
        assert market.found("repair")["missing"] == missing
    market.assert_complete()
    market.assert_covered()
    assert not any(market.found("verify").values())
    ids = market.random.sample([tick["id"] for tick in market.exchanges.ticks(*market.pools)], 2 * len(FALSE))
    market.falsify(ids)
    found = market.found("verify")
    assert found["missing"] | found["different"] == set(ids)
    assert market.found("repair") == found
    market.assert_complete()
    assert not any(market.found("verify").values())
    assert market.ingestor.stop() == 0
