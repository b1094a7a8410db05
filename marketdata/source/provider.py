"""What the ingestor asks a provider of a chain: a :class:`marketdata.source.node.Node`, or the demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from marketdata.source.evm import Header, Log

Wanted = Mapping[str, str]
"""The topic of each address whose logs are wanted."""


class Provider(Protocol):
    """Every method raises ProviderError when there is no answer, or one that cannot be believed."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def requests(self) -> int:
        """How many were sent over a network."""

    def interrupt(self) -> None:
        """End the request of another thread, which then gets an error."""

    def close(self) -> None:
        """Close the connection; nothing is asked after that."""

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        """The newest block, and the number of the newest final one if that is asked for, else 0."""

    def check_chain(self) -> None:
        """ProviderError (``wrong_chain``) when this is another chain than the configured one."""

    def headers(self, numbers: Sequence[int]) -> list[Header]:
        """The blocks of these numbers, of which the provider must have every one."""

    def find_headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """The blocks of these numbers; None for one that the chain does not have."""

    def logs_of(self, headers: Sequence[Header], wanted: Wanted) -> list[list[Log]]:
        """The wanted logs of each of these blocks, asked for by their hashes."""

    def logs_between(self, first: int, last: int, wanted: Wanted) -> tuple[list[Log], dict[int, Header]]:
        """The wanted logs of a range of blocks that no reorganisation reaches any more, with the blocks that have one,
        and the first and the last block of the range.

        RangeRefused when the provider wants to be asked for fewer blocks.
        """

    def read_contract(self, address: str, function: str) -> bytes:
        """What a function without arguments returns; empty when there is no contract or it has no such function."""


def newest_and_final(provider: Provider, confirmations: int | None) -> tuple[Header, int]:
    """The newest block, and the number of the newest final one: so many blocks before it, in a short chain below 0, or,
    for None, as the provider says."""
    newest, final = provider.head(with_finalized=confirmations is None)
    return newest, final if confirmations is None else newest.number - confirmations
