"""The kinds of pools. Each is one module with the names of :class:`PoolKind`; a new kind is entered in ``KINDS``."""

from __future__ import annotations

from typing import Protocol

from marketdata.source.pools import uniswap_v2, uniswap_v3
from marketdata.source.trade import Deltas


class PoolKind(Protocol):
    """What a module of this package defines."""

    @property
    def TOPIC(self) -> str:
        """The first topic of the event of a swap."""

    @property
    def STATE(self) -> str:
        """A function without arguments that pools of this kind have, and others have not."""

    @property
    def STATE_WORDS(self) -> int:
        """How many words its answer has."""

    def decode(self, data: bytes) -> Deltas:
        """What the swap changed; ValueError for data that is not of this event, or contradicts itself."""


KINDS: dict[str, PoolKind] = {"uniswap-v2": uniswap_v2, "uniswap-v3": uniswap_v3}
