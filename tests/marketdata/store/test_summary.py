"""Summaries of the last 24 hours, compared with sums over all ticks in Python."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from decimal import Decimal
from fractions import Fraction
from typing import Any

from marketdata.interval import DAY, SECOND
from marketdata.store import summary, ticks
from marketdata.store.pool import Connection, connect
from marketdata.store.summary import Summary
from marketdata.store.version import Version
from marketdata.tick import Tick

from .brute_force import text
from .conftest import START, clock_of, new_symbol, tick

HOUR, MINUTE = 3600 * SECOND, 60 * SECOND
END = START + 13 * HOUR + 37 * MINUTE + 12_345_000
"""The time around which windows end: in whole milliseconds."""


def expected(symbol: str, sent: Iterable[Tick], as_of: int, *, has_closes: bool = False) -> dict[str, Any]:
    """The item of these ticks; ``as_of`` is in microseconds."""
    since = as_of - DAY
    held = sorted((each for each in sent if each.ts <= as_of), key=lambda each: (each.ts, each.seq, each.id))
    within = [each for each in held if each.ts >= since]
    before = [each for each in held if each.ts < since]
    last = held[-1] if held else None
    opened = (before[-1] if before else within[0]) if held else None
    prices = [Decimal(each.price) for each in within]
    quotes = [Fraction(each.price) * Fraction(each.size) for each in within]
    found = {
        "symbol": symbol,
        "last": text(Decimal(last.price)) if last else None,
        "ts": last.ts // 1000 if last else None,
        "open24h": text(Decimal(opened.price)) if opened else None,
        "change24h": change(last.price, opened.price) if last and opened else None,
        "high24h": text(max(prices)) if prices else None,
        "low24h": text(min(prices)) if prices else None,
        "volume24h": exact(sum((Fraction(each.size) for each in within), Fraction(0))),
        "quote_volume24h": exact(sum(quotes, Fraction(0))),
        "trades24h": len(within),
    }
    if has_closes:
        ends = [as_of // HOUR * HOUR - at * HOUR for at in reversed(range(24))]
        closes = [next((each for each in reversed(held) if each.ts < end), None) for end in ends]
        found["closes24h"] = [text(Decimal(each.price)) if each else None for each in [*closes, last]]
    return found


def change(last: str, opened: str) -> str:
    """The change, rounded half-even like ``round``."""
    millionths = round((Fraction(last) - Fraction(opened)) / Fraction(opened) * 10**6)
    return ("-" if millionths < 0 else "") + exact(Fraction(abs(millionths), 10**6))


def exact(value: Fraction) -> str:
    """A decimal fraction without rounding."""
    digits = value * 10**60
    assert digits.denominator == 1
    whole, rest = divmod(digits.numerator, 10**60)
    return f"{whole}.{rest:060}".rstrip("0").rstrip(".")


def items(found: Summary) -> list[dict[str, Any]]:
    made = [json.loads(each) for each in found.items.values()]
    assert [each["symbol"] for each in made] == list(found.items)
    return made


def history(symbol: str, chance: random.Random, count: int) -> list[Tick]:
    """Ticks of three days, many of them close to the ends of some window, or at a bound of buckets."""
    ends = [END - DAY * day for day in range(3)]
    widths = [2, MINUTE, HOUR, 4 * HOUR, DAY]
    times = [
        chance.choice(ends) + chance.choice([-1, 1]) * chance.randrange(chance.choice(widths)) for _ in range(count)
    ]
    return [
        tick(
            symbol, f"{n}", ts - ts % chance.choice([1, 1000, SECOND, MINUTE]),
            f"{chance.randrange(1, 10**6)}.{chance.randrange(10**5)}",
            f"{chance.randrange(10**4)}.{chance.randrange(10**6):06}",
            seq=chance.randrange(3), side=chance.choice(["buy", "sell", None]),
            block_number=(block := chance.randrange(5)), block_hash=f"0x{block}",
        )
        for n, ts in enumerate(times)
    ]  # fmt: skip


def moments(chance: random.Random) -> list[int]:
    """Times around ``END``: bounds of buckets of each width, a millisecond beside them, and any."""
    bounds = [END - END % width for width in (1000, SECOND, MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, DAY)]
    return [
        *(bound + beside for bound in bounds for beside in (-1000, 0, 1000)),
        *(END + chance.randrange(-DAY, DAY) // 1000 * 1000 for _ in range(6)),
    ]


def test_items_are_sums_over_ticks(
    conn: Connection, version: Version, clock: Callable[[int], None], rng: random.Random
) -> None:
    """Ticks come late and in any order, and blocks are retracted."""
    for count in (1, 1, 3, 3, 30, 30, 400):
        symbol = new_symbol()
        sent = history(symbol, rng, count)
        for part in range(3):
            ticks.ingest(conn, version, sent[part::3])
        for is_retracted in (False, True):
            if is_retracted:
                conn.execute(version.query("SELECT {retract}(%s, '0x1')"), (symbol,))
                sent = [each for each in sent if each.block_hash != "0x1"]
            for at in moments(rng):
                clock(at)
                found = summary.named(conn, version, [symbol], addition="closes")
                assert found.as_of * 1000 == at
                assert items(found) == [expected(symbol, sent, at, has_closes=True)], (count, at)


def test_the_time_is_rounded_up_to_1_ms(conn: Connection, version: Version, clock: Callable[[int], None]) -> None:
    """A tick that was stored with the present time is never later than ``as_of``."""
    symbol = new_symbol()
    ticks.ingest(conn, version, [tick(symbol, "1", END + 1)])
    clock(END + 1)
    found = summary.named(conn, version, [symbol])
    assert (found.as_of, items(found)[0]["trades24h"]) == (END // 1000 + 1, 1)


def test_the_change_is_rounded_half_even(conn: Connection, version: Version, clock: Callable[[int], None]) -> None:
    clock(END)
    pairs = [
        ("2000000", "2000001", "0"), ("2000000", "2000003", "0.000002"), ("2000000", "1999999", "0"),
        ("2000000", "1999997", "-0.000002"), ("3", "4", "0.333333"), ("3", "5", "0.666667"), ("3", "1", "-0.666667"),
        ("1", "1", "0"), ("0.000000000000000000000000000001", "9" * 30, f"{'9' * 29}8{'9' * 30}"),
    ]  # fmt: skip
    for opened, last, wanted in pairs:
        symbol = new_symbol()
        ticks.ingest(conn, version, [tick(symbol, "1", END - 2, opened), tick(symbol, "2", END - 1, last)])
        (item,) = items(summary.named(conn, version, [symbol]))
        assert item["change24h"] == change(last, opened) == wanted


def test_items_have_the_order_of_the_names(conn: Connection, version: Version, clock: Callable[[int], None]) -> None:
    clock(END)
    first, second, quiet = new_symbol(), new_symbol(), new_symbol()
    ticks.ingest(
        conn, version, [tick(first, "1", END), tick(second, "1", END), tick(quiet, "1", END - 9 * DAY, "7.50")]
    )
    conn.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('SUMMARY-ALIAS', %s)", (second,))
    found = summary.named(conn, version, ["SUMMARY-ALIAS", "NO:SUCH", quiet, first, second])
    assert list(found.items) == [second, quiet, first]
    assert found.names.keys() == {"SUMMARY-ALIAS", quiet, first, second}
    assert json.loads(found.items[quiet]) == {
        "symbol": quiet, "last": "7.5", "ts": (END - 9 * DAY) // 1000, "open24h": "7.5", "change24h": "0",
        "high24h": None, "low24h": None, "volume24h": "0", "quote_volume24h": "0", "trades24h": 0,
    }  # fmt: skip


def test_a_symbol_without_ticks_has_no_price(conn: Connection, version: Version, clock: Callable[[int], None]) -> None:
    clock(END)
    symbol = new_symbol()
    conn.execute(version.query("SELECT {finalize}(%s, 1)"), (symbol,))
    (item,) = items(summary.named(conn, version, [symbol], addition="closes"))
    assert item == expected(symbol, [], END, has_closes=True)
    assert (item["last"], item["change24h"], item["volume24h"]) == (None, None, "0")
    assert item["closes24h"] == [None] * 25


def test_the_orders(new_store: Callable[[], AbstractContextManager[tuple[str, Version]]], rng: random.Random) -> None:
    with new_store() as (database, version), connect(database) as conn, clock_of(conn) as clock:
        clock(END)
        check_orders(conn, version, rng)


def check_orders(conn: Connection, version: Version, chance: random.Random) -> None:
    assert summary.sorted_by(conn, version, "change", 5) == Summary({}, END // 1000, {})
    sent = {f"O:{n}": history(f"O:{n}", chance, chance.randrange(1, 9)) for n in range(40)}
    sent["O:tie"] = [tick("O:tie", each.id, each.ts, each.price, each.size) for each in sent["O:0"]]
    ticks.ingest(conn, version, [each for some in sent.values() for each in some])
    conn.execute(version.query("SELECT {finalize}('O:none', 1)"))
    made = [expected(symbol, some, END) for symbol, some in sent.items()]
    first = {symbol: min(each.ts for each in some) for symbol, some in sent.items()}
    keys: dict[summary.Sort, Callable[[dict[str, Any]], Any]] = {
        "change": lambda item: abs(Decimal(item["change24h"] or 0)),
        "volume": lambda item: Decimal(item["quote_volume24h"]),
        "newest": lambda item: first[item["symbol"]],
    }
    for sort, key in keys.items():
        wanted = sorted(made, key=lambda item: (-key(item), item["symbol"]))
        for limit in (1, 7, 200):
            assert items(summary.sorted_by(conn, version, sort, limit)) == wanted[:limit]
