"""Compares a pool of ``rpc.json`` with the chain: its kind, its tokens and their decimals."""

from __future__ import annotations

from typing import NamedTuple

from marketdata.errors import ProviderError, UsageError
from marketdata.source.evm import WORD
from marketdata.source.pool_kinds import KINDS, PoolKind
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import Pool


class Finding(NamedTuple):
    """The result of a check. ``text`` describes the pool on the chain. ``faults`` are its differences from
    ``rpc.json``."""

    text: str
    faults: tuple[str, ...]


def report(provider: Provider, pool: Pool) -> Finding:
    """Do the same as :func:`compare`, but report a call that the provider refuses as a fault of the pool."""
    try:
        return compare(provider, pool)
    except ProviderError as error:
        if error.code != "call_refused":
            raise
        return Finding(f"{pool.symbol} {pool.address}", (error.detail,))


def compare(provider: Provider, pool: Pool) -> Finding:
    """Compare the pool's contracts with ``rpc.json``. Raises ProviderError when the provider does not answer."""
    if not _is_of_kind(provider, pool, KINDS[pool.kind]):
        others = [name for name, other in KINDS.items() if _is_of_kind(provider, pool, other)]
        found = f"it is a {others[0]} pool" if others else "there is no pool of a known kind at this address"
        return Finding(f"{pool.symbol} {pool.address}", (f"is not a {pool.kind} pool: {found}",))
    tokens, faults = [], []
    for at, expected in enumerate(pool.decimals):
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
        if decimals != expected:
            faults.append(f"token{at} has {decimals} decimals, and rpc.json says {expected}")
    return Finding(f"{pool.symbol} {pool.address} {pool.kind}: {', '.join(tokens)}", tuple(faults))


def require(provider: Provider, pool: Pool) -> None:
    """Raise UsageError if the pool differs from ``rpc.json``. A difference is read a second time, because one answer
    may be wrong. If the two readings differ, raise ProviderError."""
    faults = _faults(provider, pool)
    if faults:
        about = f"{pool.symbol} ({pool.address}): {'; '.join(faults)}"
        if _faults(provider, pool) == faults:
            raise UsageError(f"rpc.json does not fit the chain. {about}")
        raise ProviderError(f"{provider.name} contradicts itself. {about}")


def _faults(provider: Provider, pool: Pool) -> tuple[str, ...]:
    provider.check_chain()
    return compare(provider, pool).faults


def _is_of_kind(provider: Provider, pool: Pool, kind: PoolKind) -> bool:
    return len(provider.read_contract(pool.address, kind.state_function)) == kind.state_words * WORD


def _printable(answer: bytes) -> str:
    """The text of a token's symbol without unprintable characters. ``answer`` is an ABI string, or 32 bytes from an old
    token."""
    if len(answer) >= 2 * WORD:
        length = int.from_bytes(answer[WORD : 2 * WORD], "big")
        answer = answer[2 * WORD :][: min(length, WORD)]
    return "".join(c for c in answer.decode(errors="ignore") if c.isprintable()) or "(no name)"
