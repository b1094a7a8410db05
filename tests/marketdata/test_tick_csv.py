"""Ticks as lines of CSV: which lines are accepted, and the messages about invalid ones."""

from __future__ import annotations

import csv
import gzip
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.errors import InvalidValue
from marketdata.tick import NAME, SIDES, SYMBOL, Tick, parse_tick
from marketdata.tick_csv import COLUMNS, MAX_LINE_BYTES, TickTable, tick_of

HEADER = ",".join(COLUMNS).encode() + b"\n"
LEAST = Tick("eth:A/B", "0xb:1", 1_700_000_000_000_000, 0, "1.5", "2", None, None, None, None)

NO_CSV = "the line is not CSV: a quote is not closed, or is in a field that does not begin with one"


def test_the_least_that_is_a_tick() -> None:
    assert TickTable(b"symbol,id,ts,price,size\n").tick(b"eth:A/B,0xb:1,1700000000000,1.5,2\n") == LEAST
    assert TickTable(HEADER).tick(b"eth:A/B,0xb:1,2023-11-14T22:13:20Z,,1.50,2,,,,\r\n") == LEAST


def test_the_columns_may_have_any_order() -> None:
    table = TickTable(b'\xef\xbb\xbfsize,"price",tx,block_hash,block_number,side,seq,ts,id,symbol')
    line = b'2,1.5,"0x,""t",0xb,0,sell,-1,2023-11-14T22:13:20.000001Z,"a,b",A'
    assert table.tick(line) == Tick("A", "a,b", 1_700_000_000_000_001, -1, "1.5", "2", "sell", 0, "0xb", '0x,"t')


AMOUNTS = st.from_regex(r"(0|[1-9][0-9]{0,29})(\.[0-9]{0,29}[1-9])?", fullmatch=True).filter(str.isascii)
NAMES = st.from_regex(NAME, fullmatch=True)
TICKS = st.builds(
    Tick,
    symbol=st.from_regex(SYMBOL, fullmatch=True),
    id=NAMES,
    ts=st.integers(200_000_000_000_000, 32_503_679_999_999_999),
    seq=st.integers(-(1 << 63), (1 << 63) - 1),
    price=AMOUNTS.filter(lambda text: text != "0"),
    size=AMOUNTS,
    side=st.sampled_from([None, *SIDES]),
    block_number=st.integers(0, (1 << 63) - 1),
    block_hash=NAMES,
    tx=st.one_of(st.none(), NAMES),
)


@given(TICKS, st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_another_program_writes_is_read(tick: Tick, quoting: Any) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=quoting).writerow(tick._replace(ts=f"{tick.ts // 1000}.{tick.ts % 1000:03}"))  # type: ignore[arg-type]
    line = text.getvalue().encode()
    assert len(line) <= MAX_LINE_BYTES
    assert TickTable(HEADER).tick(line) == tick


def test_the_longest_line_of_a_tick_is_not_too_long() -> None:
    line = ",".join(f'"{each}"' for each in ("A" * 64, '""' * 128, "1" * 40, "1" * 20, *["1" * 61] * 2, "sell"))
    assert len(line) + len(f',"{"1" * 20}","{"💥" * 128}","{"💥" * 128}"'.encode()) < MAX_LINE_BYTES


def test_a_header_that_does_not_name_the_columns_is_refused() -> None:
    for header, fault in (
        (b"symbol,id,ts,price", "size is missing"),
        (b"symbol,id,ts,price,size,size", "size is there twice"),
        (b"symbol,id,ts,price,size,fee", "'fee' is unknown"),
        (b"side", "symbol is missing; id is missing; ts is missing; price is missing; size is missing"),
        (b"symbol;id", "size is missing; columns are separated by commas"),
        (b"", "the first line is empty: it must name the columns"),
        (b"\n", "the first line is empty: it must name the columns"),
        (b"PAR1\xff", "the first line: the line is not UTF-8"),
        (gzip.compress(b"symbol", mtime=0), "or by a name that ends in .gz"),
        ("\ufeffsymbol".encode("utf-16-le"), "this is UTF-16: save it as UTF-8"),
        (b"symbol," * 10_000, "the file must have its line ends (curl keeps them with --data-binary)"),
    ):
        with pytest.raises(InvalidValue) as caught:
            TickTable(header)
        assert caught.value.detail.endswith(fault)


def test_a_line_that_is_no_tick_is_refused_with_its_columns() -> None:
    for line, fault in (
        ("A,1,1700000000000,0,1,2,,,", "has 9 fields, but the first line names 10 columns"),
        ('A,"1,1700000000000,0,1,2,,,,', NO_CSV),
        ('A,"1"x,1700000000000,0,1,2,,,,', NO_CSV),
        ('A,1",1700000000000,0,1,2,,,,', NO_CSV),
        ('A,1"",1700000000000,0,1,2,,,,', NO_CSV),
        ("A,1,1700000000000,0,1,2,,,,\ud800", "the line is not UTF-8"),
        (",,,,,,,,,", "symbol is missing; id is missing; ts is missing; price is missing; size is missing"),
        ("A,1,1700000000000,0,1e3,-1,,,,", "size must be a decimal number"),
        ("A,1,1700000000000,1.5,1,2,,,,", "seq must be an integer of at most 64 bits"),
        ("A,1,1700000000000,0,1,2,BUY,,,", "side must be buy, sell or null"),
        ("A,1,1700000000000,0,1,2,,7,,", "block_hash must be a string of 1 to 128 characters without white space"),
        ("A,1,1700000000000,0,1,2,,,0xb,", "block_number must be an integer from 0 to 9223372036854775807"),
        ("A,a b,1700000000000,0,1,2,,,,", "id must be a string of 1 to 128 characters without white space"),
    ):
        with pytest.raises(InvalidValue) as caught:
            TickTable(HEADER).tick(line.encode(errors="surrogatepass"))
        assert fault in caught.value.detail


def test_a_row_is_the_tick_of_the_same_json() -> None:
    row = {"symbol": "A", "id": "1", "ts": "2026-01-31T12:00:00Z", "price": "1", "size": "1", "block_number": "7"}
    block = {"number": 7, "hash": "0xb"}
    item = {name: row[name] for name in ("symbol", "id", "ts", "price", "size")}
    assert tick_of(row | {"block_hash": "0xb"}) == parse_tick(item | {"block": block})
