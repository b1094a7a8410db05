"""What tokens say of themselves, and how the pools of a factory are named; pure.

A token's name comes from its contract, so it may be hostile: empty, very long, or the name of another token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from marketdata.source.evm import WORD

MAX_DECIMALS = 77
"""More decimals would make every amount smaller than 1."""
_MAX_NAME = 12
_SUFFIX_DIGITS = 6
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._]")


class TokenInfo(NamedTuple):
    """The symbol of a token, as its contract says it, and its decimals; None if the contract does not say them."""

    symbol: str
    decimals: int | None


def token_info(decimals: bytes, symbol: bytes) -> TokenInfo:
    """The symbol and the decimals, from the results of ``decimals()`` and ``symbol()``."""
    number = int.from_bytes(decimals, "big") if len(decimals) == WORD else None
    return TokenInfo(printable(symbol), None if number is None or number > MAX_DECIMALS else number)


def printable(answer: bytes) -> str:
    """The text of a token's symbol without unprintable characters. ``answer`` is an ABI string, or 32 bytes from an old
    token."""
    if len(answer) >= 2 * WORD:
        length = int.from_bytes(answer[WORD : 2 * WORD], "big")
        answer = answer[2 * WORD :][: min(length, WORD)]
    return "".join(c for c in answer.decode(errors="ignore") if c.isprintable())


def is_inverted(tokens: tuple[str, str], usd: Collection[str], natives: Collection[str]) -> bool:
    """Whether token0 is the quote. The quote is a token of ``usd``, else one of ``natives``, else token1."""
    for preferred in (usd, natives):
        if tokens[1] in preferred:
            return False
        if tokens[0] in preferred:
            return True
    return False


def pool_name(base: TokenInfo, base_address: str, quote: TokenInfo, quote_address: str) -> str:
    """``BASE-QUOTE``."""
    return f"{_reduced(base.symbol, base_address)}-{_reduced(quote.symbol, quote_address)}"


def _reduced(symbol: str, address: str) -> str:
    """The allowed characters of a token's symbol; the end of its address if there are none."""
    return _FORBIDDEN.sub("", symbol)[:_MAX_NAME] or address[-_SUFFIX_DIGITS:]


def free_name(name: str, address: str, is_taken: Callable[[str], bool]) -> str:
    """``name``, or if it is taken, ``name`` with the end of the pool's address: 6 digits, or more if these are taken,
    too."""
    found, digits = name, _SUFFIX_DIGITS
    while is_taken(found):
        found, digits = f"{name}-{address[-digits:]}", digits * 2
    return found
