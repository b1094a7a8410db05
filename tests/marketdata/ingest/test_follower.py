"""The follower and the outbox under random reorganisations, kills and lost responses.

At the end, the API must hold exactly the ticks of the chain.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from marketdata.errors import ProviderError, RangeRefused, StateError
from marketdata.ingest.follower import Follower, Limits
from marketdata.ingest.outbox import Coverage, Outbox, OutboxItem, Rejection
from marketdata.source import evm, rpc_file
from marketdata.source.evm import Header, Log
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Pool
from marketdata.source.proof import BlockLogs, RangeContradicted

POOLS = tuple(Pool(f"T:{n}", "0x" + f"{n:02x}" * 20, "uniswap-v2", (18, 18), False, n * 3) for n in (1, 2))
FILE = rpc_file.Chain("T", 1, (), 4)
SWAP = b"".join(number.to_bytes(32, "big") for number in (5, 0, 0, 7))
MAX_DEPTH = 55
"""The largest depth of a reorganisation. It is so large that blocks are replaced that were read in ranges."""
GENESIS = "0x" + "0" * 64
START = 1_700_000_000
LIMITS = Limits(followed=40, kept=60, step=7)
"""Small, so that a short chain has ranges, single blocks and forgotten blocks."""


class Block:
    def __init__(self, number: int, parent: str, swaps: Sequence[str], salt: int, time: int) -> None:
        self.hash = f"0x{number:032x}{salt:032x}"
        topic = KINDS["uniswap-v2"].swap_topics[0]
        self.logs = [
            Log(address, (topic,), SWAP, number, self.hash, f"0x{place:064x}", place, time)
            for place, address in enumerate(swaps)
        ]
        bloom = 0
        for address in swaps:
            bloom |= evm.bloom_bits(address) | evm.bloom_bits(topic)
        self.header = Header(number, self.hash, parent, time, bloom, bool(swaps))


class Chain:
    """A provider. ``most`` is the largest number of blocks in a range that it answers."""

    name = "chain"
    has_another_endpoint = False
    is_lying = False
    """Whether all logs are left out."""

    def __init__(self, chance: random.Random, most: int) -> None:
        self._chance = chance
        self._most = most
        self._salt = 0
        self._highest = 0
        self.blocks: list[Block] = []
        self.abandoned: list[Block] = []
        self.extend(30)

    def extend(self, count: int) -> None:
        for _ in range(count):
            self._salt += 1
            swaps = [self._chance.choice(POOLS).address for _ in range(self._chance.choice((0, 0, 1, 3)))]
            parent, before = GENESIS, START
            if self.blocks:
                parent, before = self.blocks[-1].hash, self.blocks[-1].header.time
            time = before + self._chance.choice((0, 1, 1, 5))
            self.blocks.append(Block(len(self.blocks), parent, swaps, self._salt, time))
        self._highest = max(self._highest, len(self.blocks))

    def reorganise(self, depth: int) -> None:
        depth = min(depth, len(self.blocks) - max(1, self._highest - MAX_DEPTH))
        if depth < 1:
            return
        self.abandoned = self.blocks[-depth:]
        del self.blocks[-depth:]
        self.extend(self._chance.randint(max(1, depth - 1), depth + 2))

    def change_back(self) -> None:
        """Return to the branch that the last reorganisation abandoned."""
        if self.abandoned:
            first = self.abandoned[0].header.number
            if self.blocks[first - 1].hash != self.abandoned[0].header.parent or first < self._highest - MAX_DEPTH:
                return
            current = self.blocks[first:]
            self.blocks[first:] = self.abandoned
            self.abandoned = current

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        return self.blocks[-1].header, 0

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        return [self.blocks[number].header for number in numbers]

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        return [self.blocks[number].header if number < len(self.blocks) else None for number in numbers]

    def logs_of(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log]]:
        blocks = [self.blocks[header.number] for header in headers]
        return [[log for log in block.logs if wanted.selects(log) and not self.is_lying] for block in blocks]

    def prove(self, headers: Sequence[Header], logs: Sequence[list[Log]], wanted: LogFilter) -> list[BlockLogs]:
        return [BlockLogs(each, wanted.unseen(header.bloom, each)) for header, each in zip(headers, logs, strict=True)]

    def logs_between(
        self, first: int, last: int, wanted: LogFilter, ends: Sequence[int]
    ) -> tuple[list[Log], dict[int, Header]]:
        if last - first + 1 > self._most:
            raise RangeRefused("too many")
        if last >= len(self.blocks):
            raise ProviderError(f"has no block {last}")
        logs = [log for block in self.blocks[first : last + 1] for log in block.logs if wanted.selects(log)]
        if logs and self.is_lying:
            raise RangeContradicted("left out events")
        return logs, {number: self.blocks[number].header for number in ends}

    def distrust(self, about: str) -> bool:
        return self.has_another_endpoint

    def covered(self) -> dict[str, set[int]]:
        """The seconds from the start of each pool to the newest block."""
        end = self.blocks[-1].header.time + 1
        return {pool.symbol: set(range(self.blocks[pool.start_block].header.time, end)) for pool in POOLS}

    def ids(self) -> set[tuple[str, str]]:
        return {
            (pool.symbol, f"{log.block_hash}:{log.position}")
            for pool in POOLS
            for block in self.blocks[pool.start_block :]
            for log in block.logs
            if log.address == pool.address
        }


class Api:
    """Stores items as the API's contract says."""

    def __init__(self) -> None:
        self.ticks: dict[tuple[str, str], str] = {}
        self.retracted: set[tuple[str, str]] = set()
        self.finalized: dict[str, int] = {}
        self.final_times: dict[str, int] = {}
        self._own: dict[str, set[int]] = {}
        self._joined: dict[str, set[int]] = {}
        self._chain: set[int] = set()

    @property
    def covered(self) -> dict[str, set[int]]:
        """The own coverage of each symbol. The chain's coverage extends its joined part where it touches it."""
        found = {}
        for symbol, own in self._own.items():
            joined = set(self._joined.get(symbol, ()))
            for second in sorted(self._chain):
                if second - 1 in joined:
                    joined.add(second)
            found[symbol] = own | joined
        return found

    def forget(self, symbol: str) -> None:
        """Forget the symbol's coverage."""
        self._own.pop(symbol)
        self._joined.pop(symbol)

    def record(self, coverage: Sequence[Coverage]) -> None:
        for each in coverage:
            seconds = range(max(each.since, START), each.until)
            own = self._chain if each.symbol == "T" else self._own.setdefault(each.symbol, set())
            joined = self._joined.setdefault(each.symbol, set())
            joined.difference_update(seconds)
            if each.state == "joined":
                joined.update(seconds)
            if each.state != "failed":
                own.update(seconds)
            elif each.symbol != "T":
                own.difference_update(seconds)
            else:
                for covered in (self._chain, *self._own.values(), *self._joined.values()):
                    covered.difference_update(seconds)

    def take(self, items: Sequence[OutboxItem]) -> list[Rejection]:
        refused = []
        for item in items:
            body = json.loads(item.body)
            word = next(iter(body))
            if word == "finalize":
                chain = body[word]["chain"]
                if body[word]["block"] > self.finalized.get(chain, -1):
                    self.finalized[chain] = body[word]["block"]
                    self.final_times[chain] = body[word]["ts"] // 1000
            elif word in ("retract", "restore"):
                key = (body[word]["symbol"], body[word]["block_hash"])
                (self.retracted.add if word == "retract" else self.retracted.discard)(key)
                if word == "retract":
                    self.ticks = {
                        tick: hash for tick, hash in self.ticks.items() if (tick[0], hash) != key
                    }  # fmt: skip
            elif (body["symbol"], body["block"]["hash"]) in self.retracted:
                refused.append(Rejection(item, "retracted", "its block is retracted"))
            else:
                self.ticks[body["symbol"], body["id"]] = body["block"]["hash"]
        return refused


