"""Compares a pool of ``rpc.json`` with the chain: its kind, its tokens and their decimals."""

from __future__ import annotations

from typing import NamedTuple

from marketdata.errors import ProviderError, UsageError
from marketdata.source.evm import WORD
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Pool, PoolKind
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import ListedPool


class Finding(NamedTuple):
    """The result of a check. ``text`` describes the pool on the chain. ``faults`` are its differences from
    ``rpc.json``. ``decimals`` are those on the chain; they are complete if there is no fault."""

    text: str
    faults: tuple[str, ...]
    decimals: tuple[int, ...] = ()


def report(provider: Provider, pool: ListedPool) -> Finding:
    """Do the same as :func:`compare`, but report a call that the provider refuses as a fault of the pool."""
    try:
        return compare(provider, pool)
    except ProviderError as error:
        if error.code != "call_refused":
            raise
        return Finding(f"{pool.symbol} {pool.address}", (error.detail,))


def compare(provider: Provider, pool: ListedPool) -> Finding:
    """Compare the pool's contracts with ``rpc.json``. Raises ProviderError when the provider does not answer."""
    if not _is_of_kind(provider, pool, KINDS[pool.kind]):
        others = [name for name, other in KINDS.items() if _is_of_kind(provider, pool, other)]
        instead = f"it is a {others[0]} pool" if others else "there is no pool of a known kind at this address"
        return Finding(f"{pool.symbol} {pool.address}", (f"is not a {pool.kind} pool: {instead}",))
    tokens, faults, found = [], [], []
    for at in range(2):
        answer = provider.read_contract(pool.address, f"token{at}()")
        if len(answer) != WORD:
            faults.append(f"the pool does not say its token{at}")
            continue
        token = "0x" + answer[-20:].hex()
        answer = provider.read_contract(token, "decimals()")
        if len(answer) != WORD:
            faults.append(f"token{at} ({token}) does not say its decimals")
            continue
        decimals = int.from_bytes(answer, "big")
        name = _printable(provider.read_contract(token, "symbol()"))
        tokens.append(f"token{at} {token} {name} with {decimals} decimals")
        found.append(decimals)
        if pool.decimals is not None and decimals != pool.decimals[at]:
            faults.append(f"token{at} has {decimals} decimals, and rpc.json says {pool.decimals[at]}")
    return Finding(f"{pool.symbol} {pool.address} {pool.kind}: {', '.join(tokens)}", tuple(faults), tuple(found))


def require(provider: Provider, pool: ListedPool) -> Pool:
    """The pool, with the decimals of the chain. Raises UsageError if it differs from ``rpc.json``. A difference is
    read a second time, because one answer may be wrong. If the two readings differ, raise ProviderError."""
    found = _checked(provider, pool)
    if found.faults:
        about = f"{pool.symbol} ({pool.address}): {'; '.join(found.faults)}"
        if _checked(provider, pool).faults == found.faults:
            raise UsageError(f"rpc.json does not fit the chain. {about}")
        raise ProviderError(f"{provider.name} contradicts itself. {about}")
    decimals = (found.decimals[0], found.decimals[1])
    return Pool(pool.symbol, pool.address, pool.kind, decimals, pool.invert, pool.start_block)


def _checked(provider: Provider, pool: ListedPool) -> Finding:
    provider.check_chain()
    return compare(provider, pool)


def _is_of_kind(provider: Provider, pool: ListedPool, kind: PoolKind) -> bool:
    return len(provider.read_contract(pool.address, kind.state_function)) == kind.state_words * WORD


def _printable(answer: bytes) -> str:
    """The text of a token's symbol without unprintable characters. ``answer`` is an ABI string, or 32 bytes from an old
    token."""
    if len(answer) >= 2 * WORD:
        length = int.from_bytes(answer[WORD : 2 * WORD], "big")
        answer = answer[2 * WORD :][: min(length, WORD)]
    return "".join(c for c in answer.decode(errors="ignore") if c.isprintable()) or "(no name)"
