"""The answers that the store must give, computed from the ticks alone, with fractions, one tick at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from marketdata.interval import SECOND, UTC_ZONE, Zone, bucket_end, bucket_open
from marketdata.tick import Tick

LEVELS = {60: "1m", 900: "15m", 1800: "30m", 3600: "1h", 14_400: "4h", 86_400: "1d"}
EXACT = Context(prec=400)


@dataclass
class Candle:
    opened: int
    end: int
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal
    quote: Decimal
    buy_volume: Decimal
    buy_quote: Decimal
    n: int
    max_block: int | None
    first: tuple[int, int, str]
    last: tuple[int, int, str]


def text(number: Decimal) -> str:
    """Plain digits without trailing zeros."""
    shown = format(number, "f")
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def vwap(quote: Decimal, volume: Decimal) -> str | None:
    """The average rounded to 18 places, with a tie to the even digit; None without volume."""
    if not volume:
        return None
    scaled = Fraction(quote) / Fraction(volume) * 10**18
    return text(EXACT.scaleb(Decimal(round(scaled)), -18))  # round() of a fraction is half-even


def order(tick: Tick) -> tuple[int, int, bytes]:
    return tick.ts, tick.seq, tick.id.encode()


def candles(ticks: Iterable[Tick], interval: str, zone: Zone = UTC_ZONE) -> list[Candle]:
    """The candles of one symbol's ticks, oldest first; only buckets that hold a tick."""
    buckets: dict[int, list[Tick]] = {}
    for tick in sorted(ticks, key=order):
        buckets.setdefault(bucket_open(tick.ts, interval, zone), []).append(tick)
    return [_candle(opened, bucket_end(opened, interval, zone), held) for opened, held in buckets.items()]


def _candle(opened: int, end: int, held: list[Tick]) -> Candle:
    prices = [Decimal(tick.price) for tick in held]
    sizes = [Decimal(tick.size) for tick in held]
    volume = quote = buy_volume = buy_quote = Decimal(0)
    for price, size, tick in zip(prices, sizes, held, strict=True):
        volume = EXACT.add(volume, size)
        quote = EXACT.add(quote, EXACT.multiply(price, size))
        if tick.side == "buy":
            buy_volume = EXACT.add(buy_volume, size)
            buy_quote = EXACT.add(buy_quote, EXACT.multiply(price, size))
    first, last = ((each.ts, each.seq, each.id) for each in (held[0], held[-1]))
    max_block = max((tick.block_number for tick in held if tick.block_number is not None), default=None)
    return Candle(
        opened, end, prices[0], max(prices), min(prices), prices[-1], volume, quote, buy_volume, buy_quote, len(held),
        max_block, first, last,
    )  # fmt: skip


def rollups(ticks: Iterable[Tick]) -> list[tuple[Any, ...]]:
    """The rows of the rollups table that one symbol's ticks make, by level and bucket, numbers as text."""
    ticks = list(ticks)
    return [
        (
            res, c.opened, *map(text, (c.open, c.high, c.low, c.close, c.volume, c.quote)), vwap(c.quote, c.volume),
            c.n, *c.first, *c.last, c.max_block, json_prefix(c), text(c.buy_volume), text(c.buy_quote),
        )
        for res, interval in LEVELS.items()
        for c in candles(ticks, interval)
    ]  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """Parameters of ``store.candles.read``."""

    interval: str
    start: int | None = None
    end: int | None = None
    limit: int = 500
    sort: str = "asc"
    fill: str = "none"
    zone: Zone = UTC_ZONE
    current: str = "include"
    open: str = "first"


def final_until(sent: Iterable[Tick], block: int | None = None, ts: int | None = None) -> int | None:
    """The time up to which candles are final after ``finalize`` of ``block``: -1 before any, None for a symbol without
    blocks, whose candles are final when they are closed."""
    numbered = [(tick.block_number, tick.ts) for tick in sent if tick.block_number is not None]
    if block is None:
        return -1 if numbered else None
    return ts if ts is not None else max((time for number, time in numbered if number <= block), default=-1)


def chart(symbol: str, made: list[Candle], asked: Asked, now_ms: int, final: int | None) -> tuple[str, bool]:
    """The whole answer in the format ``object``, and ``more``; ``made`` are all :func:`candles` of the interval,
    ``final`` is a :func:`final_until`."""
    chosen, more = _answered(made, asked, now_ms)
    rows = ",".join(_row(candle, now_ms * 1000, final) for candle in chosen)
    return (
        f'{{"symbol":"{symbol}","interval":"{asked.interval}","candles":[{rows}],'
        f'"more":{json.dumps(more)},"as_of":{now_ms}}}'
    ), more