class Run:
    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.chain = self.make_chain()
        self.api = Api()
        self.outbox = Outbox(folder / f"{seed}.sqlite")
        self.restart()

    def restart(self) -> None:
        path = self.outbox.path
        self.outbox.close()
        self.outbox = Outbox(path)
        self.outbox.rows("PRAGMA synchronous = OFF")  # only a failure of the machine needs it
        self.follower = self.make_follower()
        self.look()

    def look(self) -> bool:
        """Whether the provider has the blocks that were read before. While a shorter chain lacks them, the ingestor
        tries again later, too."""
        try:
            self.follower.look()
        except ProviderError:
            return False
        return True

    def make_chain(self) -> Chain:
        return Chain(self.chance, most=self.chance.choice((1, 5, 1000)))

    def make_follower(self) -> Follower:
        return self.follower_of(POOLS)

    def follower_of(self, pools: Sequence[Pool]) -> Follower:
        return Follower(cast("Any", self.chain), FILE, pools, self.outbox, LIMITS)

    def close(self) -> None:
        self.outbox.close()

    def deliver(self, most: int, *, is_answer_lost: bool = False) -> bool:
        items = self.outbox.first(most)
        if items:
            refused = self.api.take(items)
            if not is_answer_lost:
                self.outbox.acknowledged(items, refused)
        coverage = self.outbox.coverage(self.chance.choice((1, most)))
        self.api.record(coverage)
        if not is_answer_lost:
            self.outbox.recorded(coverage)
        return bool(items or coverage)

    def anything(self) -> None:
        """Do one random step: a fault, a reorganisation, or normal work."""
        match self.chance.randrange(10):
            case 0:
                self.chain.extend(self.chance.randint(1, 20))
            case 1:
                self.chain.reorganise(self.chance.choice((1, 2, 5, 30)))
            case 2:
                self.chain.change_back()
            case 3:
                self.restart()
            case 4:
                self.deliver(self.chance.randint(1, 50))
            case 5:
                self.deliver(self.chance.randint(1, 50), is_answer_lost=True)
            case 6:
                self.chain.is_lying = not self.chain.is_lying
            case 7 if self.look():
                self.read_again()
            case _ if self.look():
                with suppress(ProviderError):  # the events of factories must not lack
                    for _ in range(self.chance.randint(1, 8)):
                        if not self.follower.step() and not self.follower.catch_up():
                            break

    def read_again(self) -> None:
        """Read the blocks again of which logs were missing, without a pause before."""
        with self.outbox.transaction() as transaction:
            transaction.execute("UPDATE doubted SET due = 0")
        self.follower.read_again()

    def finish(self) -> None:
        self.chain.is_lying = False
        while not self.look():
            self.chain.extend(1)
        while self.follower.step() or self.follower.catch_up():
            pass
        self.read_again()
        while self.deliver(50):
            pass


