"""Stores the items of a request in a version that Citus distributes: one transaction per shard.

The transactions do not depend on each other. If a node fails, the items of its shards are not stored, and those of the
others are. A request with items of both kinds gets an error that says how many are stored. All of its items may be sent
again, because ticks are stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from marketdata.errors import DatabaseUnavailable, MarketError, PartlyStored
from marketdata.store import ticks
from marketdata.store.placement import Divided, Placement
from marketdata.store.pool import Pool
from marketdata.store.ticks import REFUSALS, Ingested, Outcome
from marketdata.store.version import Version
from marketdata.tick import FinalizeChain, Item

Begin = Callable[[Version, Sequence[Item]], Callable[[], Ingested]]
"""Begins to store items of one shard. Returns a function that waits for their commit, to be called once."""


class _Part(NamedTuple):
    """The items of a request that belong to one shard, and their places in the request."""

    places: list[int]
    items: list[Item]


class _Applied(NamedTuple):
    """The outcomes of a part, or its error."""

    part: _Part
    stored: Ingested | MarketError


def store_in_shard(placement: Placement, version: Version, items: Sequence[Item]) -> Ingested:
    """Store items of one shard in one transaction. Raises :class:`Divided` if they belong to several shards."""
    return placement.write(version, symbols_of(items), lambda connection, shard: ticks.ingest(connection, shard, items))


def symbols_of(items: Sequence[Item]) -> list[str]:
    """The symbols or aliases that the items are about, in order."""
    return sorted({item.symbol for item in items if not isinstance(item, FinalizeChain)})


class ShardIngest:
    """``coordinator`` is the pool of connections to the coordinator, where the finality of chains is stored. ``begin``
    may let parts of several requests share a transaction. Without it, each part has a transaction of its own, and
    several run at the same time."""

    def __init__(self, placement: Placement, coordinator: Pool, begin: Begin | None = None) -> None:
        self._placement = placement
        self._coordinator = coordinator
        self._begin = begin or self._begin_alone

    def ingest(self, version: Version, items: Sequence[Item]) -> Ingested:
        """Store the items in their order. On return they are durable. Raises :class:`PartlyStored` if the nodes of some
        of them do not answer. The result has the counters of all symbols in its transactions, also those of other
        requests."""
        by_kind: tuple[_Part, _Part] = _Part([], []), _Part([], [])
        for place, item in enumerate(items):
            part = by_kind[isinstance(item, FinalizeChain)]
            part.places.append(place)
            part.items.append(item)
        of_symbols, of_chains = by_kind
        applied = self._stored(version, of_symbols)
        # Finality of chains comes after all ticks. If a tick is not stored, its block is not complete.
        if of_chains.items and not _errors(applied):
            applied.append(_Applied(of_chains, self._store_chains(version, of_chains.items)))
        return _result(items, applied)

    def _stored(self, version: Version, part: _Part) -> list[_Applied]:
        """Store each shard's items of this part."""
        applied = []
        try:
            parts = self._by_shard(version, part)
        except MarketError as error:  # the coordinator does not answer
            return [_Applied(part, error)]
        begun = [(each, self._begun(version, each)) for each in parts]
        for each, wait in begun:
            try:
                applied.append(_Applied(each, wait()))
            except Divided:
                applied += self._stored(version, each)
            except MarketError as error:
                applied.append(_Applied(each, error))
        return applied

    def _begun(self, version: Version, part: _Part) -> Callable[[], Ingested]:
        try:
            return self._begin(version, part.items)
        except MarketError as error:
            return partial(_raised, error)

    def _begin_alone(self, version: Version, items: Sequence[Item]) -> Callable[[], Ingested]:
        return self._placement.begin(partial(store_in_shard, self._placement, version, items))

    def _by_shard(self, version: Version, part: _Part) -> list[_Part]:
        groups = self._placement.grouped(version, symbols_of(part.items))
        if len(groups) == 1:
            return [part]
        parts = [_Part([], []) for _ in groups]
        part_of = {name: each for names, each in zip(groups, parts, strict=True) for name in names}
        for place, item in zip(part.places, part.items, strict=True):
            assert not isinstance(item, FinalizeChain)
            of_shard = part_of[item.symbol]
            of_shard.places.append(place)
            of_shard.items.append(item)
        return parts

    def _store_chains(self, version: Version, items: Sequence[Item]) -> Ingested | MarketError:
        try:
            with self._coordinator.connection(fresh_seconds=0.0) as connection:
                return ticks.ingest(connection, version, items)
        except MarketError as error:
            return error


def _raised(error: MarketError) -> Ingested:
    raise error


def _errors(applied: Sequence[_Applied]) -> list[MarketError]:
    return [each.stored for each in applied if isinstance(each.stored, MarketError)]


def _result(items: Sequence[Item], applied: Sequence[_Applied]) -> Ingested:
    """The outcomes of a request's items in their order. Raises its error."""
    stored: dict[int, Outcome] = {}
    counters: dict[str, int] = {}
    for part, found in applied:
        if not isinstance(found, MarketError):
            stored |= zip(part.places, found.outcomes, strict=True)
            counters |= found.counters
    for error in _errors(applied):
        if not stored or not isinstance(error, DatabaseUnavailable):
            raise error  # PartlyStored asks to send the request again, which does not help against another error
        raise _partly_stored(error, len(items), list(stored.values()))
    return Ingested([stored[place] for place in range(len(items))], counters)


def _partly_stored(cause: MarketError, count: int, outcomes: Sequence[Outcome]) -> PartlyStored:
    refused = sum(outcome in REFUSALS for outcome in outcomes)
    duplicates = outcomes.count(Outcome.DUPLICATE)
    error = PartlyStored(
        f"{len(outcomes)} of {count} items were stored or refused; for the others: {cause.detail}",
        extra={"accepted": len(outcomes) - duplicates - refused, "duplicates": duplicates, "refused": refused},
    )
    error.__cause__ = cause
    return error
