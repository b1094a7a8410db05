"""Trades and their numbers, compared with a list of all ticks in Python."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from marketdata.interval import DAY, SECOND
from marketdata.store import summary, ticks, trades
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import Tick

from .conftest import START, new_symbol, tick

SPANS = (1, SECOND, 90 * SECOND, 5000 * SECOND, DAY, 40 * DAY)


def history(symbol: str, chance: random.Random, count: int, *, by_seq: bool) -> list[Tick]:
    """Ticks in their order, of which some share an instant."""
    moments, at = [], START
    for _ in range(count):
        at += chance.choice((0, 0, *SPANS)) * chance.randrange(3)
        moments.append(at)
    seqs = [25_000_000 + n * 3 for n in range(count)] if by_seq else [-chance.randrange(3) for _ in range(count)]
    made = [
        tick(symbol, f"{n}", ts, seq=seq, block_number=1, block_hash=f"0x{n % 5}")
        for n, (ts, seq) in enumerate(zip(moments, seqs, strict=True))
    ]
    return sorted(made, key=lambda each: (each.ts, each.seq, each.id))


def numbered(sent: list[Tick], *, by_seq: bool) -> list[tuple[int, int]]:
    """Number and time of each tick."""
    return [(each.seq if by_seq else place, each.ts) for place, each in enumerate(sent)]


@pytest.mark.parametrize("by_seq", [True, False])
def test_pages_are_parts_of_all_ticks(conn: Connection, version: Version, rng: random.Random, by_seq: bool) -> None:
    """Ticks come late and in any order, and blocks are retracted."""
    for count in (1, 4, 4, 60, 60):
        symbol = new_symbol()
        sent = history(symbol, rng, count, by_seq=by_seq)
        mixed = rng.sample(sent, count)
        for part in range(3):
            ticks.ingest(conn, version, mixed[part::3])
        for is_retracted in (False, True):
            if is_retracted:
                conn.execute(version.query("SELECT {retract}(%s, '0x1')"), (symbol,))
                sent = [each for each in sent if each.block_hash != "0x1"]
            check_pages(conn, version, symbol, rng, numbered(sent, by_seq=by_seq))


def check_pages(
    conn: Connection, version: Version, symbol: str, chance: random.Random, expected: list[tuple[int, int]]
) -> None:
    limit = chance.randrange(1, 9)

    def read(**bounds: Any) -> list[tuple[int, int]]:
        body = trades.read(conn, version, symbol, limit=limit, format="aggregate", **bounds).body
        return [(each["a"], each["T"]) for each in json.loads(body)]

    def shown(part: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return [(number, ts // 1000) for number, ts in part]

    assert read() == shown(expected[-limit:])
    for place, (number, ts) in enumerate(expected):
        assert read(number=number) == shown(expected[place : place + limit])
        assert read(start=ts) == shown([each for each in expected if each[1] >= ts][:limit])
        assert read(end=ts) == shown([each for each in expected if each[1] < ts][-limit:])
        later = chance.choice(expected)[1]
        between = [each for each in expected if ts <= each[1] < later]
        assert read(start=ts, end=later) == shown(between[:limit])
        following = [each for each in expected if each[0] >= number - 1]
        assert read(number=max(number - 1, 0)) == shown(following[:limit])


@pytest.mark.parametrize("by_seq", [True, False])
def test_an_item_of_the_summary_has_the_numbers_of_its_trades(conn: Connection, version: Version, by_seq: bool) -> None:
    ((now,),) = conn.execute("SELECT (extract(epoch FROM now()) * 1000000)::bigint").fetchall()
    symbol = new_symbol()
    moments = [now - hours * 3600 * SECOND for hours in (60, 49, 25, 20, 10, 1, -2)]
    ticks.ingest(
        conn, version,
        [tick(symbol, f"{n}", ts, seq=by_seq * (n + 5), size=f"{n}.50") for n, ts in enumerate(moments)],
    )  # fmt: skip
    (item,) = summary.named(conn, version, [symbol], addition="trades").items.values()
    found = json.loads(item)
    first, last = (8, 10) if by_seq else (3, 5)
    assert (found["first_id"], found["last_id"], found["last_size"]) == (first, last, "5.5")
