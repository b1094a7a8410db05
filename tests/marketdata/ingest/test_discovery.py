"""Pools of a factory on a chain that reorganises, with an ingestor that is restarted at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from marketdata.ingest.follower import Follower
from marketdata.source import evm, rpc_file
from marketdata.source.evm import Log
from marketdata.source.pools import KINDS
from tests.marketdata.ingest.test_follower import GENESIS, LIMITS, START, SWAP, Block, Chain, Run

FACTORY = "0x" + "fa" * 20
KIND = KINDS["uniswap-v2"]
[CREATED] = KIND.creations
[SWAPPED] = KIND.swap_topics
TOKENS = ["0x" + f"{at:02x}" * 20 for at in range(0x20, 0x28)]
NAMES = dict(zip(TOKENS, ("COIN", "COIN", "USD", "a b", "", "X" * 40, "Y", "Z"), strict=True))
USD = TOKENS[2]
UNREADABLE = TOKENS[7]
"""A token that does not say its decimals."""
SOURCE = rpc_file.Chain(
    "T", 1, (), 4,
    factories=(rpc_file.Factory("uniswap-v2", FACTORY, 2, frozenset(), frozenset(), 0),),
    quotes=rpc_file.Quotes(frozenset([USD])),
)  # fmt: skip


def word(value: int | str) -> bytes:
    return (int(value, 16) if isinstance(value, str) else value).to_bytes(32, "big")


class Market(Chain):
    """Blocks with swaps, and with pools that a factory makes. A pair of tokens has one pool, at one address."""

    def extend(self, count: int) -> None:
        for _ in range(count):
            self._salt += 1
            parent, before = GENESIS, START
            if self.blocks:
                parent, before = self.blocks[-1].hash, self.blocks[-1].header.time
            number = len(self.blocks)
            block = Block(number, parent, (), self._salt, before + self._chance.choice((0, 1, 1, 5)))
            known = [address for _, address, _ in self.created()]
            for _ in range(self._chance.choice((0, 0, 1, 4))):
                pair = sorted(self._chance.sample(TOKENS, 2))
                address = "0x" + pair[0][2:22] + pair[1][2:22]
                if number > 2 and address not in known and self._chance.random() < 0.4:
                    self._add(
                        block, FACTORY, (CREATED, *(f"0x{each[2:]:>064}" for each in pair)), word(address) + word(1)
                    )
                    known.append(address)
                elif known:
                    self._add(block, self._chance.choice(known), (SWAPPED,), SWAP)
            self.blocks.append(block)
        self._highest = max(self._highest, len(self.blocks))

    def _add(self, block: Block, address: str, topics: tuple[str, ...], data: bytes) -> None:
        place, header = len(block.logs), block.header
        block.logs.append(Log(address, topics, data, header.number, block.hash, f"0x{place:064x}", place, header.time))
        bloom = header.bloom | evm.bloom_bits(address) | evm.bloom_bits(topics[0])
        block.header = header._replace(bloom=bloom, has_transactions=True)

    def read_contracts(self, calls: Sequence[tuple[str, str]]) -> list[bytes]:
        answers = {"symbol()": lambda token: NAMES[token].encode().ljust(32, b"\0"), "decimals()": decimals_of}
        return [answers[function](token) for token, function in calls]

    def created(self) -> list[tuple[Block, str, tuple[str, ...]]]:
        """The block, the address and the tokens of each pool."""
        return [
            (block, KIND.creations[CREATED](log).address, KIND.creations[CREATED](log).tokens)
            for block in self.blocks
            for log in block.logs
            if log.topics[0] == CREATED
        ]

    def symbols(self) -> dict[str, str]:
        """The symbol of each readable pool, by its address."""
        found: dict[str, str] = {}
        for _, address, tokens in self.created():
            if UNREADABLE in tokens:
                continue
            base, quote = tokens[::-1] if tokens[0] == USD else tokens
            name = "T:" + "-".join((NAMES[each].replace(" ", "") or each[-6:])[:12] for each in (base, quote))
            found[address] = f"{name}-{address[-6:]}" if name in found.values() else name
        return found

    def ids(self) -> set[tuple[str, str]]:
        symbols = self.symbols()
        return {
            (symbols[log.address], f"{log.block_hash}:{log.position}")
            for block in self.blocks
            for log in block.logs
            if log.address in symbols
        }

    def covered(self) -> dict[str, set[int]]:
        """The seconds from each pool's creation to the newest block."""
        end, symbols = self.blocks[-1].header.time + 1, self.symbols()
        return {
            symbols[address]: set(range(block.header.time, end))
            for block, address, _ in self.created()
            if address in symbols
        }


