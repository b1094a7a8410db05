"""Every candle against a brute-force recomputation: every interval, every bound, byte for byte."""

from __future__ import annotations

import itertools
import json
import random
import re
from decimal import Decimal
from time import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marketdata.errors import InvalidValue, NotFound
from marketdata.interval import DAY, SECOND, UTC_ZONE, WIDTHS, Zone, bucket_end, bucket_open
from marketdata.store import candles, ticks
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.version import Version
from marketdata.tick import Finalize, Retract, Tick

from . import brute_force
from .brute_force import Asked, Candle, chart, rollups, vwap
from .conftest import RELAXED, START, history, insert, new_symbol, stored_rollups, tick

ZONES = [Zone.fixed(offset) for offset in (0, 0, 330, -570, 60, -720, 840, 345, 1, -61)]

edges = st.builds(
    lambda base, days, us: START + base * 40 * DAY + days * DAY + us,
    st.integers(0, 2),
    st.integers(-32, 60),
    st.one_of(st.sampled_from([0, -1, 1]), st.integers(0, DAY)),
)


@st.composite
def questions(draw: st.DrawFn, interval: str) -> Asked:
    start, end = draw(st.none() | edges), draw(st.none() | edges)
    return Asked(
        interval,
        start=start,
        end=end,
        limit=draw(st.sampled_from([1, 2, 3, 7, 500])),
        sort=draw(st.sampled_from(["asc", "desc"])),
        fill=draw(st.sampled_from(["none", "none", "previous"])),
        zone=draw(st.sampled_from(ZONES)),
        current=draw(st.sampled_from(["include", "exclude"])),
        open=draw(st.sampled_from(["first", "previous"])),
    )


def check(conn: Connection, version: Version, symbol: str, made: list[Candle], asked: Asked, final: int | None) -> None:
    found = candles.read(conn, version, symbol, **vars(asked))
    expected, more = chart(symbol, made, asked, found.state.as_of, final)
    assert found.body.decode() == expected
    assert (found.more, found.count) == (more, len(json.loads(expected)["candles"]))
    rows = candles.read(conn, version, symbol, **vars(asked), format="binance")
    assert rows.body.decode() == brute_force.klines(made, asked, rows.state.as_of)


@settings(**RELAXED)
@given(data=st.data())
def test_candles_of_every_interval_and_bound_are_exact(conn: Connection, version: Version, data: st.DataObject) -> None:
    symbol = new_symbol()
    held = data.draw(history(symbol))
    for start in range(0, len(held), 7):
        ticks.ingest(conn, version, held[start : start + 7])
    block, ts = data.draw(st.none() | st.integers(1, 4)), data.draw(st.none() | edges)
    if block is not None:
        ticks.ingest(conn, version, [Finalize(symbol, block, ts)])
    final = brute_force.final_until(held, block, ts)
    if data.draw(st.booleans()):
        ticks.ingest(conn, version, [Retract(symbol, "0xb2")])
        held = [each for each in held if each.block_hash != "0xb2"]
    assert stored_rollups(conn, version, symbol) == rollups(held)
    for asked in data.draw(st.lists(st.sampled_from(list(WIDTHS)).flatmap(questions), min_size=4, max_size=4)):
        check(conn, version, symbol, brute_force.candles(held, asked.interval, asked.zone), asked, final)


AGES = st.sampled_from([0, 1, 30, 600, 7200, 90_000, 900_000, -40, -4000, -400_000])


@settings(**RELAXED)
@given(data=st.data())
def test_candles_around_the_present_are_exact(conn: Connection, version: Version, data: st.DataObject) -> None:
    """Candles are closed or open, the current one is included or not, ``fill`` reaches up to now, and some ticks are in
    the future."""
    symbol, now = new_symbol(), int(time()) * SECOND
    ages = data.draw(st.lists(AGES, min_size=1))
    held = [tick(symbol, str(n), now - age * SECOND, str(n + 1), block_number=n) for n, age in enumerate(ages)]
    ticks.ingest(conn, version, [*held, Finalize(symbol, 1)])
    final = brute_force.final_until(held, 1)
    for _ in range(4):
        asked = Asked(
            data.draw(st.sampled_from(list(WIDTHS))),
            start=data.draw(st.sampled_from([None, now - 100_000 * SECOND, now - 5 * SECOND])),
            limit=data.draw(st.sampled_from([1, 3, 50])),
            fill=data.draw(st.sampled_from(["none", "previous"])),
            zone=data.draw(st.sampled_from(ZONES)),
            current=data.draw(st.sampled_from(["include", "exclude"])),
            open=data.draw(st.sampled_from(["first", "previous"])),
        )
        check(conn, version, symbol, brute_force.candles(held, asked.interval, asked.zone), asked, final)


