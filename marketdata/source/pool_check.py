"""Compares a pool of ``rpc.json`` with the chain: its kind, its tokens and their decimals."""

from __future__ import annotations

from typing import NamedTuple

from marketdata.errors import ProviderError
from marketdata.source.adaptive_range import MAX_BLOCKS, AdaptiveRange
from marketdata.source.evm import WORD
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import ID_SEPARATOR, NATIVE, Creation, Pool, PoolKind
from marketdata.source.provider import Provider, complete_range
from marketdata.source.rpc_file import ListedPool, Token
from marketdata.source.tokens import token_info


class Finding(NamedTuple):
    """The result of a check. ``text`` describes the pool on the chain. ``faults`` are its differences from
    ``rpc.json``. ``tokens`` are the addresses of its tokens, with their ``decimals`` on the chain. Both are complete
    if there is no fault. ``kind_is_known`` is False if the chain has no pool at this address, or not yet."""

    text: str
    faults: tuple[str, ...]
    tokens: tuple[str, ...] = ()
    decimals: tuple[int, ...] = ()
    kind_is_known: bool = True


def report(provider: Provider, pool: ListedPool, native: Token) -> Finding:
    """Do the same as :func:`compare`, but report a call that the provider refuses as a fault of the pool."""
    try:
        return compare(provider, pool, native)
    except ProviderError as error:
        if error.code != "call_refused":
            raise
        return Finding(f"{pool.symbol} {pool.address}", (error.detail,))


def compare(provider: Provider, pool: ListedPool, native: Token) -> Finding:
    """Compare the pool's contracts with ``rpc.json``. ``native`` is the chain's native currency. Raises ProviderError
    when the provider does not answer."""
    if not _is_of_kind(provider, pool, KINDS[pool.kind]):
        others = [name for name, other in KINDS.items() if _is_of_kind(provider, pool, other)]
        instead = f"it is a {others[0]} pool" if others else "there is no pool of a known kind at this address"
        faults = (f"is not a {pool.kind} pool: {instead}",)
        return Finding(f"{pool.symbol} {pool.address}", faults, kind_is_known=bool(others))
    addresses, wrong = _tokens(provider, pool)
    shown, found = [], []
    for at, address in addresses.items():
        token = native if address == NATIVE else _token(provider, address)
        if token is None:
            wrong.append(f"token{at} ({address}) does not say its decimals")
            continue
        shown.append(f"token{at} {address} {token.symbol} with {token.decimals} decimals")
        found.append(token.decimals)
        if pool.decimals is not None and token.decimals != pool.decimals[at]:
            wrong.append(f"token{at} has {token.decimals} decimals, and rpc.json says {pool.decimals[at]}")
    text = f"{pool.symbol} {pool.address} {pool.kind}: {', '.join(shown)}"
    return Finding(text, tuple(wrong), tuple(addresses.values()), tuple(found))


def require(provider: Provider, pool: ListedPool, native: Token) -> Pool:
    """The pool, with the decimals of the chain. Raises ProviderError (``no_pool``) if the chain has no pool there, and
    (``not_as_listed``) if the pool differs from ``rpc.json``: either may be wrong."""
    provider.check_chain()
    found = compare(provider, pool, native)
    if found.faults:
        about = f"{pool.symbol} ({pool.address}): {'; '.join(found.faults)}"
        if not found.kind_is_known:
            raise ProviderError(f"{provider.name} has no such pool. {about}", code="no_pool")
        raise ProviderError(f"{provider.name} contradicts rpc.json. {about}", code="not_as_listed")
    decimals = (found.decimals[0], found.decimals[1])
    tokens = (found.tokens[0], found.tokens[1])
    return Pool(pool.symbol, pool.address, pool.kind, decimals, pool.invert, pool.start_block, tokens)


def _is_of_kind(provider: Provider, pool: ListedPool, kind: PoolKind) -> bool:
    return all(
        len(provider.read_contract(pool.contract, name)) == count * WORD for name, count in kind.functions.items()
    )


def _tokens(provider: Provider, pool: ListedPool) -> tuple[dict[int, str], list[str]]:
    """The addresses of token0 and token1 by 0 and 1, and faults."""
    if KINDS[pool.kind].is_singleton:
        creation = _creation(provider, pool)
        if creation is None:
            return {}, ["no pool with this id was ever created"]
        return dict(enumerate(creation.tokens)), [creation.unreadable] if creation.unreadable else []
    tokens, faults = {}, []
    for at in range(2):
        answer = provider.read_contract(pool.contract, f"token{at}()")
        if len(answer) == WORD:
            tokens[at] = "0x" + answer[-20:].hex()
        else:
            faults.append(f"the pool does not say its token{at}")
    return tokens, faults


def _creation(provider: Provider, pool: ListedPool) -> Creation | None:
    """The event that announced the pool of a singleton. The blocks from the pool's ``start_block`` on are searched
    first, then those before it, because ``start_block`` may be later than the event."""
    decoders = KINDS[pool.kind].creations
    wanted = LogFilter({pool.contract: decoders}, [pool.address.partition(ID_SEPARATOR)[2]])
    head = provider.head(with_finalized=False)[0].number
    size = AdaptiveRange(MAX_BLOCKS)
    low = min(pool.start_block, head + 1)
    high = low - 1
    while low > 0 or high < head:  # the blocks low to high have been searched
        first, last = (high + 1, min(high + size.size, head)) if high < head else (max(0, low - size.size), low - 1)
        try:
            logs = complete_range(provider, first, last, wanted)
        except ProviderError as error:
            if not (error.may_be_too_large and size.refused(last - first + 1, error.suggested)):
                raise
            continue
        if logs:
            try:
                return decoders[logs[0].topics[0]](logs[0])
            except ValueError as error:
                raise ProviderError(f"{provider.name}: the event of the pool's creation {error}") from error
        size.answered(last - first + 1)
        low, high = min(low, first), max(high, last)
    return None


def _token(provider: Provider, address: str) -> Token | None:
    """The token; None if its contract does not say its decimals."""
    found = token_info(*provider.read_contracts([(address, "decimals()"), (address, "symbol()")]))
    return None if found.decimals is None else Token(found.symbol or "(no name)", found.decimals)
