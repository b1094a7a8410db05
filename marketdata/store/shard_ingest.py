"""Stores the items of several requests in a version that Citus distributes: one transaction per shard.

The transactions do not depend on each other. If a node fails, the items of its shards are not stored, and those of the
others are. A request with items of both kinds gets an error that says how many are stored. All of its items may be sent
again, because ticks are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from marketdata.errors import DatabaseDefect, DatabaseUnavailable, InvalidValue, MarketError, PartlyStored
from marketdata.store import ticks
from marketdata.store.placement import Divided, Placement
from marketdata.store.pool import Pool
from marketdata.store.ticks import REFUSALS, Outcome
from marketdata.store.version import Version
from marketdata.tick import FinalizeChain, Item


class _Part(NamedTuple):
    """The items of one request that belong to one shard, and their places in the request."""

    request: int
    places: list[int]
    items: list[Item]


class _Applied(NamedTuple):
    """What became of a part: the outcomes of its items, or the error."""

    part: _Part
    outcomes: Sequence[Outcome]
    error: MarketError | None


Results = tuple[list[Sequence[Outcome] | MarketError], dict[str, int]]


class ShardIngest:
    """``coordinator`` is the pool of connections to the coordinator, which stores what concerns whole chains."""

    def __init__(self, placement: Placement, coordinator: Pool) -> None:
        self._placement = placement
        self._coordinator = coordinator

    def ingest(self, version: Version, requests: Sequence[Sequence[Item]]) -> Results:
        """Store the items of each request in their order. On return they are durable. Returns for each request the
        outcomes of its items, or an error; and the new counters of all symbols."""
        counters: dict[str, int] = {}
        wholes = [_Part(request, list(range(len(items))), list(items)) for request, items in enumerate(requests)]
        groups = self._divided(version, wholes)
        applied = list(
            chain.from_iterable(self._placement.each(groups, lambda parts: self._store(version, parts, counters)))
        )
        failed = {each.part.request for each in applied if each.error is not None}
        applied += self._store_chains(version, requests, failed)
        return [
            _result(items, [each for each in applied if each.part.request == n]) for n, items in enumerate(requests)
        ], counters

    def _divided(self, version: Version, parts: Sequence[_Part]) -> list[list[_Part]]:
        """These parts by shard, without the finality of chains."""
        groups = self._placement.grouped(version, _symbols([item for part in parts for item in part.items]))
        shard_of = {name: n for n, names in enumerate(groups) for name in names}
        found: list[dict[int, _Part]] = [{} for _ in groups]
        for part in parts:
            for place, item in zip(part.places, part.items, strict=True):
                if isinstance(item, FinalizeChain):
                    continue
                of_shard = found[shard_of[item.symbol]].setdefault(part.request, _Part(part.request, [], []))
                of_shard.places.append(place)
                of_shard.items.append(item)
        return [list(each.values()) for each in found]

    def _store(self, version: Version, parts: Sequence[_Part], counters: dict[str, int]) -> list[_Applied]:
        """Store the parts of one shard in one transaction."""
        items = [item for part in parts for item in part.items]
        try:
            stored = self._placement.write(
                version, _symbols(items), lambda conn, shard: ticks.ingest(conn, shard, items)
            )
        except (InvalidValue, DatabaseDefect) as error:
            # The data of one request must not make the others fail: store each separately.
            if len(parts) > 1:
                return [each for part in parts for each in self._store(version, [part], counters)]
            return [_Applied(parts[0], (), error)]
        except Divided:
            return [each for group in self._divided(version, parts) for each in self._store(version, group, counters)]
        except MarketError as error:
            return [_Applied(part, (), error) for part in parts]
        counters.update(stored.counters)
        applied, place = [], 0
        for part in parts:
            applied.append(_Applied(part, stored.outcomes[place : place + len(part.items)], None))
            place += len(part.items)
        return applied

    def _store_chains(self, version: Version, requests: Sequence[Sequence[Item]], failed: set[int]) -> list[_Applied]:
        """Store the finality of chains, after all ticks of the requests. A request of which a tick is not stored is
        left out, because its blocks are not complete."""
        parts = []
        for request, items in enumerate(requests):
            places = [place for place, item in enumerate(items) if isinstance(item, FinalizeChain)]
            if places and request not in failed:
                parts.append(_Part(request, places, [items[place] for place in places]))
        if not parts:
            return []
        try:
            with self._coordinator.connection(fresh_seconds=0.0) as connection:
                ticks.ingest(connection, version, [item for part in parts for item in part.items])
        except MarketError as error:
            return [_Applied(part, (), error) for part in parts]
        return [_Applied(part, [Outcome.DONE] * len(part.items), None) for part in parts]


def _symbols(items: Sequence[Item]) -> list[str]:
    return sorted({item.symbol for item in items if not isinstance(item, FinalizeChain)})


def _result(items: Sequence[Item], applied: Sequence[_Applied]) -> Sequence[Outcome] | MarketError:
    """The outcomes of a request's items in their order, or its error."""
    error = next((each.error for each in applied if each.error is not None), None)
    stored: Mapping[int, Outcome] = {
        place: outcome for each in applied for place, outcome in zip(each.part.places, each.outcomes, strict=False)
    }
    if error is None:
        return [stored[place] for place in range(len(items))]
    if not stored or not isinstance(error, DatabaseUnavailable):
        return error  # another error stays: the same request would never be stored
    return _partly_stored(error, len(items), list(stored.values()))


def _partly_stored(cause: MarketError, count: int, outcomes: Sequence[Outcome]) -> PartlyStored:
    refused = sum(outcome in REFUSALS for outcome in outcomes)
    duplicates = outcomes.count(Outcome.DUPLICATE)
    error = PartlyStored(
        f"{len(outcomes)} of {count} items were stored or refused; for the others: {cause.detail}",
        extra={"accepted": len(outcomes) - duplicates - refused, "duplicates": duplicates, "refused": refused},
    )
    error.__cause__ = cause
    return error
