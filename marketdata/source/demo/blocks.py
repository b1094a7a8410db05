"""The blocks of the demo's chain: each is a function of the seed, the genesis time and its number.

A month of blocks lies before the first present. Their trades are less frequent and larger than later, so that the
month is stored within seconds. Now and then some blocks are replaced by others as soon as the chain is one block longer
than they are. These are the *abandoned* ones; a number has at most two blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from math import inf, isqrt
from typing import NamedTuple

from marketdata.source.demo.market import ONE, Market
from marketdata.source.evm import WORD, Header, Log
from marketdata.source.pools import KINDS
from marketdata.source.provider import Wanted
from marketdata.source.rpc_file import Pool

CHAIN = "DEMO"
BLOCK_S = 2
DAY = 86_400 // BLOCK_S
HISTORY = 30 * DAY
"""The number of blocks before the first present, where chain.json names no other."""
RECENT = 2 * DAY
"""So many of them, the last ones, have more trades than the others: every minute has a candle, or nearly."""
DECIMALS = (18, 6)
"""Of the base, which is token0 of both pools, and of the quote."""


class _Era(NamedTuple):
    """Until block ``end`` one of ``spacing`` blocks has trades. They are ``size`` times as large as in the last era, so
    that an hour's volume is about the same."""

    end: float
    spacing: int
    size: int


_EPOCH = 150
"""One of so many blocks may be the last one before a reorganisation."""
DEEPEST = 4
"""Blocks that a reorganisation replaces at most."""
_SPREAD = 100_000
"""Who trades pays at least this part of :data:`ONE` more, or gets so much less, than the price of the pool."""


class DemoPool(NamedTuple):
    """``price`` is the mean one, in the quote's smallest units. Prices and sizes are rounded to so many places, which
    together are the decimals of the quote: the amount of the quote is exact then. ``size`` is a small trade, in units
    of its last place."""

    pool: Pool
    price: int
    price_places: int
    size: int


def _pool(name: str, address: str, kind: str) -> Pool:
    return Pool(f"{CHAIN}:{name}", address, kind, DECIMALS, invert=False, start_block=0)


POOLS = (
    DemoPool(_pool("ACORN-USD", "0xde00000000000000000000000000000000000001", "uniswap-v2"), 48_000_000, 4, 80),
    DemoPool(_pool("PEBBLE-USD", "0xde00000000000000000000000000000000000002", "uniswap-v3"), 1_650_000_000, 2, 250),
)


class _Trade(NamedTuple):
    """``root`` is the price after it as Uniswap V3 writes it; the amounts are in the smallest units."""

    is_buy: bool
    base: int
    quote: int
    root: int


