"""Coverage: the time ranges [from, to) of a symbol or of a chain that were read from a source.

The stored ranges of a symbol never overlap, and neither do those of a chain. A source that reads all symbols of a chain
together records a range of each symbol as ``joined`` when it begins to do so. From then on it records only the range of
the chain: one row for all symbols. The range of a chain extends the joined ranges of its symbols that end within it. A
source that no longer reads a symbol records the symbol's range as indexed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import LiteralString, NamedTuple

from marketdata.interval import SECOND
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import chain_of


class Range(NamedTuple):
    """``start`` and ``end`` are microseconds since 1970. ``state`` is indexed, joined, failed or no_trades. A range
    with no_trades is computed and never stored, and a joined range is shown as indexed. A new range with the state
    unread removes these times from the stored ranges."""

    start: int
    end: int
    state: str


INDEXED, JOINED, FAILED, UNREAD = "indexed", "joined", "failed", "unread"
MAX_LAGS = 1000
"""When more symbols than this have coverage, only the lags of chains are computed."""

# A time without a zone, because this conversion is immutable. Citus allows no other function in RETURNING.
_MICROSECONDS = "(extract(epoch FROM {} AT TIME ZONE 'UTC') * 1000000)::bigint"
_ROW = f"""c.symbol, {_MICROSECONDS.format('c."from"')}, {_MICROSECONDS.format('c."to"')}, c.state"""


def chain_key(chain: str) -> str:
    """The value of the column ``symbol`` in the ranges of a chain. No symbol contains an asterisk."""
    return f"{chain}:*"


def record(conn: Connection, version: Version, symbols: Collection[str], new: Range) -> None:
    """Store ``new`` for each of these symbols or aliases. It replaces the parts of their stored ranges that it
    overlaps. Adjacent ranges with equal state are merged."""
    with conn.transaction():
        _lock(conn, version)
        names = conn.execute(version.query(_NAMES), (list(symbols),)).fetchall()
        _record(conn, version, [name for (name,) in names], new)


def record_chain(conn: Connection, version: Version, chain: str, new: Range) -> None:
    """Store ``new`` for all symbols of a chain. If its state is failed, these times are removed from the ranges of the
    chain and of its symbols."""
    with conn.transaction():
        _lock(conn, version)
        if new.state == FAILED:
            values = {"chain": chain, "start": new.start, "end": new.end}
            names = [name for (name,) in conn.execute(version.query(_OF_CHAIN), values)]
            _record(conn, version, names, new._replace(state=UNREAD))
        else:
            _record(conn, version, [chain_key(chain)], new)


def _lock(conn: Connection, version: Version) -> None:
    """Make other writers wait. Otherwise two writers that change the same range at once would both read it unchanged,
    and would store ranges that overlap."""
    conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('coverage ' || %s, 0))", (version.ticks_table,))


def _record(conn: Connection, version: Version, names: list[str], new: Range) -> None:
    values = {"names": names, "start": new.start, "end": new.end}
    touched = _by_symbol(conn.execute(version.query(_TOUCHED), values))
    rows = [(name, each) for name in names for each in overlay(touched[name], new) if each.state != UNREAD]
    conn.execute(version.query(_INSERT), ([name for name, _ in rows], *_columns(each for _, each in rows)))


def _columns(found: Iterable[Range]) -> tuple[list[int], list[int], list[str]]:
    rows = list(found)
    return [each.start for each in rows], [each.end for each in rows], [each.state for each in rows]


def _by_symbol(rows: Iterable[tuple[str, int, int, str]]) -> dict[str, list[Range]]:
    found: defaultdict[str, list[Range]] = defaultdict(list)
    for symbol, start, end, state in rows:
        found[symbol].append(Range(start, end, state))
    return found


def overlay(old: Iterable[Range], new: Range) -> list[Range]:
    """The ranges of ``old``, with ``new`` in place of the parts that it overlaps. The result is in order, and adjacent
    ranges with equal state are merged."""
    kept = [new]
    for each in old:
        if each.start < new.start:
            kept.append(Range(each.start, min(each.end, new.start), each.state))
        if each.end > new.end:
            kept.append(Range(max(each.start, new.end), each.end, each.state))
    return merged(sorted(kept))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Merge adjacent ranges with equal state. The ranges must be in order."""
    found: list[Range] = []
    for each in ranges:
        if found and found[-1].state == each.state and found[-1].end == each.start:
            found[-1] = Range(found[-1].start, each.end, each.state)
        else:
            found.append(each)
    return found


def extended(own: Iterable[Range], chain: Collection[Range]) -> list[Range]:
    """The ranges of a symbol, in order. A joined range that ends within a range of its chain, or at its beginning or
    end, is extended to the end of that range, and is indexed. A failed range of the symbol stays failed. The ranges of
    the chain are merged."""
    found: list[Range] = []
    failed: list[Range] = []
    for each in sorted(own):
        if each.state == FAILED:
            failed.append(each)
            continue
        ends = [of.end for of in chain if of.start <= each.end <= of.end] if each.state == JOINED else []
        start, end = each.start, max([each.end, *ends])
        if found and found[-1].end >= start:
            start, end = found[-1].start, max(found.pop().end, end)
        found.append(Range(start, end, INDEXED))
    for each in failed:
        found = overlay(found, each)
    return found


