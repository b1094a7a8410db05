"""Makes ticks from the logs of swaps, with exact price, size and side; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from marketdata.source.evm import Log
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Deltas, Pool, PoolIndex

MAX_PLACES = 30
"""A tick has at most 30 decimal places, and at most 30 digits before the point."""
PRICE_DIGITS = 36
"""Significant digits of a price."""

_SEQ_SHIFT = 20
"""A block has fewer than 2^20 logs. 2^20 logs would cost 400 million gas, because one log costs at least 375 gas."""
_TICK_JSON = (
    '{"symbol":"%s","id":"%s:%d","ts":%d,"seq":%d,"price":"%s","size":"%s","side":"%s",'
    '"block":{"number":%d,"hash":"%s"},"tx":"%s"}'
)


class SwapTick(NamedTuple):
    """A tick of a swap. ``body`` is the JSON of one item of ``POST /v1/ingest/tick``."""

    symbol: str
    body: str


class NotATrade(ValueError):
    """The swap has no price, or its price or size does not fit into a tick. The message names the cause."""


Skip = Callable[[Pool, Log, str, ValueError], None]
"""Callback for a swap that yields no tick. Its arguments are the pool, the log, the reason (``no_price`` or
``not_a_swap``) and the error."""


def ticks(pools: PoolIndex[Pool], logs: Iterable[Log], skip: Skip) -> list[SwapTick]:
    """The ticks of the swaps among ``logs``, in their order. Each log has the time of its block. Swaps before a pool's
    start block are left out."""
    found = []
    for log in logs:
        for pool in pools.of(log):
            if log.topics[0] not in KINDS[pool.kind].swap_topics or log.block_number < pool.start_block:
                continue
            try:
                found.append(SwapTick(pool.symbol, tick_json(pool, log)))
            except ValueError as error:
                skip(pool, log, "no_price" if isinstance(error, NotATrade) else "not_a_swap", error)
    return found


class Skipped:
    """A :data:`Skip` that collects what it is told, for one range of blocks."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How many swaps yielded no tick, by reason."""
        self._errors: dict[str, tuple[int, ValueError]] = {}
        self._read: set[str] = set()

    def __call__(self, pool: Pool, _log: Log, reason: str, error: ValueError) -> None:
        self.counts[reason] += 1
        if reason == "no_price":  # such a swap was understood
            self._read.add(pool.symbol)
        else:
            self._errors[pool.symbol] = (self._errors.get(pool.symbol, (0,))[0] + 1, error)

    def unread(self, ticks: Iterable[SwapTick]) -> dict[str, str]:
        """The symbols of which every log was discarded, with the reason: their swaps of this range were not read.
        ``ticks`` are those of the range."""
        read = self._read | {tick.symbol for tick in ticks}
        return {
            symbol: f"all {count} logs were discarded, the last one because it {error}"
            for symbol, (count, error) in self._errors.items()
            if symbol not in read
        }


def tick_json(pool: Pool, log: Log) -> str:
    """The JSON of a swap's tick. Raises NotATrade if the swap has no price, and ValueError if the log is not a swap of
    this kind of pool."""
    made = trade(KINDS[pool.kind].decode(log.data), pool.decimals, invert=pool.invert)
    number, hash, position = log.block_number, log.block_hash, log.position
    seq = (number << _SEQ_SHIFT) + position
    # No value needs an escape. A JSON encoder would double the time that a log takes, because encoding takes as long as
    # decoding the log.
    return _TICK_JSON % (
        pool.symbol, hash, position, log.time * 1000, seq, *made, number, hash, log.transaction,
    )  # fmt: skip


# -- price, size and side ------------------------------------------------------------------------------------------


class Trade(NamedTuple):
    """A trade. ``price`` (quote per base) and ``size`` (base) are decimal text in whole tokens. ``side`` is buy or
    sell."""

    price: str
    size: str
    side: str


def trade(deltas: Deltas, decimals: tuple[int, int], *, invert: bool) -> Trade:
    """The trade of a swap. The base is token0, or token1 with ``invert``. A buy takes base out of the pool. Raises
    NotATrade if the swap has no price."""
    if (deltas.token0 > 0) == (deltas.token1 > 0) or not deltas.token0 or not deltas.token1:
        raise NotATrade("no token was exchanged for the other one")
    (base, base_decimals), (quote, quote_decimals) = zip(deltas, decimals, strict=True)
    if invert:
        (base, base_decimals), (quote, quote_decimals) = (quote, quote_decimals), (base, base_decimals)
    return Trade(
        price=rounded(abs(quote) * 10**base_decimals, abs(base) * 10**quote_decimals, PRICE_DIGITS),
        size=rounded(abs(base), 10**base_decimals),
        side="buy" if base < 0 else "sell",
    )


def rounded(numerator: int, denominator: int, significant: int = 2 * MAX_PLACES) -> str:
    """The fraction as decimal text, rounded half-even to ``significant`` digits and at most ``MAX_PLACES`` places.

    Raises NotATrade when the fraction rounds to 0, or has more than ``MAX_PLACES`` digits before the point.
    """
    places = min(MAX_PLACES, significant - _digits_before_point(numerator, denominator))
    up, down = (10**places, 1) if places >= 0 else (1, 10**-places)
    scaled, rest = divmod(numerator * up, denominator * down)
    twice = 2 * rest - denominator * down
    if twice > 0 or (twice == 0 and scaled % 2):
        scaled += 1
    if not scaled:
        raise NotATrade(f"it rounds to 0 at {MAX_PLACES} decimal places")
    if places < 0 or scaled >= 10 ** (MAX_PLACES + places):
        raise NotATrade(f"it has more than {MAX_PLACES} digits before the point")
    text = str(scaled).rjust(places + 1, "0")
    whole, fraction = text[: len(text) - places], text[len(text) - places :].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _digits_before_point(numerator: int, denominator: int) -> int:
    """The exponent of ten above the first significant digit: 3 for 123.4, 0 for 0.5, -1 for 0.05."""
    digits = len(str(numerator)) - len(str(denominator))
    at_least = numerator >= denominator * 10**digits if digits >= 0 else numerator * 10**-digits >= denominator
    return digits + 1 if at_least else digits
