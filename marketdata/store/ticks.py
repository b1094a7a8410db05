"""Stores batches of ticks, and reads ticks as pages (keyset pagination) or as a stream."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, Literal, LiteralString, NamedTuple

from marketdata.errors import InvalidValue, Pruned
from marketdata.interval import clamped
from marketdata.limits import DEFAULT_ROWS
from marketdata.store import prepared
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.symbols import COUNTER_COLUMNS, IS_SYMBOL, counters, cut, unknown_symbol
from marketdata.store.version import Version, braced
from marketdata.tick import EARLIEST, INT64, NAME, Finalize, FinalizeChain, Item, Restore, Retract, Tick


class Outcome(StrEnum):
    """The outcome of an item. ``pruned``: it is before the line of the symbol's pruned ticks. Other items than ticks
    are ``done`` or ``pruned``."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    RETRACTED = "retracted"
    PRUNED = "pruned"
    DONE = "done"


REFUSALS: dict[Outcome, tuple[str, str]] = {
    Outcome.CONFLICT: ("tick_conflict", "a different tick with this id is stored, and stored ticks never change"),
    Outcome.RETRACTED: ("retracted", "its block is retracted; if it is part of the chain again, restore it first"),
    Outcome.PRUNED: (Pruned.code, "the ticks of its time are pruned, and their candles stay as they are"),
}
"""The code and the message of each outcome of a tick that is not stored."""


class Ingested(NamedTuple):
    """``outcomes`` are those of the items, in their order. ``counters`` has the new counter of each symbol, and of each
    alias among the given names. A chain has no counter."""

    outcomes: list[Outcome]
    counters: dict[str, int]

    def divided(self, requests: Iterable[Sequence[Item]]) -> Iterator[Ingested]:
        """The outcomes of each of the requests whose items were stored together, with the counters of all."""
        outcomes = iter(self.outcomes)
        for items in requests:
            yield Ingested(list(islice(outcomes, len(items))), self.counters)


_INGEST = (
    "SELECT item, outcome, name, version FROM {ingest}("
    "%(symbols)s::text[], %(ids)s::text[], %(times)s::bigint[], %(seqs)s::bigint[], %(prices)s::numeric[],"
    " %(sizes)s::numeric[], %(sides)s::text[], %(numbers)s::bigint[], %(hashes)s::text[], %(txs)s::text[])"
)


def ingest(conn: Connection, version: Version, items: Sequence[Item]) -> Ingested:
    """Apply the items in their order, in one transaction.

    When this returns, everything is durable; on an error nothing is stored. A batch with only ticks takes one statement
    and one round trip. Symbols may be aliases.
    """
    with translated():
        if all(type(item) is Tick for item in items):
            return _store(conn, version, items) if items else Ingested([], {})  # type: ignore[arg-type]
        outcomes: list[Outcome] = []
        with conn.transaction():
            # Lock the symbols of all items at once and in order, to exclude deadlocks.
            names = sorted({item.symbol for item in items if not isinstance(item, FinalizeChain)})
            conn.execute(version.query("SELECT {lock}(%s)"), (names,))
            for kind, run in groupby(items, type):
                if kind is Tick:
                    outcomes += _store(conn, version, list(run)).outcomes  # type: ignore[arg-type]
                else:
                    outcomes += [_apply(conn, version, item) for item in run]
            # The rows of chains are locked after all symbols, in order. The other items do not depend on them.
            of_chains = [item for item in items if isinstance(item, FinalizeChain)]
            for final in sorted(of_chains, key=lambda item: item.chain):
                conn.execute(version.query("SELECT {finalize_chain}(%s, %s, %s)"), final)
            # Each function has increased the counters once more.
            stored = counters(conn, version, names) if names else {}
        return Ingested(
            outcomes, {each: found.counter for name, found in stored.items() for each in (name, found.symbol)}
        )


