"""Pages and streams of ticks."""

from __future__ import annotations

import csv
import io
import itertools
import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marketdata.errors import InvalidValue, NotFound
from marketdata.store import ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import Tick, parse_tick

from .brute_force import order
from .conftest import RELAXED, START, history, insert, new_symbol, tick


def on(page: ticks.Page) -> list[Tick]:
    return [parse_tick(each) for each in json.loads(page.body)["ticks"]]


def follow(conn: Connection, version: Version, symbol: str, **asked: object) -> list[Tick]:
    """The ticks of all pages, in the direction in which the pages continue."""
    page = ticks.read(conn, version, symbol, **asked)
    found = on(page)
    while page.next_cursor is not None:
        page = ticks.read(conn, version, symbol, cursor=page.next_cursor, **asked)
        assert page.body.decode().endswith(f'"next_cursor":{json.dumps(page.next_cursor)}}}')
        found += on(page)
    return found


@settings(**RELAXED)
@given(data=st.data())
def test_pages_hold_every_tick_once_in_order(conn: Connection, version: Version, data: st.DataObject) -> None:
    symbol = new_symbol()
    held = data.draw(history(symbol))
    ticks.ingest(conn, version, held)
    bounds = st.none() | st.sampled_from([each.ts for each in held]) | st.integers(START, START + 10**12)
    start, end = data.draw(bounds), data.draw(bounds)
    limit = data.draw(st.sampled_from([1, 2, 7, 100]))
    expected = [
        (each.ts, each.seq, each.id)
        for each in sorted(held, key=order)
        if (start is None or each.ts >= start) and (end is None or each.ts <= end)
    ]
    sort = "asc" if start is not None else "desc"  # the direction of the pages
    paged = follow(conn, version, symbol, start=start, end=end, limit=limit, sort=sort)
    assert [(each.ts, each.seq, each.id) for each in paged] == (expected if start is not None else expected[::-1])
    other = "desc" if sort == "asc" else "asc"
    first, turned = (
        on(ticks.read(conn, version, symbol, start=start, end=end, limit=limit, sort=way)) for way in (sort, other)
    )
    assert first == turned[::-1], "sort only reverses a page"


def test_a_tick_is_read_back_as_it_was_sent(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    sent = [
        tick(symbol, 'q"uo,te\\', START + 123_456, "0.5", "10", side="sell", block_number=7, block_hash="0xb", tx="é"),
        tick(symbol, "z", START + 123_457, "12345678901234567890.5", "0", seq=-3),
    ]
    ticks.ingest(conn, version, sent)
    assert on(ticks.read(conn, version, symbol)) == sent
    lines = ticks.read(conn, version, symbol, format="ndjson").body.decode().splitlines()
    assert [parse_tick(json.loads(line)) for line in lines] == sent
    rows = list(csv.DictReader(io.StringIO(ticks.read(conn, version, symbol, format="csv").body.decode())))
    assert [row["id"] for row in rows] == ['q"uo,te\\', "z"]
    assert rows[0] | {"id": ""} == {
        "symbol": symbol, "id": "", "ts": "2024-01-31T00:00:00.123456Z", "seq": "0", "price": "0.5", "size": "10",
        "side": "sell", "block_number": "7", "block_hash": "0xb", "tx": "é",
    }  # fmt: skip


def test_trailing_zeros_that_another_client_stored_are_not_shown(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    insert(conn, version, [tick(symbol, "a", START, "1.500", "20.0")])
    assert b'"price":"1.5","size":"20"' in ticks.read(conn, version, symbol).body


def test_a_stream_holds_them_all(conn: Connection, version: Version) -> None:
    for count, sort in itertools.product((0, 1, 5, 6, 11), ("asc", "desc")):
        symbol = new_symbol()
        sent = [tick(symbol, f"{n:02}", START + n // 2) for n in range(count)]
        ticks.ingest(conn, version, [*sent, tick(symbol, "before", START - 1)])
        expected = sent if sort == "asc" else sent[::-1]
        stream = partial(ticks.stream, conn, version, symbol, start=START, sort=sort, limit=5)
        lines = b"".join(stream()).splitlines()
        assert [parse_tick(json.loads(line)) for line in lines] == expected, (count, sort)
        rows = csv.DictReader(io.StringIO(b"".join(stream(format="csv")).decode()))
        assert [row["id"] for row in rows] == [each.id for each in expected], (count, sort)


def test_an_invalid_cursor_is_refused(conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    ticks.ingest(conn, version, [tick(symbol, "a", START)])
    for cursor in ("", "x", "====", "e30", "W10", "WzEsMiwzLDRd", "W3RydWUsMSwyLCIiXQ", "é", "W3RydWUsMSwxZTk5LCJhIl0"):
        with pytest.raises(InvalidValue) as refused:
            ticks.read(conn, version, symbol, cursor=cursor)
        assert refused.value.errors[0].pointer == "/cursor", cursor


def test_an_unknown_symbol_is_refused_before_the_first_row(conn: Connection, version: Version) -> None:
    for ask in (ticks.read, ticks.stream):
        with pytest.raises(NotFound, match="no:such"):
            ask(conn, version, "no:such")