def decimals_of(token: str) -> bytes:
    return b"" if token == UNREADABLE else (18).to_bytes(32, "big")


class FactoryRun(Run):
    chain: Market
    source = SOURCE

    def make_chain(self) -> Market:
        return Market(self.chance, most=self.chance.choice((1, 5, 1000)))

    def make_follower(self) -> Follower:
        return Follower(cast("Any", self.chain), self.source, (), self.outbox, LIMITS)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[FactoryRun]:
    found = FactoryRun(tmp_path, 1)
    yield found
    found.close()


class WaitingRun(FactoryRun):
    """A run with ``min_trades``."""

    def __init__(self, folder: Path, seed: int, trades: int) -> None:
        folder.mkdir(exist_ok=True)
        self.source = replace(SOURCE, factories=(replace(SOURCE.factories[0], min_trades=trades),))
        super().__init__(folder, seed)


def reading(run: FactoryRun, **changed: Any) -> None:
    """Restart with another factory in ``rpc.json``, and read everything."""
    run.source = replace(SOURCE, factories=(replace(SOURCE.factories[0], **changed),))
    run.restart()
    run.finish()


def read_symbols(run: FactoryRun) -> set[str]:
    """The symbols whose pools are read."""
    return {symbol for symbol, *_ in run.outbox.rows("SELECT symbol FROM pools WHERE next_block IS NULL")}


def test_an_excluded_pool_is_read_on_when_the_line_is_removed(run: FactoryRun) -> None:
    chain = run.chain
    run.finish()
    address, symbol = next(iter(chain.symbols().items()))
    token = next(tokens[0] for _, each, tokens in chain.created() if each != address and tokens[0] != USD)
    for excluded in (address, token):
        reading(run, exclude=frozenset([excluded]))
        gone = chain.symbols().keys() - {each for each in chain.symbols() if chain.symbols()[each] in read_symbols(run)}
        assert (address in gone) == (excluded == address or excluded in tokens_of(chain, address))
        known = set(run.api.ticks)
        run.chain.extend(60)
        run.finish()
        assert not {symbol for symbol, _ in set(run.api.ticks) - known} & {chain.symbols()[each] for each in gone}
        reading(run)
        assert set(run.api.ticks) == chain.ids()
        for each, seconds in chain.covered().items():
            assert seconds <= run.api.covered[each], each
    assert symbol in read_symbols(run)


def tokens_of(chain: Market, address: str) -> tuple[str, ...]:
    return next(tokens for _, each, tokens in chain.created() if each == address)


def test_a_pool_is_read_from_its_beginning_once_it_has_enough_swaps(tmp_path: Path) -> None:
    for trades in (1, 3):
        with closing(WaitingRun(tmp_path / f"{trades}", 2, trades)) as run:
            run.finish()
            run.chain.extend(60)
            run.finish()
            logs = [log for block in run.chain.blocks for log in block.logs if log.topics[0] == SWAPPED]
            counts = Counter(log.address for log in logs if log.address in run.chain.symbols())
            wanted = {address for address, count in counts.items() if count >= trades}
            assert {address for (address,) in run.outbox.rows("SELECT address FROM pools")} == wanted
            ids = {f"{log.block_hash}:{log.position}" for log in logs if log.address in wanted}
            assert {id for _, id in run.api.ticks} == ids


def test_the_past_is_read_again_when_the_kind_of_a_factory_is_corrected(run: FactoryRun) -> None:
    reading(run, kind="solidly")
    assert read_symbols(run) == set()
    reading(run)
    assert read_symbols(run) == set(run.chain.symbols().values())
