"""Ticks in and out: the ingest of a batch, pages by keyset, and a stream of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any

from marketdata.store.pool import Connection, translated
from marketdata.store.version import Version
from marketdata.tick import Finalize, Item, Restore, Retract, Tick


class Outcome(StrEnum):
    """What became of an item. ``done`` is that of items that are no ticks."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    RETRACTED = "retracted"
    DONE = "done"


_INGEST = (
    "SELECT item, outcome FROM {ingest}(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::numeric[], %s::numeric[],"
    " %s::text[], %s::bigint[], %s::text[], %s::text[])"
)


def ingest(conn: Connection, version: Version, items: Sequence[Item]) -> list[Outcome]:
    """Apply the items in their order, in one transaction; what became of each. All is durable on return, or nothing.

    Ticks alone are one statement and one round trip. Symbols may be aliases.
    """
    with translated():
        if all(type(item) is Tick for item in items):
            return _store(conn, version, items) if items else []  # type: ignore[arg-type]
        outcomes: list[Outcome] = []
        with conn.transaction():
            # The symbols of all items at once: one by one they would be locked in the order of the items.
            names = sorted({item.symbol for item in items})
            conn.execute(version.query("SELECT {lock}(%s)"), (names,))
            for kind, run in groupby(items, type):
                if kind is Tick:
                    outcomes += _store(conn, version, list(run))  # type: ignore[arg-type]
                else:
                    outcomes += [_apply(conn, version, item) for item in run]
        return outcomes


def _apply(conn: Connection, version: Version, item: Item) -> Outcome:
    match item:
        case Retract(symbol, block_hash):
            conn.execute(version.query("SELECT {retract}(%s, %s)"), (symbol, block_hash))
        case Restore(symbol, block_hash):
            conn.execute(version.query("SELECT {restore}(%s, %s)"), (symbol, block_hash))
        case Finalize(symbol, block):
            conn.execute(version.query("SELECT {finalize}(%s, %s)"), (symbol, block))
    return Outcome.DONE


def _store(conn: Connection, version: Version, ticks: Sequence[Tick]) -> list[Outcome]:
    symbols, ids, times, seqs, prices, sizes, sides, numbers, hashes, txs = zip(*ticks, strict=True)
    columns = (
        _texts(symbols), _texts(ids), _numbers(times), _numbers(seqs), _numbers(prices), _numbers(sizes),
        _texts(sides), _numbers(numbers), _texts(hashes), _texts(txs),
    )  # fmt: skip
    outcomes = [Outcome.CREATED] * len(ticks)
    for item, outcome in conn.execute(version.query(_INGEST), columns):
        outcomes[item - 1] = Outcome(outcome)
    return outcomes


# Array literals, made by a handful of passes in C: the driver's own adaptation of a list looks at each element in Python,
# which takes longer than PostgreSQL needs to store the tick. Neither separator can occur in a parsed tick.
_BETWEEN, _NOTHING = "\x1f", "\x1e"


def _texts(column: Iterable[str | None]) -> str | None:
    if set(column) == {None}:
        return None  # unnest makes nulls of a missing array
    joined = _BETWEEN.join([_NOTHING if text is None else text for text in column])
    quoted = joined.replace("\\", "\\\\").replace('"', '\\"').replace(_BETWEEN, '","')
    return ('{"' + quoted + '"}').replace(f'"{_NOTHING}"', "NULL")


def _numbers(column: Iterable[Any]) -> str | None:
    if set(column) == {None}:
        return None
    return "{" + ",".join(["NULL" if number is None else str(number) for number in column]) + "}"
