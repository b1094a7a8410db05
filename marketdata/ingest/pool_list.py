"""The list of ``bin/marketdata-ingestor pools``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from marketdata.ingest.outbox import Outbox
from marketdata.source.rpc_file import Chain

_HEADINGS = ("SYMBOL", "KIND", "TOKENS", "FIRST BLOCK", "TRADES", "LAG", "ADDRESS")
_KNOWN = """
    SELECT p.chain, p.symbol, p.kind, p.address, coalesce(d.factory, ''), p.token0, p.token1,
           coalesce(d.block, p.first_block), p.trades, '',
           CASE WHEN p.next_block IS NULL AND p.joined THEN c.covered_to ELSE p.covered_to END
    FROM pools p JOIN chains c ON c.chain = p.chain
    LEFT JOIN discovered d ON d.chain = p.chain AND d.address = p.address
    WHERE ?1 IS NULL OR p.chain = ?1 ORDER BY p.symbol"""
_WAITING = """
    SELECT d.chain, '-', d.kind, d.address, d.factory, d.token0, d.token1, d.block, d.trades, d.fault, NULL
    FROM discovered d
    WHERE d.symbol IS NULL AND (?1 IS NULL OR d.chain = ?1)
    AND NOT EXISTS (SELECT 1 FROM pools p WHERE p.chain = d.chain AND p.address = d.address)
    ORDER BY d.chain, d.block, d.address"""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


class _Pool(NamedTuple):
    """A pool that the ingestor knows. ``factory`` is empty if no factory announced it. ``read_until`` is in seconds
    since 1970, or None."""

    chain: str
    symbol: str
    kind: str
    address: str
    factory: str
    token0: str
    token1: str
    block: int
    trades: int
    fault: str
    read_until: int | None


def lines(outbox: Outbox, chains: Sequence[Chain], only: str | None, now: float) -> Iterator[str]:
    """The lines of the list. ``chains`` are those of ``rpc.json``. ``only`` limits the list to a chain. ``now`` is in
    seconds since 1970."""
    names = {
        (chain, address): symbol
        for chain, address, symbol in outbox.rows("SELECT chain, address, symbol FROM tokens WHERE symbol <> ''")
    }
    by_name = {chain.name: chain for chain in chains}
    read, others = [], []
    for pool in (_Pool(*row) for statement in (_KNOWN, _WAITING) for row in outbox.rows(statement, only)):
        tokens = " / ".join(names.get((pool.chain, token), token) for token in (pool.token0, pool.token1))
        cells = (pool.symbol, pool.kind, tokens, str(pool.block), str(pool.trades))
        if reason := _reason(pool, by_name):
            others.append((*cells, "-", f"{pool.address}  not read: {reason}"))
        else:
            read.append((*cells, _age(pool.read_until, now), pool.address))
    table = [_HEADINGS, *read, *others]
    widths = [max(len(row[at]) for row in table) for at in range(len(_HEADINGS) - 1)]
    for row in table:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
    yield f"{len(read)} pools are read, {len(others)} are not"


def _reason(pool: _Pool, chains: Mapping[str, Chain]) -> str:
    """Why a pool is not read; empty if it is."""
    chain = chains.get(pool.chain)
    if chain is None:
        return "rpc.json does not name its chain"
    if any(listed.address == pool.address for listed in chain.pools):
        return ""
    factory = next((each for each in chain.factories if each.address == pool.factory), None)
    if factory is None:
        return "rpc.json does not name its factory" if pool.factory else "rpc.json does not list it"
    if reason := pool.fault or factory.rejection(pool.address, (pool.token0, pool.token1)):
        return reason
    if pool.symbol != "-":
        return ""
    if pool.trades < factory.min_trades:
        return f"it has {pool.trades} of the {factory.min_trades} swaps of min_trades"
    return "it is read from the next start of the ingestor on"


def _age(moment: int | None, now: float) -> str:
    """The time since ``moment`` in its largest unit; "-" if nothing was read."""
    if moment is None:
        return "-"
    seconds = max(0, int(now - moment))
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
