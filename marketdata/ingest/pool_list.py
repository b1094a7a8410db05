"""The list of ``bin/marketdata-ingestor pools``."""

from __future__ import annotations

from collections.abc import Iterator

from marketdata.ingest.outbox import Outbox

_HEADINGS = ("SYMBOL", "KIND", "TOKENS", "FIRST BLOCK", "TRADES", "LAG", "ADDRESS")
_READ = """
    SELECT p.symbol, p.kind, coalesce(t0.symbol, p.token0), coalesce(t1.symbol, p.token1),
           coalesce(d.block, p.first_block), p.trades,
           CASE WHEN p.next_block IS NULL AND p.joined THEN c.covered_to ELSE p.covered_to END, p.address
    FROM pools p JOIN chains c ON c.chain = p.chain
    LEFT JOIN discovered d ON d.chain = p.chain AND d.address = p.address
    LEFT JOIN tokens t0 ON t0.chain = p.chain AND t0.address = p.token0
    LEFT JOIN tokens t1 ON t1.chain = p.chain AND t1.address = p.token1
    WHERE ?1 IS NULL OR p.chain = ?1 ORDER BY p.symbol"""
_NOT_READ = """
    SELECT d.kind, coalesce(t0.symbol, d.token0), coalesce(t1.symbol, d.token1), d.block, d.trades, d.fault, d.address
    FROM discovered d
    LEFT JOIN tokens t0 ON t0.chain = d.chain AND t0.address = d.token0
    LEFT JOIN tokens t1 ON t1.chain = d.chain AND t1.address = d.token1
    WHERE d.symbol IS NULL AND (?1 IS NULL OR d.chain = ?1)
    AND NOT EXISTS (SELECT 1 FROM pools p WHERE p.chain = d.chain AND p.address = d.address)
    ORDER BY d.block, d.address"""
_WAITS = "excluded, or fewer swaps than min_trades"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def lines(outbox: Outbox, chain: str | None, now: float) -> Iterator[str]:
    """The lines of the list; ``chain`` limits it. ``now`` is in seconds since 1970."""
    rows = [
        (symbol, kind, f"{token0} / {token1}", str(block), str(trades), _age(read_until, now), address)
        for symbol, kind, token0, token1, block, trades, read_until, address in outbox.rows(_READ, chain)
    ]
    others = [
        ("-", kind, f"{token0} / {token1}", str(block), str(trades), "-", f"{address}  not read: {fault or _WAITS}")
        for kind, token0, token1, block, trades, fault, address in outbox.rows(_NOT_READ, chain)
    ]
    table = [_HEADINGS, *rows, *others]
    widths = [max(len(row[at]) for row in table) for at in range(len(_HEADINGS) - 1)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]])
    yield f"{len(rows)} pools are read, {len(others)} are not"


def _age(moment: int | None, now: float) -> str:
    """The time since ``moment`` in its largest unit; "-" if nothing was read."""
    if moment is None:
        return "-"
    seconds = max(0, int(now - moment))
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
