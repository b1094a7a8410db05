"""The demo's chain as the ingestor sees it: the blocks up to the present, and what it has to know of the pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from marketdata.errors import ProviderError, StateError
from marketdata.source.demo.blocks import BLOCK_S, DECIMALS, DEEPEST, POOLS, Blocks
from marketdata.source.evm import WORD, Header, Log
from marketdata.source.pools import KINDS
from marketdata.source.provider import Wanted

_BACK = 60 // BLOCK_S
"""So many blocks lower than before the newest one may be: clocks are set back by some seconds."""


class DemoNode:
    """A provider without a network. ``clock`` is in seconds since 1970, ``highest`` a block that was its newest one."""

    name = "the demo source"
    requests = 0

    def __init__(self, blocks: Blocks, clock: Callable[[], float], highest: int = 0) -> None:
        self._blocks = blocks
        self._clock = clock
        self._highest = highest

    def interrupt(self) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        """There is no connection."""

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        """StateError when the clock is far behind the one of an earlier moment."""
        head = self._head()
        if head < self._highest - _BACK:
            raise StateError(
                f"{self.name}: by the clock, block {head} is the newest, but block {self._highest} was read before. "
                "If the clock was ahead then, bin/marketdata-demo reset begins anew"
            )
        self._highest = max(self._highest, head)
        return self._header(head, head), max(0, head - DEEPEST) if with_finalized else 0

    def check_chain(self) -> None:
        """There is only one."""

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        head = self._head()
        if any(number > head for number in numbers):
            raise ProviderError(f"{self.name} has no block {max(numbers)}: its newest one is {head}")
        return [self._header(number, head) for number in numbers]

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        head = self._head()
        return [self._header(number, head) if number <= head else None for number in numbers]

    def logs_of(self, headers: Sequence[Header], wanted: Wanted) -> list[list[Log]]:
        """Abandoned blocks are known by their hashes, too."""
        return [
            self._blocks.logs(each.number, wanted, is_abandoned=each.hash != self._blocks.hash(each.number))
            for each in headers
        ]

    def logs_between(self, first: int, last: int, wanted: Wanted) -> tuple[list[Log], dict[int, Header]]:
        logs, headers = [], {number: self._blocks.header(number) for number in (first, last)}
        for number in self._blocks.trading_between(first, last):
            found = self._blocks.logs(number, wanted)
            if found:
                headers[number] = self._blocks.header(number)
            logs += found
        return logs, headers

    def read_contract(self, address: str, function: str) -> bytes:
        return _CONTRACTS.get((address, function), b"")

    def _head(self) -> int:
        return self._blocks.head(self._clock())

    def _header(self, number: int, head: int) -> Header:
        return self._blocks.header(number, is_abandoned=self._blocks.is_abandoned(number, head))


def _contracts() -> dict[tuple[str, str], bytes]:
    """What the functions of the pools and their tokens return."""
    answers = {}
    for pool, *_ in POOLS:
        kind = KINDS[pool.kind]
        answers[pool.address, kind.STATE] = bytes(kind.STATE_WORDS * WORD)
        names = pool.symbol.partition(":")[2].split("-")
        for at, (name, decimals) in enumerate(zip(names, DECIMALS, strict=True)):
            token = f"{pool.address[:-2]}{at + 1}{pool.address[-1]}"
            answers[pool.address, f"token{at}()"] = bytes.fromhex(token[2:]).rjust(WORD, b"\0")
            answers[token, "decimals()"] = decimals.to_bytes(WORD, "big")
            answers[token, "symbol()"] = name.encode().ljust(WORD, b"\0")
    return answers


_CONTRACTS = _contracts()
