"""Pools of factories when the chain is reorganised, and when rpc.json changes while the ingestor does not run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from marketdata.errors import ProviderError
from marketdata.ingest.follower import Follower
from marketdata.source.pools.pool import Pool
from marketdata.source.rpc_file import ListedPool, Quotes
from tests.marketdata.ingest.test_discovery import (
    CREATED,
    FACTORY,
    SOURCE,
    SWAPPED,
    TOKENS,
    USD,
    FactoryRun,
    Market,
    word,
)  # fmt: skip
from tests.marketdata.ingest.test_follower import GENESIS, LIMITS, START, SWAP, Block

A, B, C, D = (TOKENS[at] for at in (0, 1, 3, 6))
OTHER_FACTORY = "0x" + "fb" * 20


def address_of(a: str, b: str, factory: str = FACTORY) -> str:
    return "0x" + a[2:20] + b[2:20] + factory[-4:]


class Scripted(Market):
    """A chain whose blocks the test makes. ``says`` are the symbol and the decimals of each token."""

    def extend(self, count: int) -> None:
        for _ in range(count):
            self.mine()

    def mine(self, *events: tuple[str, ...]) -> None:
        """A block with events: the tokens of a new pool, perhaps with its factory; or the address of a pool with a
        swap."""
        self._salt += 1
        parent, time = (self.blocks[-1].hash, self.blocks[-1].header.time + 10) if self.blocks else (GENESIS, START)
        block = Block(len(self.blocks), parent, (), self._salt, time)
        for event in events:
            if len(event) == 1:
                self._add(block, event[0], (SWAPPED,), SWAP)
            else:
                a, b, factory = (*event, FACTORY)[:3]
                topics = (CREATED, *(f"0x{each[2:]:>064}" for each in (a, b)))
                self._add(block, factory, topics, word(address_of(a, b, factory)) + word(1))
        self.blocks.append(block)

    def cut(self, count: int) -> None:
        """Remove the newest blocks, so that other ones can be mined."""
        del self.blocks[-count:]

    def read_contracts(self, calls: Any) -> list[bytes]:
        found = []
        for contract, function in calls:
            symbol, decimals = self.says.get(contract, ("", None))
            if function == "symbol()":
                found.append(symbol.encode().ljust(32, b"\0"))
            elif function == "decimals()":
                found.append(b"" if decimals is None else word(decimals))
            else:
                found.append(b"")
        return found

    says: dict[str, tuple[str, int | None]]


class ScriptedRun(FactoryRun):
    chain: Scripted

    def make_chain(self) -> Scripted:
        Scripted.says = {A: ("AAA", 18), B: ("BBB", 18), C: ("CCC", 18), D: ("DDD", 18), USD: ("USD", 18)}
        return Scripted(self.chance, most=1000)

    def make_follower(self) -> Follower:
        listed = [
            Pool(each.symbol, each.address, each.kind, (18, 18), each.invert, each.start_block)
            for each in self.source.pools
        ]
        return Follower(cast("Any", self.chain), self.source, listed, self.outbox, LIMITS)

    def change(self, **content: Any) -> None:
        """Restart with another ``rpc.json``, and read everything."""
        self.configure(**content)
        self.finish()

    def configure(self, **content: Any) -> None:
        """Restart with another ``rpc.json``."""
        self.source = replace(self.source, **content)
        self.restart()

    def symbols(self) -> set[str]:
        return {symbol.removeprefix("T:") for symbol, _ in self.api.ticks}

    def pools(self) -> dict[str, str]:
        """The address of each pool that is read, by its name."""
        found = self.outbox.rows("SELECT symbol, address FROM pools WHERE next_block IS NULL")
        return {symbol.removeprefix("T:"): address for symbol, address in found}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ScriptedRun]:
    found = ScriptedRun(tmp_path, 1)
    yield found
    found.close()


def listed(symbol: str, address: str) -> ListedPool:
    return ListedPool(f"T:{symbol}", address, "uniswap-v2", None, False, 0)


def stored(run: ScriptedRun) -> list[dict[str, Any]]:
    """The ticks that wait for delivery."""
    bodies = [json.loads(item.body) for item in run.outbox.first(10_000)]
    return [body for body in bodies if "price" in body]


def read(run: ScriptedRun) -> None:
    run.follower.look()
    while run.follower.step() or run.follower.catch_up():
        pass


def test_other_tokens_at_the_same_address_have_their_own_decimals(run: ScriptedRun) -> None:
    pool = address_of(A, B)
    run.chain.says[A] = ("OLD", 6)
    run.chain.mine((A, B), (pool,))
    run.finish()
    assert run.symbols() == {"OLD-BBB"}
    run.chain.cut(1)
    run.chain.says[A] = ("NEW", 18)
    run.chain.extend(1)
    run.chain.mine((A, B), (pool,))
    read(run)
    [tick] = stored(run)
    assert (tick["symbol"], tick["price"]) == ("T:NEW-BBB", "1.4")
    run.finish()
    assert run.symbols() == {"NEW-BBB"}


def test_the_first_name_goes_to_the_first_pool_of_the_new_branch(run: ScriptedRun) -> None:
    run.chain.says[C] = ("AAA", 18)
    first, second = address_of(A, B), address_of(C, B)
    run.chain.mine((A, B), (first,))
    run.chain.mine((C, B), (second,))
    run.finish()
    suffix = second[-6:]
    assert run.pools() == {"AAA-BBB": first, f"AAA-BBB-{suffix}": second}
    run.chain.cut(2)
    run.chain.mine((C, B), (second,))
    run.chain.mine((A, B), (first,))
    run.chain.extend(1)
    run.finish()
    assert run.pools() == {"AAA-BBB": second, f"AAA-BBB-{first[-6:]}": first}
    ids = {symbol: int(id[2:34], 16) for symbol, id in run.api.ticks}
    assert ids["T:AAA-BBB"] < ids[f"T:AAA-BBB-{first[-6:]}"]


def test_a_factory_is_read_again_when_its_tokens_or_its_start_change(run: ScriptedRun) -> None:
    factory = SOURCE.factories[0]
    run.chain.mine((A, B))
    run.chain.mine((C, B))
    run.chain.mine((C, D))
    run.chain.extend(3)
    run.change(factories=(replace(factory, tokens=frozenset([B])),))
    assert run.pools().keys() == {"AAA-BBB", "CCC-BBB"}
    run.change(factories=(replace(factory, tokens=frozenset([D])),))
    assert run.pools().keys() == {"CCC-DDD"}
    run.change(factories=(factory,))
    assert run.pools().keys() == {"AAA-BBB", "CCC-BBB", "CCC-DDD"}


def test_a_start_block_that_becomes_lower_finds_older_pools(tmp_path: Path) -> None:
    run = ScriptedRun(tmp_path, 3)
    factory = SOURCE.factories[0]
    run.chain.mine((A, B))
    run.chain.extend(3)
    run.chain.mine((C, B))
    run.outbox.close()
    run.outbox.path.unlink()
    run.source = replace(SOURCE, factories=(replace(factory, start_block=len(run.chain.blocks) - 2),))
    run.restart()
    run.finish()
    assert run.pools().keys() == {"CCC-BBB"}
    run.change(factories=(factory,))
    assert run.pools().keys() == {"AAA-BBB", "CCC-BBB"}
    run.close()


def test_the_past_before_the_newest_50_000_blocks_is_left_to_the_backfill(tmp_path: Path) -> None:
    run = ScriptedRun(tmp_path, 4)
    pool = address_of(A, B)
    run.chain.mine((A, B), (pool,))
    run.chain.extend(9_999 - len(run.chain.blocks))
    for _ in range(2):  # blocks 9,999 and 10,000
        run.chain.mine((pool,))
    run.chain.extend(50_010)
    run.outbox.close()
    run.outbox.path.unlink()
    run.restart()
    run.finish()
    assert {id.partition(":")[0] for _, id in run.api.ticks} == {run.chain.blocks[10_000].hash}
    assert min(run.api.covered["T:AAA-BBB"]) == run.chain.blocks[10_000].header.time
    run.close()


def test_a_pool_that_is_no_longer_listed_is_read_as_its_factory_announced_it(run: ScriptedRun) -> None:
    pool = address_of(A, B)
    run.change(pools=(listed("MINE", pool),))
    run.chain.mine((A, B), (pool,))
    run.chain.mine((pool,))
    run.finish()
    assert (run.pools(), len(run.api.ticks)) == ({"MINE": pool}, 2)
    run.change(pools=())
    run.chain.mine((pool,))
    run.finish()
    assert run.pools() == {"AAA-BBB": pool}
    assert len([symbol for symbol, _ in run.api.ticks if symbol == "T:AAA-BBB"]) == 3


def test_the_coverage_of_a_pool_that_a_reorganisation_removed_is_taken_back(run: ScriptedRun) -> None:
    """This holds also for a pool that was found after its creation and is covered from an earlier block on."""
    run.change(factories=(), pools=(listed("MINE", address_of(C, D)),))
    run.chain.mine((A, B))
    run.finish()
    run.change(factories=SOURCE.factories)
    assert run.api.covered["T:AAA-BBB"]
    run.chain.cut(1)
    run.chain.extend(3)
    run.finish()
    assert run.pools().keys() == {"MINE"}
    assert not run.api.covered["T:AAA-BBB"]


def test_pools_that_price_the_native_currency_must_say_their_tokens(run: ScriptedRun) -> None:
    run.configure(quotes=Quotes(frozenset([USD]), frozenset([address_of(A, B)])))
    with pytest.raises(ProviderError, match=f"{address_of(A, B)} of quotes/native in rpc.json does not say its tokens"):
        run.follower.look()


@pytest.mark.parametrize("pair", [(A, B), (A, USD)])
def test_a_pool_that_prices_the_native_currency_needs_a_token_of_usd(
    run: ScriptedRun, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    answer = run.chain.read_contracts
    pool = address_of(*pair)

    def read_contracts(calls: Any) -> list[bytes]:
        if calls == [(pool, "token0()"), (pool, "token1()")]:
            return [word(each) for each in pair]
        return answer(calls)

    monkeypatch.setattr(run.chain, "read_contracts", read_contracts)
    quotes = Quotes(frozenset([USD]), frozenset([pool]))
    if USD in pair:
        run.change(quotes=quotes)
        run.chain.mine((A, B), (address_of(A, B),))
        run.finish()
        assert run.pools() == {"BBB-AAA": address_of(A, B)}
    else:
        run.configure(quotes=quotes)
        with pytest.raises(ProviderError, match="must be in quotes/usd"):
            run.follower.look()


@pytest.mark.parametrize("wrong", [6, None])
def test_one_wrong_answer_of_a_token_is_not_recorded(
    run: ScriptedRun, monkeypatch: pytest.MonkeyPatch, wrong: int | None
) -> None:
    answer, once = run.chain.read_contracts, [wrong]

    def read_contracts(calls: Any) -> list[bytes]:
        found = answer(calls)
        if (A, "decimals()") in calls and once:
            decimals = once.pop()
            found[calls.index((A, "decimals()"))] = b"" if decimals is None else word(decimals)
        return found

    monkeypatch.setattr(run.chain, "read_contracts", read_contracts)
    run.chain.mine((A, B), (address_of(A, B),))
    run.finish()
    assert run.outbox.rows("SELECT decimals FROM tokens WHERE address = ?", A) == [(18,)]
    assert (run.pools(), len(run.api.ticks)) == ({"AAA-BBB": address_of(A, B)}, 1)


class Unsettled(Market):
    """A chain on which a token changes its answers until it has a pool. After a reorganisation, another contract may
    get its address."""

    def extend(self, count: int) -> None:
        for _ in range(count):
            says = dict(self.says)
            used = {token for _, _, tokens in self.created() for token in tokens}
            for token in TOKENS:
                if token not in used and self._chance.random() < 0.3:
                    says[token] = self._chance.choice((6, 18, None))
            super().extend(1)
            self.blocks[-1].says = says  # type: ignore[attr-defined]

    @property
    def says(self) -> dict[str, int | None]:
        """The decimals of each token."""
        return self.blocks[-1].says if self.blocks else dict.fromkeys(TOKENS, 18)  # type: ignore[attr-defined, no-any-return]

    def read_contracts(self, calls: Any) -> list[bytes]:
        found = []
        for token, function in calls:
            decimals = self.says[token]
            text = f"T{TOKENS.index(token)}D{decimals}".encode().ljust(32, b"\0")
            found.append(text if function == "symbol()" else b"" if decimals is None else word(decimals))
        return found


class ChangingRun(FactoryRun):
    """A run with another ``rpc.json`` at each restart."""

    chain: Unsettled
    is_over = False

    def make_chain(self) -> Unsettled:
        return Unsettled(self.chance, most=self.chance.choice((1, 5, 1000)))

    def make_follower(self) -> Follower:
        factory = SOURCE.factories[0]
        tokens = frozenset(self.chance.sample(TOKENS, 3))
        self.source = replace(
            SOURCE,
            factories=self.chance.choice((
                (factory,), (factory,), (), (replace(factory, tokens=tokens),), (replace(factory, exclude=tokens),),
                (replace(factory, min_trades=3),), (replace(factory, address=OTHER_FACTORY),),
            )),
        )  # fmt: skip
        if self.is_over or not self.outbox.rows("SELECT 1 FROM chains"):
            self.source = SOURCE
        return super().make_follower()

    def finish(self) -> None:
        self.is_over = True
        self.restart()
        super().finish()


def test_after_random_faults_and_changes_every_pool_is_complete(tmp_path: Path, rng: random.Random) -> None:
    pools = 0
    for _ in range(10):
        run = ChangingRun(tmp_path, seed := rng.getrandbits(32))
        with closing(run):
            for _ in range(60):
                run.anything()
            run.finish()
            chain = run.chain
            readable = {
                address: (block, tuple(chain.says[token] for token in tokens))
                for block, address, tokens in chain.created()
                if None not in [chain.says[token] for token in tokens]
            }
            found = run.outbox.rows("SELECT address, symbol, decimals0, decimals1 FROM discovered WHERE symbol > ''")
            assert {row[0]: row[2:] for row in found} == {address: each[1] for address, each in readable.items()}, (
                f"seed {seed}"
            )
            pools += len(found)
            ids = {
                (address, f"{log.block_hash}:{log.position}")
                for block in chain.blocks
                for log in block.logs
                for address in [log.address]
                if address in readable
            }
            symbols = {row[0]: row[1] for row in found}
            assert set(run.api.ticks) == {(symbols[address], id) for address, id in ids}, f"seed {seed}"
            assert run.outbox.dead_letters() == []
            for address, (block, _) in readable.items():
                covered = run.api.covered[symbols[address]]
                assert set(range(block.header.time, chain.blocks[-1].header.time + 1)) <= covered, f"seed {seed}"
                assert max(covered) == chain.blocks[-1].header.time
    assert pools > 30