class Blocks:
    """``seed`` has at most 64 bytes, ``genesis`` is in seconds since 1970, ``history`` counts blocks, a multiple
    of 150."""

    def __init__(self, seed: bytes, genesis: int, history: int = HISTORY) -> None:
        self._seed = seed
        self.genesis = genesis
        self._eras = (_Era(history - RECENT, 150, 100), _Era(history, 15, 11), _Era(inf, 1, 1))
        self._trading = lru_cache(maxsize=16)(self._found_trading)  # not a method's cache, which all chains would share
        self._markets = [Market(self._digest("market", at), genesis, BLOCK_S) for at in range(len(POOLS))]

    def head(self, now: float) -> int:
        """The newest block at a time; at least the first one."""
        return max(0, int((now - self.genesis) // BLOCK_S))

    def hash(self, number: int, *, is_abandoned: bool = False) -> str:
        return "0x" + self._digest("abandoned" if is_abandoned else "block", number)[:WORD].hex()

    def is_abandoned(self, number: int, head: int) -> bool:
        """Whether the block of this number that the chain had while ``head`` was its newest one was replaced later."""
        fork, depth = self._fork(number)
        return fork < number <= head <= fork + depth

    def header(self, number: int, *, is_abandoned: bool = False) -> Header:
        return Header(
            number=number,
            hash=self.hash(number, is_abandoned=is_abandoned),
            parent=self._parent(number, is_abandoned),
            time=self.genesis + number * BLOCK_S,
            bloom=0,  # says nothing
            has_transactions=bool(self._trading(number, is_abandoned)),
        )

    def logs(self, number: int, wanted: Wanted, *, is_abandoned: bool = False) -> list[Log]:
        """The wanted logs of a block."""
        logs: list[Log] = []
        position = 0
        block = self.hash(number, is_abandoned=is_abandoned)
        for at in self._trading(number, is_abandoned):
            pool = POOLS[at].pool
            kind = KINDS[pool.kind]
            for trade in self._trades(at, number, is_abandoned):
                if wanted.get(pool.address) == kind.TOPIC:
                    data = _v2_data(trade) if pool.kind == "uniswap-v2" else _v3_data(trade)
                    transaction = "0x" + self._digest(block, position)[:WORD].hex()
                    logs.append(Log(pool.address, (kind.TOPIC,), data, number, block, transaction, position))
                position += 1
        return logs

    def trading_between(self, first: int, last: int) -> Iterator[int]:
        """The numbers of blocks that may have trades, without looking at each block of the history."""
        number = first
        while number <= last:
            trading = self._trading_of_slot(number)
            if number <= trading <= last:
                yield trading
            spacing = self._era(number).spacing
            number += spacing - number % spacing

    # ----------------------------------------------------------------------------------------------------------------

    def _digest(self, what: str, number: int) -> bytes:
        return blake2b(b"%s %d" % (what.encode(), number), key=self._seed).digest()

    def _fork(self, number: int) -> tuple[int, int]:
        """The last common block before the reorganisation of this part of the chain, and how many blocks it replaces,
        which may be none."""
        epoch = number - number % _EPOCH
        chance = self._digest("fork", epoch)
        depth = 1 + chance[1] % DEEPEST if chance[0] < 128 else 0
        return epoch + chance[2] % (_EPOCH - DEEPEST), depth

    def _parent(self, number: int, is_abandoned: bool) -> str:
        if number == 0:
            return "0x" + bytes(WORD).hex()
        return self.hash(number - 1, is_abandoned=is_abandoned and self._fork(number)[0] != number - 1)

    def _era(self, number: int) -> _Era:
        for era in self._eras:
            if number < era.end:
                break
        return era

    def _trading_of_slot(self, number: int) -> int:
        """Of the blocks, as many as the era's spacing, of which this is one, the one that may have trades."""
        spacing = self._era(number).spacing
        slot = number - number % spacing
        return slot + self._digest("slot", slot)[0] % spacing if spacing > 1 else number

    def _found_trading(self, number: int, is_abandoned: bool) -> list[int]:
        """The pools that have trades in a block, by their places in :data:`POOLS`."""
        if self._trading_of_slot(number) != number:
            return []
        chance = self._digest("trading again" if is_abandoned else "trading", number)
        least = 180 if self._era(number).spacing > 1 else 80  # of 256, when nothing happens
        return [
            at for at, market in enumerate(self._markets) if chance[at] < least + market.activity(number) // 2
        ]  # fmt: skip

    def _trades(self, at: int, number: int, is_abandoned: bool) -> list[_Trade]:
        """The trades of one pool: each at the price of its own part of the time since the block before it."""
        chance = self._digest(f"{'abandoned ' if is_abandoned else ''}trades {at}", number)
        market, era = self._markets[at], self._era(number)
        activity = market.activity(number)
        count = 1 + (chance[0] < 16 + activity // 2)
        steps = [number - era.spacing + era.spacing * part // count for part in range(1, count + 1)]
        return [
            _trade(POOLS[at], market.deviation(step), activity * era.size, chance[8 * part :])
            for part, step in enumerate(steps)
        ]


def _trade(pool: DemoPool, deviation: int, factor: int, chance: bytes) -> _Trade:
    """``factor``, in percent, enlarges it; most trades are small, a few a hundred times as large."""
    spread = sum(chance[1:5])
    units = max(1, pool.size * ((128 + spread % 128) << (spread // 128)) * factor // (128 * 16 * 100)) + chance[5] % 8
    sign = 1 if chance[6] % 2 else -1
    size_places = DECIMALS[1] - pool.price_places
    base = units * 10 ** (DECIMALS[0] - size_places)
    middle = pool.price * (ONE + deviation)
    paid = middle * (ONE + sign * (_SPREAD + spread * 250)) // (ONE * ONE)
    quote = units * (paid // 10**size_places)
    # The trade moves the price of the pool further than what it pays on the whole, but for the spread.
    after = middle * (ONE + sign * spread * 500) // ONE
    root = isqrt((after << 192) // (ONE * 10 ** DECIMALS[0]))
    return _Trade(sign > 0, base, quote, root)


def _words(*values: int) -> bytes:
    return b"".join([(value % (1 << 8 * WORD)).to_bytes(WORD, "big") for value in values])


def _v2_data(trade: _Trade) -> bytes:
    """What went in of token0 and token1, then what went out."""
    return _words(0, trade.quote, trade.base, 0) if trade.is_buy else _words(trade.base, 0, 0, trade.quote)


def _v3_data(trade: _Trade) -> bytes:
    """The pool's liquidity and tick, of which nothing is made, are left 0."""
    sign = -1 if trade.is_buy else 1
    return _words(sign * trade.base, -sign * trade.quote, trade.root, 0, 0)