def finalized(conn: Connection, version: Version, symbol: str, interval: str = "1m", fill: str = "none") -> list[bool]:
    """``finalized`` of every candle. All ways of reading the candles must agree on it."""
    rows = json.loads(candles.read(conn, version, symbol, interval, start=0, fill=fill).body)["candles"]
    columns = json.loads(candles.read(conn, version, symbol, interval, start=0, fill=fill, format="columns").body)
    found = [row["finalized"] for row in rows]
    assert found == columns["candles"]["finalized"]
    return found


MINUTE = 60 * SECOND


def in_block(symbol: str, number: int, ts: int) -> Tick:
    return tick(symbol, f"{number}:{ts}", ts, block_number=number, block_hash=f"0xb{number}")


def test_without_finalize_no_candle_of_a_symbol_with_blocks_is_final(conn: Connection, version: Version) -> None:
    symbol, now = new_symbol(), int(time()) * SECOND
    ticks.ingest(conn, version, [in_block(symbol, 9, now - 10 * MINUTE)])
    for interval in ("1s", "1m", "5m"):
        assert not any(finalized(conn, version, symbol, interval))
        assert not any(finalized(conn, version, symbol, interval, fill="previous"))
    ticks.ingest(conn, version, [tick(symbol, "no block", now - 5 * MINUTE)])
    assert finalized(conn, version, symbol) == [False, False], "nor one that holds no tick of a block"
    ticks.ingest(conn, version, [Retract(symbol, "0xb9")])
    assert finalized(conn, version, symbol) == [False], "nor after all of its blocks were retracted"


