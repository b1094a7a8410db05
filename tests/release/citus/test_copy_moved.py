"""A copy continues while shards move to other nodes and while the source receives ticks, and after it was killed."""

from __future__ import annotations

import random
import signal

import pytest

from marketdata.operations.version_pair import Pair
from marketdata.settings import Settings
from marketdata.store.pool import Connection
from marketdata.tick import Finalize, Item, Restore, Retract
from tests.marketdata.conftest import Command
from tests.marketdata.operations.accessed import store
from tests.marketdata.operations.test_copy import SYMBOLS, assert_same, of_block
from tests.marketdata.operations.test_copy_pruned import following
from tests.release.citus.cluster import Database

pytestmark = pytest.mark.parametrize("layout", ["citus"], indirect=True)


@pytest.mark.parametrize("mode", ["block_writes", "force_logical"])
def test_a_copy_that_follows_goes_on_while_shards_move(
    two_versions: Connection, coordinator: Database, fresh: Settings, command: Command, mode: str
) -> None:
    pair = Pair.of(two_versions, "md", 1, 2)
    distributed = [each.ticks_table for each in (pair.source, pair.target)]
    chain, rng = Blocks(), random.Random(1)
    store(two_versions, pair.source, *(item for _ in range(30) for item in chain.grow(rng)))
    for number in range(2):
        with following(fresh, 1, 2) as process:
            for _ in range(4):
                store(two_versions, pair.source, *chain.grow(rng))
                coordinator.execute("CALL citus_cleanup_orphaned_resources()")
                coordinator.move(rng.choice(distributed), rng.choice(SYMBOLS), mode)
                store(two_versions, pair.source, *chain.grow(rng))
            process.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
            said, _ = process.communicate(timeout=60)
        assert number % 2 or (process.returncode, "stopped after a last pass" in said) == (0, True), said
    assert command("copy", "1", "2").returncode == 0
    assert_same(two_versions, pair)
    done = command("cutover", "2")
    assert (done.returncode, "all are equal" in done.stdout) == (0, True), done


class Blocks:
    """The blocks of a chain, some of which a reorganisation replaces."""

    def __init__(self) -> None:
        self._count = 0

    def grow(self, rng: random.Random) -> list[Item]:
        """Items of each symbol: a further block, and sometimes a retraction, a restoration or finality of others."""
        self._count += 1
        number, items = self._count, list[Item]()
        for symbol in SYMBOLS:
            items += of_block(number, symbol)
            if number > 5 and rng.random() < 0.3:
                gone = number - rng.randrange(1, 4)
                items += [Retract(symbol, f"0x{gone}"), *of_block(gone, symbol, fork=f"b{number}")]
                if rng.random() < 0.5:
                    items += [Retract(symbol, f"0x{gone}b{number}"), Restore(symbol, f"0x{gone}")]
                    items += of_block(gone, symbol)
            if number > 12 and rng.random() < 0.3:
                items.append(Finalize(symbol, number - 12, None))
        return items