def test_after_random_faults_the_api_has_the_ticks_of_the_chain(tmp_path: Path, rng: random.Random) -> None:
    seen: set[str] = set()
    for _ in range(15):
        run = Run(tmp_path, seed := rng.getrandbits(32))
        with closing(run):
            for _ in range(60):
                run.anything()
            run.finish()
            assert set(run.api.ticks) == run.chain.ids(), f"seed {seed}"
            assert run.outbox.dead_letters() == []
            assert run.outbox.count() == 0
            last = run.chain.blocks[-1].header.number - 4
            assert all(block >= last for block in run.api.finalized.values())
            assert len(run.api.finalized) == 1
            assert run.api.covered == run.chain.covered(), f"seed {seed}"
            seen |= {"retracted"} if run.follower.counts.reorganisations else set()
            seen |= {"forgotten"} if run.outbox.rows("SELECT min(number) FROM blocks")[0][0] > 0 else set()
    assert seen == {"retracted", "forgotten"}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    found = Run(tmp_path, 1)
    yield found
    found.close()


def test_a_final_block_is_reported_with_its_time(run: Run) -> None:
    for length in (200, 1):  # in ranges, then one by one
        run.chain.extend(length)
        run.finish()
        block = run.chain.blocks[-1 - 4].header
        assert run.api.finalized == {"T": block.number}
        assert run.api.final_times == {"T": block.time}