def test_a_block_that_another_client_inserts_counts_too(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    insert(conn, version, [tick(symbol, "no block", START)])
    assert finalized(conn, version, symbol) == [True]
    insert(conn, version, [in_block(symbol, 9, START + 10 * MINUTE)])
    assert finalized(conn, version, symbol) == [False, False]


def test_a_bucket_is_final_when_it_ends_at_or_before_the_finalized_time(conn: Connection, version: Version) -> None:
    """It is not enough that the blocks of its ticks are final, because the next block may have a tick in the same
    minute."""
    symbol = new_symbol()
    ticks.ingest(conn, version, [in_block(symbol, 7, START + 10 * SECOND), Finalize(symbol, 7)])
    assert finalized(conn, version, symbol) == [False]
    ticks.ingest(conn, version, [in_block(symbol, 8, START + 20 * SECOND)])
    assert finalized(conn, version, symbol) == [False]
    ticks.ingest(conn, version, [in_block(symbol, 9, START + 2 * MINUTE), Finalize(symbol, 8)])
    assert finalized(conn, version, symbol) == [False, False]
    ticks.ingest(conn, version, [Finalize(symbol, 9)])
    assert finalized(conn, version, symbol) == [True, False]
    assert finalized(conn, version, symbol, fill="previous")[:4] == [True, True, False, False]


def test_the_time_of_the_finalized_block_may_be_sent(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    ticks.ingest(conn, version, [in_block(symbol, 7, START), Finalize(symbol, 8, START + MINUTE - 1)])
    assert finalized(conn, version, symbol) == [False]
    ticks.ingest(conn, version, [Finalize(symbol, 8, START + MINUTE)])
    assert finalized(conn, version, symbol) == [True]
    for lower in (Finalize(symbol, 7, START + 9 * MINUTE), Finalize(symbol, 8, START), Finalize(symbol, 9)):
        ticks.ingest(conn, version, [lower])
        assert finalized(conn, version, symbol, fill="previous")[:2] == [True, False]


def test_so_many_rows_are_enough_if_no_bucket_is_empty(conn: Connection, version: Version, rng: random.Random) -> None:
    """The test counts the rows that are read for a limit. Each bucket here needs the greatest number of rows: there is
    a tick in every quarter of an hour of 70 days, and in every minute of one of them."""
    symbol = new_symbol()
    held = [tick(symbol, f"q{n}", START + n * 900 * SECOND, str(n % 97 + 1)) for n in range(70 * 96)]
    held += [tick(symbol, f"m{n}", START + (86_400 * 33 + n * 60 + 1) * SECOND, str(n % 89 + 1)) for n in range(1440)]
    ticks.ingest(conn, version, held)
    for interval in WIDTHS.keys() - {"1s"}:
        for offset in (0, rng.choice([-585, 60, 330, 1])):
            zone = Zone.fixed(offset)
            made = brute_force.candles(held, interval, zone)
            for limit in (1, 2, 5):
                for bounds in ({}, {"start": START}, {"start": START + 33 * DAY + 1}, {"end": START + 34 * DAY}):
                    check(conn, version, symbol, made, Asked(interval, limit=limit, zone=zone, **bounds), None)


def test_all_formats_have_the_same_candles(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    held = [
        tick(symbol, str(n), START + n * 70 * SECOND, f"{n + 1}.50", "0" if n == 2 else "2", side=side)
        for n, side in enumerate(("buy", "sell", "buy", None))
    ]
    ticks.ingest(conn, version, held)
    answers = {format: candles.read(conn, version, symbol, "1m", format=format) for format in candles.Format.__args__}
    rows = json.loads(answers["object"].body)["candles"]
    assert [row["vwap"] for row in rows] == ["1.5", "2.5", None, "4.5"]

    columns = json.loads(answers["columns"].body)
    assert columns["candles"] == {name: [row[name] for row in rows] for name in rows[0]}
    assert columns.keys() == json.loads(answers["object"].body).keys()

    prices = [[row[name] for name in "ohlcv"] for row in rows]
    assert json.loads(answers["binance"].body) == [
        [row["t"], *numbers, row["T"], row["q"], row["n"], *bought, "0"]
        for row, numbers, bought in zip(rows, prices, [("2", "3"), ("0", "0"), ("0", "0"), ("0", "0")], strict=True)
    ]
    ccxt = json.loads(answers["ccxt"].body, parse_float=Decimal)
    assert ccxt == [[row["t"], *map(Decimal, numbers)] for row, numbers in zip(rows, prices, strict=True)]
    udf = json.loads(answers["udf"].body, parse_float=Decimal)
    assert udf["s"] == "ok"
    assert udf["t"] == [row["t"] // 1000 for row in rows]
    assert [udf[name] for name in "ohlcv"] == [[Decimal(row[name]) for row in rows] for name in "ohlcv"]
    header, *lines = answers["csv"].body.decode().splitlines()
    assert header.split(",") == list(rows[0])
    as_text = [["" if value is None else str(value).lower() for value in row.values()] for row in rows]
    assert [line.split(",") for line in lines] == as_text


def test_the_function_alone_tells_a_candle_whole_however_few_are_wanted(conn: Connection, version: Version) -> None:
    """The first daily row crosses the bound and has no tick after it. The last row belongs to the candle."""
    symbol, sunday = new_symbol(), 1_709_424_000 * SECOND  # 2024-03-03
    hours = [10, 14 * 24 + 23.5, *(24 * day + 12 for day in range(15, 21)), 21 * 24 + 10, 60 * 24]
    held = [tick(symbol, str(n), sunday + int(hour * 3600) * SECOND, str(n + 1), "1") for n, hour in enumerate(hours)]
    ticks.ingest(conn, version, held)
    statement = version.query(
        "SELECT n, high, close, volume FROM {candles}(%s, '1w', '2024-03-03 23:00Z', NULL, %s, time_zone => '+01:00')"
        " LIMIT 1"
    )
    found = [conn.execute(statement, (symbol, wanted)).fetchone() for wanted in (1, 2, 500)]
    assert found == [(8, 9, 9, 8)] * 3


def test_a_range_without_candles_gives_an_empty_list(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    ticks.ingest(conn, version, [tick(symbol, "a", START)])
    for format in candles.Format.__args__:
        found = candles.read(conn, version, symbol, "1m", end=START - DAY, format=format)
        assert (found.count, found.more) == (0, False), format
        assert format == "csv" or json.loads(found.body) is not None, format


def vwap_of_the_database(conn: Connection, version: Version, quote: Decimal, volume: Decimal) -> str | None:
    statement = version.query("SELECT {vwap}(%s::numeric, %s::numeric)::text")
    ((found,),) = conn.execute(statement, (str(quote), str(volume))).fetchall()
    return found


def test_vwap_rounds_exact_ties_to_the_even_digit(conn: Connection, version: Version) -> None:
    for digits, rounded in (
        ("0.0000000000000000005", "0"),
        ("0.0000000000000000015", "0.000000000000000002"),
        ("2.0000000000000000025", "2.000000000000000002"),
        ("7.00000000000000000050001", "7.000000000000000001"),
    ):
        for volume in (1, 3):
            said = vwap_of_the_database(conn, version, Decimal(digits) * volume, Decimal(volume))
            assert said == vwap(Decimal(digits), Decimal(1)) == rounded, (digits, volume)
    assert vwap_of_the_database(conn, version, Decimal(0), Decimal(0)) is None


def test_the_state_changes_with_every_write_and_with_the_clock(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    first = tick(symbol, "a", START, block_number=1, block_hash="0xb1")
    counters, zone = [], Zone.fixed(330)
    for items in ([first], [tick(symbol, "late", START - DAY)], [Retract(symbol, "0xb1")], [Finalize(symbol, 9)]):
        ticks.ingest(conn, version, items)
        state = candles.State.of(candles.counters(conn, version, [symbol])[symbol], "1M", zone)
        counters.append(state.counter)
        assert candles.read(conn, version, symbol, "1M", zone=zone).state.counter == state.counter
        assert state.clock * SECOND == bucket_open(state.as_of * 1000, "1M", zone)
        assert state.as_of * 1000 < bucket_end(state.clock * SECOND, "1M", zone)
    assert counters == sorted(set(counters))


def test_an_alias_stands_for_its_symbol_everywhere(conn: Connection, version: Version) -> None:
    symbol, alias = new_symbol(), new_symbol()
    conn.execute("INSERT INTO market_aliases (alias, symbol) VALUES (%s, %s)", (alias, symbol))
    assert ticks.ingest(conn, version, [tick(alias, "a", START), tick(symbol, "a", START)]).outcomes == [
        "created",
        "duplicate",
    ]
    assert candles.read(conn, version, alias, "1m").body.decode().startswith(f'{{"symbol":"{symbol}"')
    assert ticks.read(conn, version, alias).body.count(symbol.encode()) == 2
    ticks.ingest(conn, version, [tick(alias, "b", START, block_number=1, block_hash="x"), Retract(alias, "x")])
    assert candles.read(conn, version, symbol, "1m").body.count(b'"n":1,') == 1


def test_an_unknown_symbol_is_refused_by_name(conn: Connection, version: Version) -> None:
    with pytest.raises(NotFound, match="no:such") as refused:
        candles.read(conn, version, "no:such", "1m")
    assert refused.value.code == "unknown_symbol"
    assert candles.counters(conn, version, ["no:such"]) == {}


def test_the_function_refuses_unknown_arguments(conn: Connection, version: Version) -> None:
    """Clients of SQL call the function, too."""
    for arguments in (
        "'s', '7m'", "'s', NULL", "'s', '1m', NULL, NULL, 0", "'s', '1m', NULL, NULL, 5, 'next'",
        "'s', '1m', time_zone => '+14:01'", "'s', '1d', time_zone => '5'", "'s', '1d', time_zone => NULL",
        "'s', '1m', current => 'perhaps'",
    ):  # fmt: skip
        with pytest.raises(InvalidValue, match=re.escape("candles: ")), translated():
            conn.execute(version.query("SELECT * FROM {candles}(ARGUMENTS)".replace("ARGUMENTS", arguments)))


def test_bounds_outside_of_all_times_select_all_or_nothing(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    ticks.ingest(conn, version, [tick(symbol, "a", START)])
    for bound, interval, zone in itertools.product((-(10**18), -1, 10**18), WIDTHS, (UTC_ZONE, Zone.fixed(330))):
        counts = [
            candles.read(conn, version, symbol, interval, zone=zone, **{side: bound}).count for side in ("start", "end")
        ]
        assert counts == [bound < 0, bound > 0], (bound, interval, zone.name)