def _apply(conn: Connection, version: Version, item: Item) -> Outcome:
    function: LiteralString
    match item:
        case Retract():
            function = "{retract}"
        case Restore():
            function = "{restore}"
        case Finalize():
            conn.execute(version.query("SELECT {finalize}(%s, %s, %s)"), item)
            return Outcome.DONE
        case _:  # the finality of a chain is stored at the end of the batch
            return Outcome.DONE
    is_done = conn.execute(version.query(f"SELECT {function}(%s, %s)"), item).fetchone() == (True,)
    return Outcome.DONE if is_done else Outcome.PRUNED


def _store(conn: Connection, version: Version, ticks: Sequence[Tick]) -> Ingested:
    symbols, ids, times, seqs, prices, sizes, sides, numbers, hashes, txs = zip(*ticks, strict=True)
    columns = {
        "symbols": _texts(symbols), "ids": _texts(ids), "times": _numbers(times), "seqs": _numbers(seqs),
        "prices": _numbers(prices), "sizes": _numbers(sizes), "sides": _texts(sides), "numbers": _numbers(numbers),
        "hashes": _texts(hashes), "txs": _texts(txs),
    }  # fmt: skip
    found = Ingested([Outcome.CREATED] * len(ticks), {})
    for item, outcome, name, counter in prepared.rows(conn, version.query(_INGEST), columns):
        if item is None:
            found.counters[name.decode()] = int(counter)
        else:
            found.outcomes[int(item) - 1] = Outcome(outcome.decode())
    return found


# Array literals are built with a few passes over the whole text, in C. The driver would convert each element of a list
# in Python, which takes longer than storing the tick. A validated tick contains neither \x1f nor \x1e.
_SEPARATOR, _NULL = "\x1f", "\x1e"


def _texts(column: Iterable[str | None]) -> str | None:
    if set(column) == {None}:
        return None  # unnest yields NULLs for a NULL array
    joined = _SEPARATOR.join([_NULL if text is None else text for text in column])
    quoted = joined.replace("\\", "\\\\").replace('"', '\\"').replace(_SEPARATOR, '","')
    return ('{"' + quoted + '"}').replace(f'"{_NULL}"', "NULL")


def _numbers(column: Iterable[Any]) -> str | None:
    if set(column) == {None}:
        return None
    return "{" + ",".join(["NULL" if number is None else str(number) for number in column]) + "}"


Sort = Literal["asc", "desc"]
Format = Literal["object", "ndjson", "csv"]

CSV_HEADER = (",".join(Tick._fields) + "\n").encode()
STREAM_PAGE = 5000

