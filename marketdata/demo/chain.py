"""The demo's invented chain: its blocks, and a provider that shows the blocks up to the present.

Each block is a function of the seed, the genesis time and its number, so every machine computes the same chain. A month
of history lies before the first start. The trades of the history are fewer and larger than later trades, so that the
history is stored within seconds.

Some reorganisations replace up to four blocks: the chain grows by one block, and the blocks below it change. A replaced
block is called *abandoned*. Each number has one block that stays and at most one abandoned block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import inf, isqrt
from typing import NamedTuple

from marketdata.demo.prices import ONE, Market
from marketdata.errors import ProviderError, StateError
from marketdata.source.evm import WORD, Header, Log
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Pool
from marketdata.source.proof import BlockLogs

CHAIN = "DEMO"
BLOCK_S = 2
"""Seconds between two blocks."""
DAY = 86_400 // BLOCK_S
"""Blocks of a day."""
HISTORY = 30 * DAY
"""Blocks before the first start, unless chain.json has another number."""
RECENT = 2 * DAY
"""The last blocks of the history. They have more trades than the others, so nearly every minute has a candle."""
DECIMALS = (18, 6)
"""The decimals of the base and of the quote. The base is token0 of both pools."""


class _Era(NamedTuple):
    """The blocks before ``end``. Of each ``spacing`` successive blocks, one may have trades. A trade is ``size`` times
    as large as in the last era, so the volume of an hour is about the same in every era."""

    end: float
    spacing: int
    size: int


_EPOCH = 150
"""Each stretch of 150 blocks has at most one reorganisation."""
MAX_DEPTH = 4
"""A reorganisation replaces at most 4 blocks."""
_SPREAD = 100_000
"""The smallest half of a spread, in parts of :data:`ONE`. A buyer pays at least this much above the pool's price; a
seller gets at least this much below it."""


class DemoPool(NamedTuple):
    """A pool of the demo. ``price`` is the mean price, in the smallest unit of the quote. Prices have ``price_places``
    decimal places. Sizes have the remaining decimals of the quote, so that price times size is exact. ``size`` is the
    size of a small trade, in units of the last decimal place of sizes."""

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
    """A trade of a pool. ``base`` and ``quote`` are amounts in the smallest units. ``root`` is the price after the
    trade as ``sqrtPriceX96``."""

    is_buy: bool
    base: int
    quote: int
    root: int


class Blocks:
    """Computes the blocks of the chain. ``seed`` has at most 64 bytes. ``genesis`` is the time of block 0, in seconds
    since 1970. ``history`` is the number of blocks before the first start, a multiple of 150."""

    def __init__(self, seed: bytes, genesis: int, history: int = HISTORY) -> None:
        self._seed = seed
        self.genesis = genesis
        self._eras = (_Era(history - RECENT, 150, 100), _Era(history, 15, 11), _Era(inf, 1, 1))
        # A cache on the method would be shared by all chains.
        self._trading = lru_cache(maxsize=16)(self._compute_trading)
        self._markets = [Market(self._digest("market", at), genesis, BLOCK_S) for at in range(len(POOLS))]

    def head(self, now: float) -> int:
        """The newest block at the time ``now``, in seconds since 1970; at least block 0."""
        return max(0, int((now - self.genesis) // BLOCK_S))

    def hash(self, number: int, *, is_abandoned: bool = False) -> str:
        return "0x" + self._digest("abandoned" if is_abandoned else "block", number)[:WORD].hex()

    def is_abandoned(self, number: int, head: int) -> bool:
        """Whether the block of this number is the abandoned one while ``head`` is the newest block."""
        fork, depth = self._fork(number)
        return fork < number <= head <= fork + depth

    def header(self, number: int, *, is_abandoned: bool = False) -> Header:
        return Header(
            number=number,
            hash=self.hash(number, is_abandoned=is_abandoned),
            parent=self._parent(number, is_abandoned),
            time=self.genesis + number * BLOCK_S,
            bloom=0,  # empty: has_transactions decides
            has_transactions=bool(self._trading(number, is_abandoned)),
        )

    def logs(self, number: int, wanted: LogFilter, *, is_abandoned: bool = False) -> list[Log]:
        """The wanted logs of one block."""
        logs: list[Log] = []
        position = 0
        block = self.hash(number, is_abandoned=is_abandoned)
        for at in self._trading(number, is_abandoned):
            pool = POOLS[at].pool
            kind = KINDS[pool.kind]
            for trade in self._trades(at, number, is_abandoned):
                data = _v2_data(trade) if pool.kind == "uniswap-v2" else _v3_data(trade)
                transaction = "0x" + self._digest(block, position)[:WORD].hex()
                time = self.genesis + number * BLOCK_S
                log = Log(pool.address, kind.swap_topics, data, number, block, transaction, position, time)
                if wanted.selects(log):
                    logs.append(log)
                position += 1
        return logs

    def trading_between(self, first: int, last: int) -> Iterator[int]:
        """The numbers of the blocks that may have trades. Skips the others without computing them."""
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
        """The reorganisation in the stretch of 150 blocks around a block. Returns the last common block and the number
        of replaced blocks, which is 0 if the stretch has no reorganisation."""
        epoch = number - number % _EPOCH
        chance = self._digest("fork", epoch)
        depth = 1 + chance[1] % MAX_DEPTH if chance[0] < 128 else 0
        return epoch + chance[2] % (_EPOCH - MAX_DEPTH), depth

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
        """The block that may have trades, in the slot that contains this number. A slot has ``spacing`` blocks."""
        spacing = self._era(number).spacing
        slot = number - number % spacing
        return slot + self._digest("slot", slot)[0] % spacing if spacing > 1 else number

    def _compute_trading(self, number: int, is_abandoned: bool) -> list[int]:
        """The pools with trades in a block, as indexes of :data:`POOLS`."""
        if self._trading_of_slot(number) != number:
            return []
        chance = self._digest("trading again" if is_abandoned else "trading", number)
        basic = 180 if self._era(number).spacing > 1 else 80  # the chance without activity, in parts of 256
        return [
            at for at, market in enumerate(self._markets) if chance[at] < basic + market.activity(number) // 2
        ]  # fmt: skip

    def _trades(self, at: int, number: int, is_abandoned: bool) -> list[_Trade]:
        """The trades of one pool in a block. They are spread evenly over the slot of ``spacing`` blocks that ends here,
        and each trade has the price of its moment."""
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
    """Make a trade. ``factor`` scales its size, in percent. Most trades are small; a few are a hundred times as
    large."""
    spread = sum(chance[1:5])
    units = max(1, pool.size * ((128 + spread % 128) << (spread // 128)) * factor // (128 * 16 * 100)) + chance[5] % 8
    sign = 1 if chance[6] % 2 else -1
    size_places = DECIMALS[1] - pool.price_places
    base = units * 10 ** (DECIMALS[0] - size_places)
    middle = pool.price * (ONE + deviation)
    paid = middle * (ONE + sign * (_SPREAD + spread * 250)) // (ONE * ONE)
    quote = units * (paid // 10**size_places)
    # A trade moves the pool's price. Apart from the spread, the trade pays the average of the prices before and after.
    after = middle * (ONE + sign * spread * 500) // ONE
    root = isqrt((after << 192) // (ONE * 10 ** DECIMALS[0]))
    return _Trade(sign > 0, base, quote, root)


def _words(*values: int) -> bytes:
    return b"".join([(value % (1 << 8 * WORD)).to_bytes(WORD, "big") for value in values])


def _v2_data(trade: _Trade) -> bytes:
    """The event's amounts: token0 in, token1 in, token0 out, token1 out."""
    return _words(0, trade.quote, trade.base, 0) if trade.is_buy else _words(trade.base, 0, 0, trade.quote)


