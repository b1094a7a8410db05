"""Access to the symbols of versions that may be distributed, for as long as a test's connection lives."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from marketdata.operations.pair_access import PairAccess
from marketdata.operations.symbol_access import SymbolAccess
from marketdata.operations.version_pair import Pair
from marketdata.store import ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import FinalizeChain, Item

_open: WeakKeyDictionary[Connection, SymbolAccess] = WeakKeyDictionary()


def access(connection: Connection) -> SymbolAccess:
    return _open.setdefault(connection, SymbolAccess(connection))


def end_access(connection: Connection) -> None:
    access(connection).__exit__()


def pairs(connection: Connection, pair: Pair) -> PairAccess:
    return PairAccess(connection, pair, access(connection))


def store(connection: Connection, version: Version, *items: Item) -> None:
    """Store the items of each symbol in their order, and then those of chains."""
    of_symbol: defaultdict[str | None, list[Item]] = defaultdict(list)
    for item in items:
        of_symbol[None if isinstance(item, FinalizeChain) else item.symbol].append(item)
    of_chains = of_symbol.pop(None, [])
    for symbol, of_one in of_symbol.items():
        access(connection).write(version, [symbol], partial(_ingest, of_one))
    ticks.ingest(connection, version, of_chains)


def _ingest(items: list[Item], connection: Connection, version: Version) -> list[Any]:
    return list(ticks.ingest(connection, version, items).outcomes)
