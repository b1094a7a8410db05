"""Writers of every kind at once: no deadlock, nothing lost, and candles as if one had written after the other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from marketdata.errors import Contended
from marketdata.interval import SECOND
from marketdata.store import ticks
from marketdata.store.pool import Connection, connect
from marketdata.store.postgres_errors import translated
from marketdata.store.version import Version
from marketdata.tick import Finalize, Item, Restore, Retract, Tick

from .brute_force import rollups
from .conftest import START, insert, new_symbol, stored_rollups, stored_ticks, tick

BLOCKS = 4


def some_ticks(symbols: list[str], writer: int, count: int, rng: random.Random) -> list[Tick]:
    """Ticks of few minutes, a third of them with ids that other writers send as well."""
    made = []
    for number in range(count):
        shared = rng.random() < 0.3
        n = rng.randrange(60) if shared else number
        block = n % (BLOCKS + 2) if n % (BLOCKS + 2) < BLOCKS else None
        made.append(
            tick(
                rng.choice(symbols), f"{'all' if shared else writer}-{n}", START + n * 13 * SECOND,
                f"{100 + n % 7}.{n % 10}0", f"{n % 5}.250",
                block_number=block, block_hash=None if block is None else f"0xb{block}",
            )
        )  # fmt: skip
    return made


Writer = Callable[["Crowd", Connection, int], None]


class Crowd:
    """Writers at once, each with a connection of its own; keeps every SQLSTATE of class 40 that one of them met.
    Deadlocks that Citus reports are left out: its detector treats all transactions of a node that write to a shard by
    the shard's name as one transaction, and so reports deadlocks that do not exist. PostgreSQL's own detector is
    exact."""

    def __init__(self, database: str, version: Version) -> None:
        self.database, self.version = database, version
        self.symbols = [new_symbol() for _ in range(3)]
        self.states: list[str | None] = []
        self.created = 0

    def run(self, seed: int, writers: list[Writer]) -> None:
        together = threading.Barrier(len(writers))

        def work(number: int, writer: Writer) -> None:
            with connect(self.database) as conn:
                together.wait(60)
                writer(self, conn, seed * 100 + number)

        with ThreadPoolExecutor(len(writers)) as pool:
            for done in [pool.submit(work, number, writer) for number, writer in enumerate(writers)]:
                done.result(120)

    def until_it_goes(self, attempt: Callable[[], object]) -> None:
        """Repeat the attempt as long as it fails with a conflict, as a client must."""
        while True:
            try:
                with translated():
                    attempt()
                return
            except Contended as error:
                if "distributed deadlock" not in str(error.__cause__):
                    self.states.append(getattr(error.__cause__, "sqlstate", None))


def choose_isolation(own: Connection, seed: int) -> None:
    level = "REPEATABLE READ" if seed % 2 else "READ COMMITTED"
    own.execute(f"SET default_transaction_isolation = '{level}'")


def in_batches(crowd: Crowd, own: Connection, seed: int) -> None:
    rng = random.Random(seed)
    choose_isolation(own, seed)
    for _ in range(12):
        batch = some_ticks(crowd.symbols, seed, rng.choice([1, 5, 40]), rng)
        crowd.until_it_goes(partial(ticks.ingest, own, crowd.version, batch))


def reorganising(crowd: Crowd, own: Connection, seed: int) -> None:
    rng = random.Random(seed)
    choose_isolation(own, seed)
    for _ in range(12):
        items: list[Item] = list(some_ticks(crowd.symbols, seed, 6, rng))
        for symbol in rng.sample(crowd.symbols, 2):
            kind = rng.choice([Retract, Restore])
            items.insert(rng.randrange(len(items)), kind(symbol, f"0xb{rng.randrange(BLOCKS)}"))
        crowd.until_it_goes(partial(ticks.ingest, own, crowd.version, items))


def by_plain_sql(crowd: Crowd, own: Connection, seed: int) -> None:
    rng, version, symbols = random.Random(seed), crowd.version, crowd.symbols
    choose_isolation(own, seed)
    for round in range(8):
        batch = [
            each._replace(id=f"sql-{seed}-{round}-{place}")
            for place, each in enumerate(some_ticks(symbols, seed, rng.choice([1, 9]), rng))
        ]
        crowd.until_it_goes(partial(insert, own, version, batch))
        if rng.random() < 0.5:
            gone = [each.id for each in batch[::2]] + [f"all-{rng.randrange(60)}"]
            delete = version.query("DELETE FROM {ticks} WHERE id = ANY (%s) AND symbol = ANY (%s)")
            crowd.until_it_goes(partial(own.execute, delete, (gone, symbols)))


def test_eight_writers_of_every_kind(conn: Connection, database: str, version: Version, rng: random.Random) -> None:
    for seed in rng.sample(range(10**6), 2):
        crowd = Crowd(database, version)
        crowd.run(seed, [in_batches] * 3 + [reorganising] * 2 + [by_plain_sql] * 3)
        for symbol in crowd.symbols:
            assert stored_rollups(conn, version, symbol) == rollups(stored_ticks(conn, version, symbol))
        # Deadlocks must not occur. The only SQLSTATE allowed is 40001 (serialization failure), under REPEATABLE READ.
        assert set(crowd.states) <= {"40001"}


@pytest.mark.parametrize("kind", ["tick", "duplicate", "retract", "restore", "finalize"])
def test_repeatable_read_fails_in_every_call(conn: Connection, database: str, version: Version, kind: str) -> None:
    """A call that relied on its snapshot would not see a block that was retracted after the snapshot was taken."""
    symbol = new_symbol()
    late = tick(symbol, "late", START, block_number=1, block_hash="h")
    sent: Item = {
        "tick": late,
        "duplicate": tick(symbol, "a", START),
        "retract": Retract(symbol, "other"),
        "restore": Restore(symbol, "h"),
        "finalize": Finalize(symbol, 1),
    }[kind]
    outcome = {"tick": "retracted", "duplicate": "duplicate"}.get(kind, "done")
    ticks.ingest(conn, version, [tick(symbol, "a", START)])
    with connect(database) as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1 FROM pg_class LIMIT 1")  # the snapshot is taken here
        ticks.ingest(conn, version, [Retract(symbol, "h")])
        with pytest.raises(Contended):
            ticks.ingest(other, version, [sent])
        other.execute("ROLLBACK")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert ticks.ingest(other, version, [sent]).outcomes == [outcome]
        other.execute("COMMIT")
    assert stored_rollups(conn, version, symbol) == rollups([tick(symbol, "a", START)])
