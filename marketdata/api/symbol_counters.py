"""The version counters of symbols, read in one query for all requests that need them at the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from marketdata.api.request_coalescing import RequestCoalescing
from marketdata.store import candles
from marketdata.store.candles import Counter
from marketdata.store.pool import Pool
from marketdata.store.version import Version

Key = tuple[Version, str]
"""A version, and a symbol or an alias in it."""

SymbolCounters = RequestCoalescing[Key, Counter]


def symbol_counters(pool: Pool) -> SymbolCounters:
    """Counters read on a connection of ``pool``; a symbol that was never stored has none."""

    def fetch(keys: Collection[Key]) -> Mapping[Key, Counter]:
        found: dict[Key, Counter] = {}
        with pool.connection() as connection:
            for version in {version for version, _ in keys}:
                names = [name for of, name in keys if of == version]
                counters = candles.counters(connection, version, names)
                found |= {(version, name): counter for name, counter in counters.items()}
        return found

    return RequestCoalescing(fetch)
