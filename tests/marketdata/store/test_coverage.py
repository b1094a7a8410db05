"""Coverage: its ranges never overlap, also under writers at once, and those of a chain extend those of its symbols."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.interval import DAY
from marketdata.store import coverage
from marketdata.store.coverage import Range
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version

from .conftest import new_symbol


def of_days(start: int, end: int, state: str) -> Range:
    return Range(start * DAY, end * DAY, state)


def noted(conn: Connection, version: Version, symbol: str) -> list[tuple[int, int, str]]:
    """The stored ranges in days."""
    rows = conn.execute(
        version.query(
            """SELECT extract(epoch FROM "from")::bigint / 86400, extract(epoch FROM "to")::bigint / 86400, state
               FROM {coverage} WHERE symbol = %s ORDER BY 1"""
        ),
        (symbol,),
    )
    return rows.fetchall()


def test_the_second_writer_waits_for_the_first_one(conn: Connection, database: str, version: Version) -> None:
    symbol, alias = new_symbol(), new_symbol()
    conn.execute("INSERT INTO market_aliases (alias, symbol) VALUES (%s, %s)", (alias, symbol))
    coverage.record(conn, version, [symbol], of_days(0, 10, "indexed"))
    with connect(database) as first, connect(database) as second, ThreadPoolExecutor(1) as pool:
        with first.transaction():
            coverage.record(first, version, [symbol], of_days(4, 6, "failed"))
            later = pool.submit(coverage.record, second, version, [alias], of_days(5, 8, "failed"))
            while not conn.execute(
                "SELECT FROM pg_locks WHERE pid = %s AND NOT granted", (second.info.backend_pid,)
            ).rowcount:
                assert not later.done()
        later.result(30)
    assert noted(conn, version, symbol) == [(0, 4, "indexed"), (4, 8, "failed"), (8, 10, "indexed")]


ranges_of_days = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 8), st.sampled_from(["indexed", "joined", "failed"]))
)


def stored(drawn: list[tuple[int, int, str]]) -> list[Range]:
    """The ranges that are stored after these were recorded in their order."""
    found: list[Range] = []
    for start, length, state in drawn:
        found = coverage.overlay(found, Range(start, start + length, state))
    return found


@given(ranges_of_days, ranges_of_days)
def test_a_joined_range_is_extended_to_the_end_of_the_range_of_its_chain(
    own_drawn: list[tuple[int, int, str]], chain_drawn: list[tuple[int, int, str]]
) -> None:
    """Day by day: a day is indexed if the symbol's own range has it, or if it and all days back to the end of a joined
    range are in the chain's ranges."""
    own, chain = stored(own_drawn), [each for each in stored(chain_drawn) if each.state == "indexed"]
    read = {day for each in chain for day in range(each.start, each.end)}
    shown_states = {"indexed": "indexed", "joined": "indexed", "failed": "failed"}
    expected = {day: shown_states[each.state] for each in own for day in range(each.start, each.end)}
    for each in own:
        day = each.end
        # A range that ends where the chain's begins, or ends, touches it; one that ends in a gap does not.
        while each.state == "joined" and day in read:
            expected.setdefault(day, "indexed")
            day += 1
    found = coverage.extended(own, chain)
    assert {day: each.state for each in found for day in range(each.start, each.end)} == expected
    assert found == coverage.merged(sorted(found)), "in order and merged"
    assert all(earlier.end <= later.start for earlier, later in pairwise(found))


def shown(conn: Connection, version: Version, symbol: str) -> list[tuple[int, int]]:
    """The days that are not shown as unread."""
    found = coverage.merged(each._replace(state="") for each in coverage.ranges(conn, version, symbol)[1])
    return [(each.start // DAY, each.end // DAY) for each in found]


def test_a_symbol_joins_the_coverage_of_its_chain_where_its_own_ends(conn: Connection, version: Version) -> None:
    chain = f"c{new_symbol()[5:17]}"
    first, second, other = f"{chain}:A", f"{chain}:B", f"{chain}x:A"
    coverage.record(conn, version, [first, second, other], of_days(0, 2, "joined"))
    for day in range(2, 6):
        coverage.record_chain(conn, version, chain, of_days(day, day + 1, "indexed"))
    assert noted(conn, version, f"{chain}:*") == [(2, 6, "indexed")], "adjacent ranges of a chain are one row"
    assert shown(conn, version, first) == shown(conn, version, second) == [(0, 6)]
    assert shown(conn, version, other) == [(0, 2)]
    # The source starts again without B, and with C. It still reads the past of D.
    third, late = f"{chain}:C", f"{chain}:D"
    coverage.record(conn, version, [second], of_days(0, 6, "indexed"))
    coverage.record(conn, version, [third], of_days(6, 8, "joined"))
    coverage.record(conn, version, [late], of_days(1, 3, "indexed"))
    coverage.record_chain(conn, version, chain, of_days(6, 9, "indexed"))
    found = [shown(conn, version, each) for each in (first, second, third, late)]
    assert found == [[(0, 9)], [(0, 6)], [(6, 9)], [(1, 3)]]


def test_a_failed_range_of_a_chain_is_unread_until_it_is_read_again(conn: Connection, version: Version) -> None:
    chain = f"c{new_symbol()[5:17]}"
    old, young, own = f"{chain}:old", f"{chain}:young", f"{chain}:own"
    outside = [f"{chain}", f"{chain};A", f"{chain}9:A"]
    coverage.record(conn, version, [old, *outside[::2]], of_days(0, 2, "joined"))
    coverage.record_chain(conn, version, chain, of_days(2, 9, "indexed"))
    coverage.record(conn, version, [young], of_days(4, 8, "joined"))
    coverage.record(conn, version, [own], of_days(3, 12, "indexed"))
    coverage.record(conn, version, [own], of_days(5, 6, "failed"))
    coverage.record_chain(conn, version, chain, of_days(5, 9, "failed"))
    assert noted(conn, version, f"{chain}:*") == [(2, 5, "indexed")]
    assert noted(conn, version, own) == [(3, 5, "indexed"), (9, 12, "indexed")]
    assert [shown(conn, version, each) for each in (old, young)] == [[(0, 5)], [(4, 5)]]
    assert noted(conn, version, outside[2]) == [(0, 2, "joined")]
    coverage.record_chain(conn, version, chain, of_days(5, 10, "indexed"))
    assert [shown(conn, version, each) for each in (old, young)] == [[(0, 10)], [(4, 10)]]


def test_lags_are_those_of_extended_ranges(conn: Connection, version: Version) -> None:
    now = time.time_ns() // 1000
    chain = f"c{new_symbol()[5:17]}"
    coverage.record(conn, version, [f"{chain}:A", f"{chain}x:A"], Range(now - 9 * DAY, now - 8 * DAY, "joined"))
    coverage.record(conn, version, [f"{chain}:B"], Range(now - 9 * DAY, now - 8 * DAY, "failed"))
    coverage.record_chain(conn, version, chain, Range(now - 8 * DAY, now - DAY, "indexed"))
    found = coverage.lags(conn, version)
    assert found.symbols[f"{chain}:A"] == pytest.approx(86_400, abs=60) == found.chains[chain]
    assert found.symbols[f"{chain}x:A"] == pytest.approx(8 * 86_400, abs=60)
    assert f"{chain}:B" not in found.symbols
    assert f"{chain}:*" not in found.symbols
    many = coverage.lags(conn, version, most=1)
    assert many.symbols == {}
    assert many.chains[chain] == pytest.approx(86_400, abs=60)
