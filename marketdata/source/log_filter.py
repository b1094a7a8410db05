"""Selects logs by contract and first topic; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from marketdata.source import evm
from marketdata.source.evm import Header, Log
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import ID_SEPARATOR

MAX_ADDRESSES = 500
"""With more contracts, a request names the topics only, because providers refuse long lists of addresses."""


_SWAPS = {name: frozenset(kind.swap_topics) for name, kind in KINDS.items()}


class LogFilter:
    """Selects the logs of some contracts that have one of some first topics."""

    def __init__(
        self,
        events: Mapping[str, Collection[str]],
        second: Collection[str] = (),
        sources: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """``events`` has the first topics of each contract's wanted events, by the contract's address. ``second`` are
        the wanted second topics; empty: all. ``sources`` has the topics by the address of a pool, if a contract has
        many pools."""
        # A frozenset is not copied, so that thousands of pools of a kind share one.
        self._events = {address: frozenset(topics) for address, topics in events.items()}
        self._sources = {address: frozenset(topics) for address, topics in (sources or self._events).items()}
        self._second = sorted(second)
        self.topics = sorted(frozenset().union(*self._events.values()))
        self._is_long = len(self._events) > MAX_ADDRESSES

    def __or__(self, other: LogFilter) -> LogFilter:
        """A filter that selects what at least one of the two filters selects. Neither of them may limit the second
        topics."""
        return LogFilter(_both(self._events, other._events), sources=_both(self._sources, other._sources))

    def parameters(self) -> dict[str, Any]:
        """The parameters of ``eth_getLogs``. A provider returns every address with every topic, so its answer may have
        logs that the filter does not select."""
        addresses = {} if self._is_long else {"address": sorted(self._events)}
        return {**addresses, "topics": [self.topics, self._second] if self._second else [self.topics]}

    def selects(self, log: Log) -> bool:
        if not log.topics or log.topics[0] not in self._events.get(log.address, ()):
            return False
        return not self._second or (len(log.topics) > 1 and log.topics[1] in self._second)

    def may_be_in(self, header: Header) -> bool:
        """False if the block's bloom filter shows that the block has no wanted log. Some chains leave the filter empty.
        On these, False only if the block has no transactions."""
        if not header.bloom:
            return header.has_transactions
        topics = {topic for topic in self.topics if evm.is_in_bloom(header.bloom, topic)}
        if self._is_long:
            return bool(topics)
        return bool(topics) and any(
            not topics.isdisjoint(wanted) and evm.is_in_bloom(header.bloom, address)
            for address, wanted in self._events.items()
        )

    def unseen(self, bloom: int, logs: Iterable[Log]) -> frozenset[str]:
        """The addresses of pools, and of other contracts, of which the bloom filter ``bloom`` of a block or transaction
        names a wanted event, while ``logs``, which should be all of its wanted logs, have none. A filter may name what
        is not there, but never the reverse. An empty filter names nothing."""
        topics = {topic for topic in self.topics if evm.is_in_bloom(bloom, topic)}
        if not topics or (self._second and not any(evm.is_in_bloom(bloom, topic) for topic in self._second)):
            return frozenset()
        seen = {(address, log.topics[0]) for log in logs for address in _addresses(log)}
        return frozenset(
            address
            for address, wanted in self._sources.items()
            if not topics.isdisjoint(wanted)
            and all(evm.is_in_bloom(bloom, part) for part in address.split(ID_SEPARATOR))
            and not any((address, topic) in seen for topic in wanted)
        )

    def false_alarm(self, bloom: int) -> float:
        """About how probable it is that a bloom filter names one of the addresses although it has no log: three bits of
        an address are set by chance."""
        return min(1.0, len(self._sources) * (bloom.bit_count() / evm.BLOOM_BITS) ** 3)


def _addresses(log: Log) -> Iterator[str]:
    """The contract of a log, and the pool of a contract that has many."""
    yield log.address
    if len(log.topics) > 1:
        yield f"{log.address}{ID_SEPARATOR}{log.topics[1]}"


def _both(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    found = {**one, **other}
    for address in one.keys() & other.keys():
        found[address] = one[address] | other[address]
    return found


class OfKind(Protocol):
    @property
    def kind(self) -> str:
        """The name of the pool's kind."""

    @property
    def address(self) -> str:
        """The pool's address."""

    @property
    def contract(self) -> str:
        """The contract that emits the pool's events."""


def swap_filter(pools: Iterable[OfKind]) -> LogFilter:
    """Selects the swaps of pools."""
    pools = list(pools)
    contracts = {pool.contract: _SWAPS[pool.kind] for pool in pools}
    return LogFilter(contracts, sources={pool.address: _SWAPS[pool.kind] for pool in pools})