_TS = """to_char(t.ts AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_OBJECT = f"""
    '{{"symbol":', to_json(t.symbol), ',"id":', to_json(t.id), ',"ts":"', {_TS}, '","seq":', t.seq,
    ',"price":"', trim_scale(t.price), '","size":"', trim_scale(t.size),
    '","side":', coalesce(to_json(t.side)::text, 'null'),
    ',"block":', CASE WHEN t.block_hash IS NULL THEN 'null' ELSE concat(
        '{{"number":', coalesce(t.block_number::text, 'null'), ',"hash":', to_json(t.block_hash), '}}') END,
    ',"tx":', coalesce(to_json(t.tx)::text, 'null'), '}}'"""


def _csv_text(column: str) -> str:
    return f"""'"' || replace(t.{column}, '"', '""') || '"'"""


_CSV = f"""
    t.symbol, ',', {_csv_text("id")}, ',', {_TS}, ',', t.seq, ',', trim_scale(t.price), ',', trim_scale(t.size), ',',
    t.side, ',', t.block_number, ',', {_csv_text("block_hash")}, ',', {_csv_text("tx")}, chr(10)"""
_ROWS: dict[Format, tuple[str, str]] = {
    "object": (_OBJECT, "','"),
    "ndjson": (f"{_OBJECT}, chr(10)", "''"),
    "csv": (_CSV, "''"),
}


class Page(NamedTuple):
    """A page of ticks. ``body`` is the JSON response, or the lines of another format. ``next_cursor`` is None on the
    last page.

    :class:`marketdata.store.candles.Counter` describes ``symbol``, ``origin`` and ``counter``.
    """

    body: bytes
    next_cursor: str | None
    symbol: str
    origin: str
    counter: int


class _Key(NamedTuple):
    """The position of a tick in the order of ticks, and the direction in which the next page continues."""

    is_forward: bool
    us: int
    seq: int
    id: str

    def encoded(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(self).encode()).decode().rstrip("=")

    @classmethod
    def decoded(cls, cursor: str) -> _Key:
        try:
            key = cls(*json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))))
            kinds = tuple(map(type, key)) == (bool, int, int, str)
            if kinds and -INT64 <= key.seq < INT64 and NAME.fullmatch(key.id):
                return key._replace(us=clamped(key.us))
        except (ValueError, TypeError, RecursionError):
            pass
        raise InvalidValue.of("/cursor", "is not a cursor of this service: leave it out to start with the first page")


_LEAST_ID = "!"
"""No id is less. With the least seq it is a position before all ticks of a time."""


class _Rows(NamedTuple):
    """Ticks as text. ``following`` is the key of the last of them, or of the line of pruned ticks that hides further
    ones, or None if no further tick exists."""

    symbol: str
    origin: str
    counter: int
    text: bytes
    following: _Key | None


def read(
    conn: Connection,
    version: Version,
    symbol: str,
    *,
    start: int | None = None,
    end: int | None = None,
    limit: int = DEFAULT_ROWS,
    sort: Sort = "asc",
    cursor: str | None = None,
    format: Format = "object",
) -> Page:
    """Read a page of the ticks in [start, end] (microseconds).

    With ``start`` the first page has the first ``limit`` ticks, without it the newest. ``cursor`` continues in the
    direction of the first page. ``sort`` is the order within a page. A tick that is stored the whole time appears in
    exactly one page, whatever is inserted or deleted between the requests. Raises NotFound (``unknown_symbol``) when
    nothing was ever stored of the symbol, InvalidValue for an invalid cursor, and Pruned for a page that begins below
    the line of pruned ticks.
    """
    key = None if cursor is None else _Key.decoded(cursor)
    is_forward = start is not None if key is None else key.is_forward
    row = _page(conn, version, symbol, start, end, limit, is_forward, (sort == "asc") != is_forward, key, format)
    state = (row.symbol, row.origin, row.counter)
    following = row.following.encoded() if row.following is not None else None
    if format != "object":
        return Page((CSV_HEADER if format == "csv" else b"") + row.text, following, *state)
    parts = (row.symbol.encode(), row.text, json.dumps(following).encode())
    return Page(b'{"symbol":"%b","ticks":[%b],"next_cursor":%b}' % parts, following, *state)


def stream(conn: Connection, version: Version, symbol: str, **arguments: Any) -> Iterator[bytes]:
    """:func:`blocks` on one connection."""
    return blocks(lambda read: read(conn, version), symbol, **arguments)


def blocks(
    run: Callable[[Callable[[Connection, Version], _Rows]], _Rows],
    symbol: str,
    *,
    start: int | None = None,
    end: int | None = None,
    sort: Sort = "asc",
    format: Literal["ndjson", "csv"] = "ndjson",
    limit: int = STREAM_PAGE,
) -> Iterator[bytes]:
    """Read all ticks in [start, end] in the order of ``sort``, in blocks of at most ``limit`` lines. Each block is a
    transaction. ``run`` calls a function with the connection and the version for the next block.

    This reads the first block before it returns, so that NotFound and Pruned are raised before anything is sent. A
    stream cannot say that it ends at the line of pruned ticks. So it is refused unless it begins above it.
    """
    is_forward = sort == "asc"
    start = EARLIEST if start is None else start

    def block(key: _Key | None) -> _Rows:
        return run(
            lambda conn, version: _page(
                conn, version, symbol, start, end, limit, is_forward, False, key, format
            )
        )  # fmt: skip

    first = block(None)

    def texts() -> Iterator[bytes]:
        row = first
        if format == "csv":
            yield CSV_HEADER
        if row.text:
            yield row.text
        while row.following is not None:
            row = block(row.following)
            if row.text:
                yield row.text

    return texts()


def _page(
    conn: Connection,
    version: Version,
    symbol: str,
    start: int | None,
    end: int | None,
    limit: int,
    is_forward: bool,
    is_reversed: bool,
    key: _Key | None,
    format: Format,
) -> _Rows:
    values: dict[str, str | int | None] = {
        "symbol": symbol, "start": clamped(start), "end": clamped(end), "limit": limit
    }  # fmt: skip
    if key is not None:
        values |= {"key_us": key.us, "key_seq": key.seq, "key_id": key.id}
    statement = _statement(
        is_forward=is_forward,
        is_reversed=is_reversed,
        has_start=start is not None,
        has_end=end is not None,
        has_key=key is not None,
        format=format,
    )
    with translated():
        answer = prepared.rows(conn, version.query(statement), values)
    if not answer:
        raise unknown_symbol(symbol)
    stored, origin, counter, found, text, us, seq, last_id, line = answer[0]
    following = None
    if int(found) > limit:
        following = _Key(is_forward, int(us), int(seq), last_id.decode())
    elif line is not None and start is None and not is_forward:
        following = _Key(False, int(line), -INT64, _LEAST_ID)
    return _Rows(stored.decode(), origin.decode(), int(counter), text or b"", following)


@lru_cache
def _statement(
    *, is_forward: bool, is_reversed: bool, has_start: bool, has_end: bool, has_key: bool, format: Format
) -> LiteralString:
    """The SELECT with only the needed conditions. PostgreSQL then plans each kind of page separately."""
    expression, separator = _ROWS[format]
    desc = "" if is_forward else " DESC"
    conditions, needed = "t.symbol = s.symbol", []
    if has_start:
        needed.append("{instant}(%(start)s::bigint) < s.pruned_until")
        conditions += " AND t.ts >= {instant}(%(start)s::bigint)"
    else:
        conditions += " AND t.ts >= s.pruned_until"
        needed += [] if is_forward else ["k.found = 0"]
    if has_end:
        needed.append("{instant}(%(end)s::bigint) < s.pruned_until")
        conditions += " AND t.ts <= {instant}(%(end)s::bigint)"
    if has_key:
        needed.append("{instant}(%(key_us)s::bigint) < s.pruned_until")
        key = "({instant}(%(key_us)s::bigint), %(key_seq)s::bigint, %(key_id)s)"
        conditions += f" AND (t.ts, t.seq, t.id) {'>' if is_forward else '<'} {key}"
    at_limit = "FILTER (WHERE t.ord = %(limit)s)"
    return f"""
        SELECT {COUNTER_COLUMNS}, k.found, k.body, k.us, k.seq, k.id, {cut(" OR ".join(needed))}
        FROM {{symbols}} s CROSS JOIN LATERAL (
            SELECT count(*) AS found,
                   string_agg(concat({braced(expression)}), {separator}{" ORDER BY t.ord DESC" if is_reversed else ""})
                       FILTER (WHERE t.ord <= %(limit)s) AS body,
                   (max(extract(epoch FROM t.ts)) {at_limit} * 1000000)::bigint AS us,
                   max(t.seq) {at_limit} AS seq, max(t.id) {at_limit} AS id
            FROM (SELECT *, row_number() OVER (ORDER BY ts{desc}, seq{desc}, id{desc}) AS ord FROM {{ticks}} t
                  WHERE {conditions} ORDER BY ts{desc}, seq{desc}, id{desc} LIMIT %(limit)s::integer + 1) t
        ) k WHERE {IS_SYMBOL}"""
