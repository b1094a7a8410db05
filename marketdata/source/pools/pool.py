"""What a pool is, and what a kind of pools is; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from marketdata.source.evm import Log

ID_SEPARATOR = "#"
"""Separates the contract of many pools from the id of a pool: ``address#id``."""


class Deltas(NamedTuple):
    """What the pool gained (positive) or paid out (negative) of each token, in the token's smallest unit."""

    token0: int
    token1: int


class Creation(NamedTuple):
    """A pool that a factory has created. ``address`` and ``tokens`` are in lower case. The native currency is the token
    ``NATIVE``."""

    address: str
    tokens: tuple[str, str]
    unreadable: str = ""
    """Why the pool's swaps cannot be read; empty if they can."""


NATIVE = "0x" + "00" * 20


@dataclass(frozen=True)
class PoolKind:
    """The events of a kind of pools. A decoder raises ValueError if the data belongs to another event, or contradicts
    itself."""

    swap_topics: tuple[str, ...]
    """The first topics of the swap events. All have the same data."""
    decode: Callable[[bytes], Deltas]
    """Returns the deltas of a swap event's data."""
    creations: Mapping[str, Callable[[Log], Creation]]
    """The decoders of the events with which a factory announces a pool, by their first topic."""
    functions: Mapping[str, int]
    """Functions without arguments that tell contracts of this kind from others, with the number of ABI words of their
    results. With 0 words, contracts of this kind do not have the function."""
    is_singleton: bool = False
    """One contract holds all pools, and the second topic of an event is the pool's id."""


def contract_of(address: str) -> str:
    """The contract of a pool's address, which emits the pool's events."""
    return address.partition(ID_SEPARATOR)[0]


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool whose swaps are read. ``symbol`` includes the chain (``CHAIN:NAME``). ``address`` is in lower case; for a
    pool of a singleton, the pool's id follows the contract after :data:`ID_SEPARATOR`. ``tokens`` are token0 and
    token1, empty if they are not known."""

    symbol: str
    address: str
    kind: str
    decimals: tuple[int, int]
    invert: bool
    start_block: int
    tokens: tuple[str, str] = ("", "")

    @property
    def contract(self) -> str:
        """The contract that emits the pool's events."""
        return contract_of(self.address)


class Addressed(Protocol):
    @property
    def address(self) -> str:
        """The address as :class:`Pool` has it."""


_T = TypeVar("_T", bound=Addressed)


class PoolIndex(Generic[_T]):
    """The pools of each contract, or of each id of a singleton's pool."""

    def __init__(self, pools: Iterable[_T]) -> None:
        self._pools: dict[str, list[_T]] = {}
        self.add(pools)

    def add(self, pools: Iterable[_T]) -> None:
        for pool in pools:
            self._pools.setdefault(pool.address, []).append(pool)

    def at(self, address: str) -> Sequence[_T]:
        """The pools with this address."""
        return self._pools.get(address, ())

    def of(self, log: Log) -> Sequence[_T]:
        """The pools that the log belongs to. One address may be listed under several symbols."""
        found = self._pools.get(log.address)
        if found is None and len(log.topics) > 1:
            found = self._pools.get(f"{log.address}{ID_SEPARATOR}{log.topics[1]}")
        return found or ()