def test_a_block_that_another_program_retracted_is_restored(run: Run) -> None:
    run.finish()
    symbol, identity = next(iter(run.api.ticks))
    hash = identity.partition(":")[0]
    run.api.retracted.add((symbol, hash))
    del run.api.ticks[symbol, identity]
    with run.outbox.transaction() as transaction:
        transaction.execute("DELETE FROM pools")  # so each pool is read again from its start block
    run.restart()
    run.finish()
    assert set(run.api.ticks) == run.chain.ids()
    assert run.outbox.dead_letters() == []


def test_a_pool_that_is_behind_is_covered_as_far_as_it_was_read(run: Run) -> None:
    run.chain.extend(200)
    run.finish()
    symbol = POOLS[1].symbol
    with run.outbox.transaction() as transaction:
        transaction.execute("DELETE FROM pools WHERE symbol = ?", (symbol,))
    run.api.forget(symbol)
    run.restart()
    steps = 0
    while run.follower.catch_up():
        while run.deliver(50):
            pass
        [at] = run.outbox.rows("SELECT next_block FROM pools WHERE symbol = ?", symbol)[0]
        read = run.chain.blocks[(at or len(run.chain.blocks)) - 1].header.time
        assert max(run.api.covered.get(symbol, {0})) <= read
        steps += 1
    assert steps > 3
    run.chain.extend(3)
    run.finish()
    assert run.api.covered == run.chain.covered()


def test_a_pool_that_is_no_longer_listed_is_not_covered_further(run: Run) -> None:
    run.finish()
    before = run.api.covered[POOLS[1].symbol]
    run.follower = run.follower_of(POOLS[:1])
    run.chain.extend(20)
    run.finish()
    assert run.api.covered[POOLS[1].symbol] == before
    run.restart()
    run.finish()
    assert run.api.covered == run.chain.covered()


def test_a_pool_that_was_absent_during_a_reorganisation_is_read_again(run: Run) -> None:
    run.finish()
    run.follower = run.follower_of(POOLS[:1])
    run.chain.reorganise(10)
    run.finish()
    assert set(run.api.ticks) != run.chain.ids()
    run.restart()
    run.finish()
    assert set(run.api.ticks) == run.chain.ids()
    assert run.api.covered == run.chain.covered()


def test_another_chain_is_refused_after_blocks_were_forgotten(run: Run) -> None:
    run.chain.extend(200)
    run.finish()
    run.chain.blocks.clear()
    run.chain.extend(300)
    run.follower.look()
    with pytest.raises(StateError, match="another TICKS_TABLE"):
        run.finish()


def test_a_final_block_is_replaced_only_if_no_other_endpoint_is_left_to_ask(run: Run) -> None:
    run.finish()
    ticks = dict(run.api.ticks)
    run.chain.has_another_endpoint = True
    run.chain.reorganise(10)  # with 4 confirmations
    for _ in range(2):
        with pytest.raises(ProviderError, match="contradicts a final block: block 20 is not 0x"):
            run.finish()
    run.chain.has_another_endpoint = False
    assert (run.api.ticks, run.outbox.count()) == (ticks, 0)
    run.finish()
    assert run.follower.counts.reorganisations == 1
    assert set(run.api.ticks) == run.chain.ids()
    run.chain.has_another_endpoint = True
    run.chain.reorganise(3)
    run.finish()
    assert run.follower.counts.reorganisations == 2


def test_a_provider_that_contradicts_itself_is_an_error(run: Run) -> None:
    run.finish()
    run.chain.extend(1)
    header = run.chain.blocks[-1].header
    run.chain.blocks[-1].header = header._replace(parent=GENESIS)
    run.follower.look()
    with pytest.raises(ProviderError, match="contradicts itself"):
        run.follower.step()
    run.chain.blocks[-1].header = header
    run.finish()
    assert set(run.api.ticks) == run.chain.ids()
