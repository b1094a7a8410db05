"""Selects logs by contract and first topic; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from marketdata.source import evm
from marketdata.source.evm import Header, Log
from marketdata.source.pools import KINDS

MAX_ADDRESSES = 500
"""With more contracts, a request names the topics only, because providers refuse long lists of addresses."""


_SWAPS = {name: frozenset(kind.swap_topics) for name, kind in KINDS.items()}


class LogFilter:
    """Selects the logs of some contracts that have one of some first topics."""

    def __init__(self, events: Mapping[str, Collection[str]], second: Collection[str] = ()) -> None:
        """``events`` has the first topics of each contract's wanted events, by the contract's address. ``second`` are
        the wanted second topics; empty: all."""
        # A frozenset is not copied, so that thousands of pools of a kind share one.
        self._events = {address: frozenset(topics) for address, topics in events.items()}
        self._second = sorted(second)
        self.topics = sorted(frozenset().union(*self._events.values()))
        self._is_long = len(self._events) > MAX_ADDRESSES

    def __or__(self, other: LogFilter) -> LogFilter:
        """A filter that selects what at least one of the two filters selects. Neither of them may limit the second
        topics."""
        both = self._events | other._events
        for address in self._events.keys() & other._events.keys():
            both[address] = self._events[address] | other._events[address]
        return LogFilter(both)

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


class OfKind(Protocol):
    @property
    def kind(self) -> str:
        """The name of the pool's kind."""

    @property
    def contract(self) -> str:
        """The contract that emits the pool's events."""


def swap_filter(pools: Iterable[OfKind]) -> LogFilter:
    """Selects the swaps of pools."""
    return LogFilter({pool.contract: _SWAPS[pool.kind] for pool in pools})
