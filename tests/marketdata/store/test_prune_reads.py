"""Answers about a symbol with pruned ticks. Those that need no tick below the line stay as they were, byte for byte.
The others say that ticks were pruned."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marketdata.errors import MarketError, Pruned
from marketdata.interval import DAY, MINUTE, SECOND, WIDTHS, Zone, bucket_open
from marketdata.store import candles, summary, ticks, trades
from marketdata.store.pool import Connection, Pool
from marketdata.store.time_zones import TimeZones
from marketdata.store.version import Version
from marketdata.tick import Tick

from . import test_summary, test_trades
from .conftest import RELAXED, START, history, new_symbol, tick
from .test_candles import ZONES, edges
from .test_prune import pruned
from .test_summary import END

NAMES = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia")


@pytest.fixture(scope="module")
def some_zones(database: str) -> Iterator[list[Zone]]:
    pool = Pool(database, application_name="test", size=1)
    yield [*ZONES, *map(TimeZones(pool).find, NAMES)]
    pool.close()


def answer(conn: Connection, version: Version, symbol: str, asked: dict[str, Any]) -> str:
    """The answer without its time, or the code of the error."""
    try:
        body = candles.read(conn, version, symbol, **asked).body.decode()
    except MarketError as error:
        return error.code
    return body.partition(',"as_of"')[0]


@settings(**RELAXED)
@given(data=st.data())
def test_candles_stay_the_same(conn: Connection, version: Version, some_zones: list[Zone], data: st.DataObject) -> None:
    """This holds for every interval but 1s, with any bounds, fill, zone and format."""
    symbol = new_symbol()
    ticks.ingest(conn, version, data.draw(history(symbol)))
    asked = [
        {
            "interval": interval, "start": data.draw(st.none() | edges), "end": data.draw(st.none() | edges),
            "limit": data.draw(st.sampled_from([1, 3, 500])), "sort": data.draw(st.sampled_from(["asc", "desc"])),
            "fill": data.draw(st.sampled_from(["none", "previous"])), "zone": data.draw(st.sampled_from(some_zones)),
            "format": data.draw(st.sampled_from(["object", "columns", "binance", "csv", "udf"])),
        }
        for interval in WIDTHS
        if interval != "1s"
        for _ in range(2)
    ]  # fmt: skip
    before = [answer(conn, version, symbol, each) for each in asked]
    pruned(conn, version, symbol, START + data.draw(st.integers(-1, 100)) * DAY)
    assert [answer(conn, version, symbol, each) for each in asked] == before


def seconds(conn: Connection, version: Version, symbol: str, **asked: Any) -> tuple[list[int], bool] | str:
    """The opening times of candles of a second, and ``more``; or the code of the error."""
    try:
        found = candles.read(conn, version, symbol, "1s", **asked)
    except Pruned as error:
        return error.code
    return json.loads(found.body.partition(b',"candles":')[2].partition(b',"more"')[0]), found.more


@settings(**RELAXED)
@given(data=st.data())
def test_seconds_end_at_the_line(conn: Connection, version: Version, data: st.DataObject) -> None:
    """Candles from the line on are the same as before; without a start, ``more`` says that there are older ones."""
    symbol = new_symbol()
    held = data.draw(history(symbol))
    ticks.ingest(conn, version, held)
    line = START + data.draw(st.integers(-1, 100)) * DAY
    times = st.one_of(edges, st.sampled_from([line - 1, line, line + SECOND, *(each.ts for each in held)]))
    asked: list[dict[str, Any]] = [
        {"start": data.draw(st.none() | times), "end": data.draw(st.none() | times), "limit": limit, "sort": sort}
        for limit in (1, 3, 500)
        for sort in ("asc", "desc")
    ]
    before = [seconds(conn, version, symbol, **each) for each in asked]
    is_cut = any(each.ts < line for each in held)
    pruned(conn, version, symbol, line)
    for each, (rows, more) in zip(asked, before, strict=True):  # type: ignore[misc]
        found = seconds(conn, version, symbol, **each)
        start, end = each["start"], each["end"]
        is_below = (start is not None and start + SECOND - 1 < line) or (
            end is not None and bucket_open(end, "1s") < line
        )
        kept = [row for row in rows if row["t"] * 1000 >= line]
        if not is_cut:
            assert found == (rows, more)
        elif is_below or (start is None and not kept):
            assert found == "pruned"
        else:
            assert found == (kept, more or start is None)


def read_all(conn: Connection, version: Version, symbol: str, **asked: Any) -> tuple[list[str], bool]:
    """The ids of all pages, and whether the page after the last one is refused as pruned."""
    found: list[str] = []
    cursor = None
    while True:
        try:
            page = ticks.read(conn, version, symbol, cursor=cursor, **asked)
        except Pruned:
            return found, True
        found += [each["id"] for each in json.loads(page.body)["ticks"]]
        cursor = page.next_cursor
        if cursor is None:
            return found, False


@settings(**RELAXED)
@given(data=st.data())
def test_pages_of_ticks_end_at_the_line(conn: Connection, version: Version, data: st.DataObject) -> None:
    """When paging backwards, the last page above the line says that there are more ticks, and the next page is refused
    as pruned."""
    symbol = new_symbol()
    held = sorted(data.draw(history(symbol)), key=lambda each: (each.ts, each.seq, each.id.encode()))
    ticks.ingest(conn, version, held)
    line = START + data.draw(st.integers(-1, 100)) * DAY
    pruned(conn, version, symbol, line)
    is_cut = held[0].ts < line
    for start, end in data.draw(st.lists(st.tuples(st.none() | edges, st.none() | edges), min_size=4, max_size=4)):
        wanted = [
            each.id
            for each in (held if start is not None else held[::-1])
            if each.ts >= line and (start or 0) <= each.ts <= (end if end is not None else each.ts)
        ]
        sort = "asc" if start is not None else "desc"
        found = read_all(conn, version, symbol, start=start, end=end, limit=data.draw(st.integers(1, 9)), sort=sort)
        is_refused = is_cut and ((start or line) < line or (end or line) < line)
        assert found == ([] if is_refused else wanted, is_cut and (is_refused or start is None))


def test_a_cursor_below_the_line_and_a_stream_are_refused(conn: Connection, version: Version) -> None:
    symbol, line = new_symbol(), START + DAY
    ticks.ingest(conn, version, [tick(symbol, f"{n}", START + n * DAY // 4) for n in range(9)])
    forward = ticks.read(conn, version, symbol, start=START, limit=2).next_cursor
    backward = ticks.read(conn, version, symbol, limit=6).next_cursor
    assert len(b"".join(ticks.stream(conn, version, symbol)).splitlines()) == 9
    pruned(conn, version, symbol, line)
    for cursor, start in ((forward, START), (backward, None)):
        with pytest.raises(
            Pruned, match=f"ticks of {symbol} before 2024-02-01T00:00:00Z are pruned: ask for times from"
        ):
            ticks.read(conn, version, symbol, cursor=cursor, start=start)
    for bounds in ({}, {"sort": "desc"}, {"start": START}, {"end": line - 1}):
        with pytest.raises(Pruned):
            ticks.stream(conn, version, symbol, **bounds)  # type: ignore[arg-type]
    assert len(b"".join(ticks.stream(conn, version, symbol, start=line)).splitlines()) == 5


@pytest.mark.parametrize("by_seq", [True, False])
def test_trades_end_at_the_line(conn: Connection, version: Version, rng: random.Random, by_seq: bool) -> None:
    """The numbers of the remaining trades stay the same."""
    for _ in range(3):
        symbol = new_symbol()
        sent = test_trades.history(symbol, rng, 60, by_seq=by_seq)
        ticks.ingest(conn, version, sent)
        line = rng.choice(sent[1:]).ts // DAY * DAY
        pruned(conn, version, symbol, line)
        _check_trades(conn, version, symbol, test_trades.numbered(sent, by_seq=by_seq), line)


def _check_trades(conn: Connection, version: Version, symbol: str, sent: list[tuple[int, int]], line: int) -> None:
    def read(**bounds: Any) -> list[tuple[int, int]] | str:
        try:
            body = trades.read(conn, version, symbol, limit=7, format="aggregate", **bounds).body
        except Pruned as error:
            return error.code
        return [(each["a"], each["T"]) for each in json.loads(body)]

    is_cut = sent[0][1] < line
    kept = [each for each in sent if each[1] >= line]

    def shown(part: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return [(number, ts // 1000) for number, ts in part]

    assert read() == (shown(kept[-7:]) or "pruned")
    for number, ts in sent:
        refused = is_cut and ts < line
        assert read(number=number) == ("pruned" if refused else shown([each for each in kept if each[0] >= number][:7]))
        assert read(start=ts) == ("pruned" if refused else shown([each for each in kept if each[1] >= ts][:7]))
        before = [each for each in kept if each[1] < ts][-7:]
        assert read(end=ts) == ("pruned" if is_cut and not before else shown(before))
    assert read(number=sent[-1][0] + 1) == []


def test_items_of_the_summary_begin_with_a_full_minute(
    conn: Connection, version: Version, clock: Callable[[int], None], rng: random.Random
) -> None:
    """This is so if the first ticks of the 24 hours are pruned. Otherwise the items are the same as before."""
    for count in (3, 3, 30, 30, 400):
        symbol = new_symbol()
        sent = test_summary.history(symbol, rng, count)
        ticks.ingest(conn, version, sent)
        for line in range(END // DAY * DAY - 3 * DAY, END, DAY):
            pruned(conn, version, symbol, line)
            for at in (each for each in test_summary.moments(rng) if each >= line):
                clock(at)
                (item,) = test_summary.items(summary.named(conn, version, [symbol], addition="closes"))
                assert item == _expected(symbol, sent, at, line), (count, at)


def _expected(symbol: str, sent: list[Tick], at: int, line: int) -> dict[str, Any]:
    """The item of all ticks; those before the first full minute are moved before the 24 hours."""
    since = at - DAY
    minute = since + -since % MINUTE
    if line > since:
        order = sorted((each for each in sent if each.ts <= at), key=lambda each: (each.ts, each.seq, each.id))
        moved = [each for each in order if since <= each.ts < minute]
        sent = [each for each in sent if each not in moved]
        sent += [each._replace(ts=since - 1, seq=10 + place) for place, each in enumerate(moved)]
        found = test_summary.expected(symbol, sent, at, has_closes=True)
        if moved and moved[-1] is order[-1]:
            found["ts"] = moved[-1].ts // 1000
        return found
    return test_summary.expected(symbol, sent, at, has_closes=True)


@pytest.mark.parametrize("by_seq", [True, False])
def test_the_summary_numbers_trades_whose_ticks_are_pruned(
    conn: Connection, version: Version, clock: Callable[[int], None], by_seq: bool
) -> None:
    symbol, line = new_symbol(), END // DAY * DAY
    moments = [END - DAY - 5 * MINUTE, END - DAY + 1, END - DAY + 2 * MINUTE, line - SECOND, line + SECOND]
    ticks.ingest(
        conn, version, [tick(symbol, f"{n}", ts, seq=by_seq * (n + 5), size=f"{n}.5") for n, ts in enumerate(moments)]
    )
    pruned(conn, version, symbol, line)
    clock(END)
    (item,) = test_summary.items(summary.named(conn, version, [symbol], addition="trades"))
    assert (item["first_id"], item["last_id"], item["last_size"]) == ((7, 9, "4.5") if by_seq else (2, 4, "4.5"))
    pruned(conn, version, symbol, line + DAY)
    (item,) = test_summary.items(summary.named(conn, version, [symbol], addition="trades"))
    assert (item["first_id"], item["last_id"], item["last_size"]) == ((7, 9, None) if by_seq else (2, 4, None))