def _v3_data(trade: _Trade) -> bytes:
    """Liquidity and tick stay 0, because no reader uses them."""
    sign = -1 if trade.is_buy else 1
    return _words(sign * trade.base, -sign * trade.quote, trade.root, 0, 0)


# -- the provider -----------------------------------------------------------------------------------------------------

_MAX_CLOCK_STEP = 60 // BLOCK_S
"""The newest block may fall back by at most this many blocks, those of a minute. Clocks are sometimes set back by some
seconds."""


class DemoProvider:
    """The demo's chain as a :class:`marketdata.source.provider.Provider`, without a network.

    ``clock`` returns seconds since 1970. ``highest`` is the newest block that an earlier run has read.
    """

    name = "the demo source"
    requests: Mapping[str, int] = {}
    switches = contradicted_ranges = contradictions = unproved_blocks = 0

    def __init__(self, blocks: Blocks, clock: Callable[[], float], highest: int = 0) -> None:
        self._blocks = blocks
        self._clock = clock
        self._highest = highest

    def interrupt(self) -> None:
        """Do nothing, because no call waits."""

    def close(self) -> None:
        """Do nothing, because there is no connection."""

    def distrust(self, about: str) -> bool:
        return False

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        """Raises StateError when the clock was set back by more than a minute."""
        head = self._head()
        if head < self._highest - _MAX_CLOCK_STEP:
            raise StateError(
                f"{self.name}: by the clock, block {head} is the newest, but block {self._highest} was read before. "
                "If the clock was ahead then, bin/marketdata-demo reset begins anew"
            )
        self._highest = max(self._highest, head)
        return self._header(head, head), max(0, head - MAX_DEPTH) if with_finalized else 0

    def check_chain(self) -> None:
        """Do nothing, because the demo has only one chain."""

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        head = self._head()
        if any(number > head for number in numbers):
            raise ProviderError(f"{self.name} has no block {max(numbers)}: the newest block is {head}")
        return [self._header(number, head) for number in numbers]

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        head = self._head()
        return [self._header(number, head) if number <= head else None for number in numbers]

    def logs_of(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log]]:
        """The wanted logs of each block. The hash tells whether the abandoned block is meant."""
        return [
            self._blocks.logs(each.number, wanted, is_abandoned=each.hash != self._blocks.hash(each.number))
            for each in headers
        ]

    def prove(self, headers: Sequence[Header], logs: Sequence[list[Log]], wanted: LogFilter) -> list[BlockLogs]:
        return [BlockLogs(each) for each in logs]

    def receipt_logs(self, headers: Sequence[Header], wanted: LogFilter) -> list[list[Log] | None]:
        return list(self.logs_of(headers, wanted))

    def logs_between(
        self, first: int, last: int, wanted: LogFilter, ends: Sequence[int]
    ) -> tuple[list[Log], dict[int, Header]]:
        numbers = self._blocks.trading_between(first, last)
        logs = [log for number in numbers for log in self._blocks.logs(number, wanted)]
        return logs, {number: self._blocks.header(number) for number in ends}

    def read_contract(self, address: str, function: str) -> bytes:
        return _CONTRACTS.get((address, function), b"")

    def read_contracts(self, calls: Sequence[tuple[str, str]]) -> list[bytes]:
        return [self.read_contract(*call) for call in calls]

    def _head(self) -> int:
        return self._blocks.head(self._clock())

    def _header(self, number: int, head: int) -> Header:
        return self._blocks.header(number, is_abandoned=self._blocks.is_abandoned(number, head))


def _contracts() -> dict[tuple[str, str], bytes]:
    """The results of the contracts' functions, by address and function."""
    answers: dict[tuple[str, str], bytes] = {}
    for pool, *_ in POOLS:
        kind = KINDS[pool.kind]
        answers |= {(pool.address, name): bytes(count * WORD) for name, count in kind.functions.items()}
        names = pool.symbol.partition(":")[2].split("-")
        for at, (name, decimals) in enumerate(zip(names, DECIMALS, strict=True)):
            token = f"{pool.address[:-2]}{at + 1}{pool.address[-1]}"
            answers[pool.address, f"token{at}()"] = bytes.fromhex(token[2:]).rjust(WORD, b"\0")
            answers[token, "decimals()"] = decimals.to_bytes(WORD, "big")
            answers[token, "symbol()"] = name.encode().ljust(WORD, b"\0")
    return answers


_CONTRACTS = _contracts()