def klines(made: list[Candle], asked: Asked, now_ms: int) -> str:
    """The whole answer in the format ``binance``."""
    rows = (
        f'[{c.opened // 1000},"{text(c.open)}","{text(c.high)}","{text(c.low)}","{text(c.close)}","{text(c.volume)}",'
        f'{c.end // 1000 - 1},"{text(c.quote)}",{c.n},"{text(c.buy_volume)}","{text(c.buy_quote)}","0"]'
        for c in _answered(made, asked, now_ms)[0]
    )
    return f"[{','.join(rows)}]"


def _answered(made: list[Candle], asked: Asked, now_ms: int) -> tuple[list[Candle], bool]:
    chosen = (_filled if asked.fill == "previous" else _held)(made, asked, now_ms * 1000)
    if asked.open == "previous":
        chosen = [_connected(made, candle) for candle in chosen]
    shown = sorted(chosen[: asked.limit], key=lambda candle: candle.opened, reverse=asked.sort == "desc")
    return shown, len(chosen) > asked.limit


def _connected(made: list[Candle], candle: Candle) -> Candle:
    """The candle as if the close of the candle before were its first price."""
    before = [each for each in made if each.opened < candle.opened][-1:]
    closes = [each.close for each in before]
    return replace(
        candle,
        open=(closes or [candle.open])[0],
        high=max(candle.high, *closes, candle.high),
        low=min(candle.low, *closes, candle.low),
    )


def _chosen(opened: int, end: int, asked: Asked, now: int) -> bool:
    return (
        (asked.start is None or asked.start <= opened)
        and (asked.end is None or opened <= asked.end)
        and (asked.current == "include" or end <= now)
    )


def _held(made: list[Candle], asked: Asked, now: int) -> list[Candle]:
    """The candles in the order in which the limit selects them: from ``start`` on, or from the newest back without a
    start."""
    chosen = [candle for candle in made if _chosen(candle.opened, candle.end, asked, now)]
    return (chosen if asked.start is not None else chosen[::-1])[: asked.limit + 1]


def _filled(made: list[Candle], asked: Asked, now: int) -> list[Candle]:
    if not made:
        return []
    interval, zone = asked.interval, asked.zone
    first = made[0].opened
    last = max(bucket_open(now, interval, zone), made[-1].opened)
    by_time = {candle.opened: candle for candle in made}
    chosen: list[Candle] = []
    if asked.start is not None:
        opened = bucket_open(max(asked.start, first), interval, zone)
        while opened <= last and (asked.end is None or opened <= asked.end) and len(chosen) <= asked.limit:
            end = bucket_end(opened, interval, zone)
            if _chosen(opened, end, asked, now):
                chosen.append(by_time.get(opened) or _flat(made, opened, end))
            opened = end
        return chosen
    opened = last if asked.end is None else bucket_open(min(asked.end, last), interval, zone)
    while opened >= first and len(chosen) <= asked.limit:
        end = bucket_end(opened, interval, zone)
        if _chosen(opened, end, asked, now):
            chosen.append(by_time.get(opened) or _flat(made, opened, end))
        opened = bucket_open(opened - 1, interval, zone)
    return chosen


def _flat(made: list[Candle], opened: int, end: int) -> Candle:
    before = [candle for candle in made if candle.opened < opened][-1]
    price, zero = before.close, Decimal(0)
    return Candle(opened, end, price, price, price, price, zero, zero, zero, zero, 0, None, before.last, before.last)


def _row(candle: Candle, now: int, final: int | None) -> str:
    closed = candle.end <= now
    finalized = closed and (final is None or candle.end <= final)
    return f'{json_prefix(candle)},"closed":{json.dumps(closed)},"finalized":{json.dumps(finalized)}}}'


def json_prefix(candle: Candle) -> str:
    """The JSON of a candle, up to the members that depend on the time of the request."""
    assert candle.opened % SECOND == 0
    c = candle
    numbers = {"o": c.open, "h": c.high, "l": c.low, "c": c.close, "v": c.volume, "q": c.quote}
    return (
        f'{{"t":{candle.opened // 1000},"T":{candle.end // 1000 - 1},'
        + "".join(f'"{name}":"{text(number)}",' for name, number in numbers.items())
        + f'"n":{candle.n},"vwap":{json.dumps(vwap(candle.quote, candle.volume))},"bv":"{text(candle.buy_volume)}"'
    )
