"""Reads what the chain says about a pool of ``rpc.json`` and compares both."""

from __future__ import annotations

from typing import NamedTuple

from marketdata.errors import ProviderError, UsageError
from marketdata.source.evm import WORD
from marketdata.source.pools import KINDS
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import Pool


class Finding(NamedTuple):
    """``faults`` is empty when the pool is what ``rpc.json`` says."""

    text: str
    faults: tuple[str, ...]


def report(node: Provider, of: Pool) -> Finding:
    """As :func:`pool`; a call that the provider refuses is a fault of this pool."""
    try:
        return pool(node, of)
    except ProviderError as error:
        if error.code != "call_refused":
            raise
        return Finding(f"{of.symbol} {of.address}", (error.detail,))


def pool(node: Provider, of: Pool) -> Finding:
    """What the chain says about the pool. ProviderError when it cannot be asked."""
    kind = KINDS[of.kind]
    if len(node.read_contract(of.address, kind.STATE)) != kind.STATE_WORDS * WORD:
        others = [
            name for name, other in KINDS.items()
            if len(node.read_contract(of.address, other.STATE)) == other.STATE_WORDS * WORD
        ]  # fmt: skip
        found = f"it is a {others[0]} pool" if others else "there is no pool of a known kind at this address"
        return Finding(f"{of.symbol} {of.address}", (f"is not a {of.kind} pool: {found}",))
    tokens, faults = [], []
    for at, expected in enumerate(of.decimals):
        answer = node.read_contract(of.address, f"token{at}()")
        if len(answer) != WORD:
            faults.append(f"the pool does not say its token{at}")
            continue
        token = "0x" + answer[-20:].hex()
        answer = node.read_contract(token, "decimals()")
        if len(answer) != WORD:
            faults.append(f"token{at} ({token}) does not say its decimals")
            continue
        decimals = int.from_bytes(answer, "big")
        tokens.append(f"token{at} {token} {_name(node.read_contract(token, 'symbol()'))} with {decimals} decimals")
        if decimals != expected:
            faults.append(f"token{at} has {decimals} decimals, and rpc.json says {expected}")
    return Finding(f"{of.symbol} {of.address} {of.kind}: {', '.join(tokens)}", tuple(faults))


def require(node: Provider, of: Pool) -> None:
    """UsageError when the pool is not what ``rpc.json`` says. The provider has to say so twice: it may be mistaken."""
    faults = _faults(node, of)
    if faults:
        about = f"{of.symbol} ({of.address}): {'; '.join(faults)}"
        if _faults(node, of) == faults:
            raise UsageError(f"rpc.json does not fit the chain. {about}")
        raise ProviderError(f"{node.name} contradicts itself. {about}")


def _faults(node: Provider, of: Pool) -> tuple[str, ...]:
    node.check_chain()
    return pool(node, of).faults


def _name(answer: bytes) -> str:
    """The symbol of a token, an ABI string or, in old tokens, 32 bytes; anything unprintable is left out."""
    if len(answer) >= 2 * WORD:
        length = int.from_bytes(answer[WORD : 2 * WORD], "big")
        answer = answer[2 * WORD :][: min(length, WORD)]
    return "".join(c for c in answer.decode(errors="ignore") if c.isprintable()) or "(no name)"
