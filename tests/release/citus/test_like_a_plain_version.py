"""The same items make the same rows and outcomes in a distributed version as in a plain one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest

from marketdata.interval import DAY, MINUTE
from marketdata.store import coverage, migrations, prune, ticks
from marketdata.store.coverage import Range
from marketdata.store.placement import Placement
from marketdata.store.pool import Connection, Pool, connect
from marketdata.store.prune import EPOCH
from marketdata.store.shard_ingest import ShardIngest
from marketdata.store.ticks import Outcome
from marketdata.store.version import Version
from marketdata.tick import Finalize, FinalizeChain, Item, Restore, Retract, Tick
from tests.marketdata.store.conftest import START, tick
from tests.release.citus.cluster import Database
from tests.release.citus.versions import distributed, placement_of

SHARDS, SYMBOLS, CHAINS, BLOCKS = 8, 30, 3, 9
COLUMNS = {
    "ticks": "*", "rollups": "*", "retracted": "*", "pruned": "*", "chains": "*", "coverage": "*",
    # The counter grows by more in a transaction with items of several kinds, but a shard may get items of one kind
    # only.
    "symbols": "symbol, finalized_block, final_until, pruned_until",
}  # fmt: skip


@dataclass
class Pair:
    """A distributed version and a plain one. Each operation is applied to both."""

    coordinator: Connection
    placement: Placement
    ingest: ShardIngest
    version: Version
    plain_connection: Connection
    plain: Version

    def send(self, items: Sequence[Item]) -> list[Outcome]:
        outcomes, counters = self.ingest.ingest(self.version, items)
        expected = ticks.ingest(self.plain_connection, self.plain, items)
        assert outcomes == expected.outcomes
        assert counters.keys() == expected.counters.keys()
        return expected.outcomes

    def cover(self, names: list[str], chain: str, new: Range) -> None:
        for connection, version in ((self.coordinator, self.version), (self.plain_connection, self.plain)):
            coverage.record(connection, version, names, new)
            if new.state != "joined":
                coverage.record_chain(connection, version, chain, new._replace(start=new.end, end=new.end + DAY))

    def prune(self, symbol: str, line: int) -> None:
        before = EPOCH + timedelta(microseconds=line)

        def work(connection: Connection, version: Version) -> tuple[object, list[int]]:
            drawn = prune.draw_where_final(connection, version, before, symbol)
            below = prune.below(connection, version, [symbol])
            return drawn, [count for each in below for count in prune.delete(connection, version, each, 3)]

        assert self.placement.write(self.version, [symbol], work) == work(self.plain_connection, self.plain)

    def check(self, columns: dict[str, str]) -> None:
        for part, names in columns.items():
            assert rows(self.coordinator, self.version, part, names) == rows(
                self.plain_connection, self.plain, part, names
            ), part


def rows(connection: Connection, version: Version, part: str, names: str) -> list[bytes]:
    """The rows of a table as text."""
    statement = version.query("COPY (SELECT NAMES FROM {PART}) TO STDOUT".replace("NAMES", names).replace("PART", part))
    with connection.cursor().copy(statement) as lines:
        return sorted(map(bytes, lines))


@pytest.fixture(scope="module")
def pair(citus_database: Database, database: str) -> Iterator[Pair]:
    version, plain = distributed(citus_database, Version.of("t", 1), SHARDS), Version.of("t", 1)
    coordinator = Pool(citus_database.url, application_name="test", size=4)
    with (
        connect(citus_database.url) as connection,
        connect(database) as plain_connection,
        placement_of(citus_database, coordinator) as placement,
    ):
        migrations.migrate(plain_connection)
        plain.create(plain_connection)
        yield Pair(
            connection, placement, ShardIngest(placement, coordinator), version, plain_connection, plain
        )  # fmt: skip
    coordinator.close()


class Sender:
    """Draws items about symbols of its own. Each has an alias."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.rng = random.Random(seed)
        self.chains = [f"c{seed}.{n}" for n in range(CHAINS)]
        self.symbols = [f"{self.rng.choice(self.chains)}:{n}" for n in range(SYMBOLS)]
        self.sent: list[Tick] = []
        for connection in (pair.coordinator, pair.plain_connection):
            for symbol in self.symbols:
                connection.execute(
                    "INSERT INTO market_aliases VALUES (%s, %s)", (f"A-{symbol}".replace(":", "-"), symbol)
                )

    def new_tick(self) -> Tick:
        rng, symbol = self.rng, self.rng.choice(self.symbols)
        block = rng.choice([None, *range(BLOCKS)])
        ts = START + rng.randrange(4) * DAY + rng.randrange(90) * MINUTE // 3
        if block is not None:
            ts = START + block * DAY // 2 + rng.randrange(3) * MINUTE
        made = tick(
            symbol, f"{len(self.sent)}", ts, f"{rng.randrange(1, 99)}.{rng.randrange(10)}0", f"{rng.randrange(5)}.250",
            seq=rng.randrange(3), side=rng.choice([None, "buy", "sell"]), block_number=block,
            block_hash=None if block is None else f"0xb{block}", tx=rng.choice([None, "0x1"]),
        )  # fmt: skip
        self.sent.append(made)
        return made

    def item(self) -> Item:
        rng, block = self.rng, self.rng.randrange(BLOCKS)
        kind = rng.choice(
            ["new"] * 12 + ["again", "again", "conflict", "alias", "retract", "restore", "final", "chain"]
        )
        match kind if self.sent else "new":
            case "again":
                return rng.choice(self.sent)
            case "conflict":
                return rng.choice(self.sent)._replace(price="3.75")
            case "alias":
                made = self.new_tick()
                return made._replace(symbol=f"A-{made.symbol}".replace(":", "-"))
            case "retract":
                return Retract(rng.choice(self.symbols), f"0xb{block}")
            case "restore":
                return Restore(rng.choice(self.symbols), f"0xb{block}")
            case "final":
                return Finalize(rng.choice(self.symbols), block, rng.choice([None, START + block * DAY // 2]))
            case "chain":
                return FinalizeChain(rng.choice(self.chains), block, START + block * DAY // 2)
        return self.new_tick()


def test_any_items_in_the_same_order(pair: Pair) -> None:
    """Ticks, duplicates, conflicts, retractions, restorations, final blocks, coverage and prunes."""
    found: set[Outcome] = set()
    for seed in range(4):
        sender, rng = Sender(pair, seed), random.Random(seed)
        for _ in range(25):
            found.update(pair.send([sender.item() for _ in range(rng.choice([1, 1, 5, 40]))]))
            if rng.random() < 0.3:
                pair.prune(rng.choice(sender.symbols), START + rng.randrange(5) * DAY)
            if rng.random() < 0.3:
                start, state = START + rng.randrange(9) * DAY, rng.choice(["indexed", "joined", "failed"])
                names = rng.sample(sender.symbols, 3)
                pair.cover(names, rng.choice(sender.chains), Range(start, start + rng.randrange(1, 4) * DAY, state))
        pair.check(COLUMNS)
    assert found == set(Outcome)
    assert all(rows(pair.coordinator, pair.version, part, "*") for part in COLUMNS)
