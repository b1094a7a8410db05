"""The table of providers' error messages: "too many blocks", "too many requests" and "try later".

JSON-RPC has no codes for these, so the wording decides. Each pattern names the provider or node that sends it. Patterns
are matched against the whole JSON-RPC error, ignoring case. The first match counts.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The kind of an error decides what to do next: ask for fewer blocks, try later, or send fewer calls at once."""

    RANGE = "too many blocks or results"
    RATE = "too many requests"
    BATCH = "too many calls in one request"
    LATER = "not there yet, or not now"


class Wording(NamedTuple):
    kind: Kind
    pattern: str
    """Named groups may capture the range that the provider would answer: ``first`` and ``last`` (hexadecimal), ``from``
    and ``to`` (decimal), or ``most`` (the largest number of blocks)."""
    origin: str


_NUMBER = r"(?P<most>[0-9][0-9,._]*[0-9]|[0-9])"
_BLOCKS = r"\[0x(?P<first>[0-9a-f]+),\s*0x(?P<last>[0-9a-f]+)\]"

TABLE: tuple[Wording, ...] = (
    # Batches come first: their patterns are narrower than those of ranges.
    Wording(Kind.BATCH, r"batch (?:size |limit |call )?(?:is )?(?:too (?:large|big)|exceed|limit)",
            "geth, Erigon, QuickNode"),
    Wording(Kind.BATCH, r"batch of more than \d+", "dRPC"),
    Wording(Kind.BATCH, r"too many (?:calls|requests) in (?:the |a |one )?batch|batch requests are (?:not|dis)",
            "public nodes"),
    # Requests
    Wording(Kind.RATE, r"exceeded its compute units", "Alchemy"),
    Wording(Kind.RATE, r"exceeded project rate limit|daily request count exceeded|request rate limited", "Infura"),
    Wording(Kind.RATE, r"credits limited to|request limit reached", "QuickNode"),
    Wording(Kind.RATE, r"over rate limit", "Base"),
    Wording(Kind.RATE, r"rate ?limit|too many requests|requests per second", "Tenderly, Ankr, Cloudflare"),
    # The provider's nodes lag behind, or are being replaced.
    Wording(Kind.LATER, r"header not found|missing trie node", "geth"),
    Wording(Kind.LATER, r"no backend is currently healthy|temporarily unavailable", "Base, Optimism"),
    # Blocks and results
    Wording(Kind.RANGE, rf"try with this block range {_BLOCKS}", "Infura, zkSync"),
    Wording(Kind.RANGE, rf"this block range should work: {_BLOCKS}", "Alchemy"),
    Wording(Kind.RANGE, r"retry with the range (?P<from>\d+)-(?P<to>\d+)", "reth, LlamaRPC, Ankr"),
    Wording(Kind.RANGE, rf"range \d+ exceeds limit of {_NUMBER}", "Infura"),
    Wording(Kind.RANGE, rf"up to a {_NUMBER} block range", "Alchemy, Aurora"),
    Wording(Kind.RANGE, rf"bigger than range limit {_NUMBER}", "Tenderly"),
    Wording(Kind.RANGE, rf"maximum is set to {_NUMBER}", "Avalanche"),
    Wording(Kind.RANGE, rf"max range: {_NUMBER}", "Cloudflare"),
    Wording(Kind.RANGE, rf"maximum allowed number of requested blocks is {_NUMBER}", "thirdweb"),
    Wording(Kind.RANGE, rf"limited to (?:a )?{_NUMBER} (?:block|range)", "QuickNode, 1RPC, Blast, BlockPI"),
    Wording(Kind.RANGE, rf"exceeds the range allowed for your plan \(\d+ > {_NUMBER}\)", "Blast"),
    Wording(Kind.RANGE, rf"limit the query to at most {_NUMBER} blocks", "Coinbase"),
    Wording(Kind.RANGE, rf"maximum block range: {_NUMBER}", "BNB Chain, PublicNode"),
    Wording(Kind.RANGE, rf"max block range(?: =)? {_NUMBER}", "Morph, Hyperliquid"),
    Wording(Kind.RANGE, rf"block range greater than {_NUMBER} max", "Swell"),
    Wording(Kind.RANGE, rf"block range exceeds {_NUMBER}", "Somnia"),
    Wording(Kind.RANGE, rf"block range is too wide \(maximum {_NUMBER}\)", "Moonriver"),
    Wording(Kind.RANGE, rf"\[from, to\] blocks distance: {_NUMBER}", "Ankr"),
    Wording(Kind.RANGE, rf"query must be smaller than size {_NUMBER}", "Harmony"),
    Wording(Kind.RANGE, r"query returned more than \d+ results", "Infura, Polygon zkEVM"),
    Wording(Kind.RANGE, r"query exceeds max results", "reth, LlamaRPC, Ankr"),
    Wording(Kind.RANGE, r"logs matched by query exceeds limit", "Arbitrum"),
    Wording(Kind.RANGE, r"log response size exceeded", "Alchemy"),
    Wording(Kind.RANGE, r"response size (?:should not|is larger|exceed)|response (?:is )?too (?:large|big)",
            "1RPC, Optimism"),
    Wording(Kind.RANGE, r"query timeout exceeded|log query timed out|query timed out", "geth, Polygon"),
    Wording(Kind.RANGE, r"block range (?:is )?(?:too|bigger|larger|limit|exceed)|exceeds? max(?:imum)? block range",
            "Ankr, Base, Chainstack, Optimism, Scroll, Candle"),
    Wording(Kind.RANGE, r"range is too large", "Merkle"),
)  # fmt: skip

_COMPILED = tuple((each, re.compile(each.pattern, re.IGNORECASE)) for each in TABLE)


class Meaning(NamedTuple):
    kind: Kind
    suggested: int | None
    """The number of blocks that the provider would answer."""


def meaning(message: str) -> Meaning | None:
    """The kind of a provider's error message; None when no pattern matches."""
    for wording, pattern in _COMPILED:
        found = pattern.search(message)
        if found is not None:
            return Meaning(wording.kind, _suggested(found.groupdict()))
    return None


def _suggested(named: dict[str, str | None]) -> int | None:
    if named.get("most"):
        return max(1, int(re.sub(r"[,._]", "", named["most"] or "")))
    for first, last, base in (("first", "last", 16), ("from", "to", 10)):
        if named.get(first):
            return max(1, int(named[last] or "", base) - int(named[first] or "", base) + 1)
    return None
