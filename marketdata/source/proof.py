"""What proves that a block has no other wanted logs than those that were read; pure.

The bloom filter in a block's header names the addresses and topics of all its logs. So a lost log is found, unless
others of the block set the same bits. The receipts of a block have all logs, and prove themselves: each has a bloom
filter of its own, together these make that of the block, and the positions of the logs have no gap. Only the last log
of a block may be missing unseen, if others of its transaction have the same address and topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marketdata.errors import ProviderError
from marketdata.source.evm import Header, Log, Receipt, bloom_of
from marketdata.source.log_filter import LogFilter


class RangeContradicted(ProviderError):
    """Of a range of blocks, the provider left out events that the bloom filter of a block names."""

    code = "range_contradicted"


class BlockLogs(NamedTuple):
    """The wanted logs of a block, as far as they are known. ``unseen`` are the addresses of which logs are missing,
    because every answer contradicts the block's bloom filter."""

    logs: list[Log]
    unseen: frozenset[str] = frozenset()


def of_receipts(header: Header, receipts: Sequence[Receipt], wanted: LogFilter) -> list[Log]:
    """The wanted logs of a block, with its time. Raises ValueError if the receipts lack a log."""
    named, logs = 0, [log for receipt in receipts for log in receipt.logs]
    if any(receipt.block_hash != header.hash for receipt in receipts):
        raise ValueError("are of another block")
    for receipt in receipts:
        named |= receipt.bloom
        # The filter of a transaction has few bits, so it hardly ever names what is not there.
        if wanted.unseen(receipt.bloom, receipt.logs) and receipt.bloom & ~bloom_of(receipt.logs):
            raise ValueError("lack logs that their own bloom filter names")
    if header.bloom & ~named:
        raise ValueError("lack logs that the block's bloom filter names")
    if sorted(log.position for log in logs) != [*range(len(logs))]:
        raise ValueError("lack logs: their positions have gaps")
    return [log._replace(time=header.time) for log in logs if wanted.selects(log)]