def ranges(conn: Connection, version: Version, symbol: str) -> tuple[str, list[Range]]:
    """The symbol (not an alias) and its extended ranges in order.

    Within an indexed range, each UTC day without ticks has the state ``no_trades``. If the range covers only a part of
    its first or last day, only the ticks in this part count.
    """
    row = conn.execute(version.query("SELECT {canonical}(%s)"), (symbol,)).fetchone()
    assert row is not None
    name, key = row[0], chain_key(chain_of(row[0]) or "")
    stored = _by_symbol(conn.execute(version.query(_STORED), ([name, key],)))
    starts, ends, states = _columns(extended(stored[name], stored[key]))
    values = {"symbol": name, "starts": starts, "ends": ends, "states": states}
    return name, merged(Range(*each) for each in conn.execute(version.query(_DAYS), values))


class Lags(NamedTuple):
    """The seconds since the end of the newest indexed range, for each symbol and each chain that has one. ``symbols``
    is empty if more than ``most`` symbols have coverage."""

    symbols: dict[str, float]
    chains: dict[str, float]


def lags(conn: Connection, version: Version, most: int = MAX_LAGS) -> Lags:
    row = conn.execute(version.query(_LAGGING), {"most": most}).fetchone()
    assert row is not None
    now, has_symbols = row
    stored = _by_symbol(conn.execute(version.query(_ALL), {"has_symbols": has_symbols}))
    found = Lags({}, {})
    for symbol, own in sorted(stored.items()):
        chain = chain_of(symbol) or ""
        is_chain = symbol == chain_key(chain)
        known = own if is_chain else extended(own, stored.get(chain_key(chain), ()))
        ends = [each.end for each in known if each.state == INDEXED]
        if ends:
            (found.chains if is_chain else found.symbols)[chain if is_chain else symbol] = (now - max(ends)) / SECOND
    return found


_NAMES: LiteralString = """
    SELECT DISTINCT coalesce(a.symbol, name) COLLATE "C" FROM unnest(%s::text[]) AS name
    LEFT JOIN {aliases} a ON a.alias = name ORDER BY 1"""
_TOUCHED: LiteralString = f"""
    DELETE FROM {{coverage}} AS c
    WHERE c.symbol = ANY (%(names)s::text[]) AND c."from" <= {{instant}}(%(end)s) AND c."to" >= {{instant}}(%(start)s)
    RETURNING {_ROW}"""
_INSERT: LiteralString = """
    INSERT INTO {coverage} (symbol, "from", "to", state)
    SELECT u.symbol, {instant}(u.since), {instant}(u.until), u.state
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[]) AS u (symbol, since, until, state)"""
# A semicolon is the character after the colon.
_OF_CHAIN: LiteralString = """
    SELECT DISTINCT symbol FROM {coverage}
    WHERE symbol >= %(chain)s::text || ':' AND symbol < %(chain)s::text || ';'
      AND "from" < {instant}(%(end)s) AND "to" > {instant}(%(start)s)"""
_STORED: LiteralString = f"SELECT {_ROW} FROM {{coverage}} c WHERE c.symbol = ANY (%s::text[])"
_LAGGING: LiteralString = f"""
    SELECT {_MICROSECONDS.format("now()")}, (
        SELECT count(*) FROM (SELECT DISTINCT symbol FROM {{coverage}} WHERE symbol NOT LIKE '%%:*') s) <= %(most)s"""
_ALL: LiteralString = f"SELECT {_ROW} FROM {{coverage}} c WHERE %(has_symbols)s OR c.symbol LIKE '%%:*'"
_DAYS: LiteralString = """
    SELECT (extract(epoch FROM p.a) * 1000000)::bigint, (extract(epoch FROM p.b) * 1000000)::bigint,
           CASE WHEN c.state <> 'indexed' THEN c.state
                WHEN NOT EXISTS (
                     SELECT FROM {rollups} r WHERE r.symbol = %(symbol)s AND r.res = 86400 AND r.bucket = d.day)
                  OR p.b - p.a < interval '24 hours' AND NOT EXISTS (
                     SELECT FROM {ticks} t WHERE t.symbol = %(symbol)s AND t.ts >= p.a AND t.ts < p.b)
                  AND NOT EXISTS (  -- if the ticks were pruned, a minute that begins before the part may count, too
                     SELECT FROM {symbols} s JOIN {rollups_1m} r ON r.symbol = s.symbol AND r.res = 60
                     WHERE s.symbol = %(symbol)s AND r.bucket < s.pruned_until AND r.bucket > p.a - interval '1 min'
                       AND r.bucket < p.b AND r.first_ts < p.b AND r.last_ts >= p.a) THEN 'no_trades'
                ELSE 'indexed' END
    FROM (SELECT {instant}(u.since) AS "from", {instant}(u.until) AS "to", u.state
          FROM unnest(%(starts)s::bigint[], %(ends)s::bigint[], %(states)s::text[]) AS u (since, until, state)) c
    CROSS JOIN LATERAL generate_series(
        date_bin('24 hours', c."from", '1970-01-01Z'), c."to" - interval '1 us', interval '24 hours') AS d (day)
    CROSS JOIN LATERAL (SELECT greatest(c."from", d.day) AS a, least(c."to", d.day + interval '24 hours') AS b) AS p
    ORDER BY 1
"""
