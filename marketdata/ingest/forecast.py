"""Measures what an endpoint of a provider allows, and forecasts what the backfill of the last year costs there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from marketdata.errors import ProviderError
from marketdata.ingest.span_size import MAX_HANDED_OUT, SPAN_TICKS, THREADS, SpanSize
from marketdata.source.adaptive_range import MAX_BLOCKS
from marketdata.source.log_filter import LogFilter
from marketdata.source.provider import SAMPLE, RpcProvider

_YEAR_S = 365 * 86_400
_FIRST_BLOCKS = 2_000
_READINGS = 10
"""The number of ranges that are read, spread over the period."""
_RANGE_CALLS = 4
"""The calls of the first request of a range: the logs, the chain, and both ends."""
_POOL_CALLS = 9
"""The calls that the check of a pool needs, approximately."""
_STORED_PER_S = 5_000
"""Swaps that are decoded and stored in a second, on a machine of two cores."""
_MAX_SPANS = 20_000
"""The largest number of ranges that are computed one by one. A longer backfill is extrapolated."""


class Period(NamedTuple):
    """Final blocks, and the time from the first one to the last one in seconds."""

    first: int
    last: int
    seconds: int

    @property
    def blocks(self) -> int:
        return self.last - self.first + 1

    @property
    def is_year(self) -> bool:
        return self.seconds == _YEAR_S


@dataclass
class Measured:
    """What an endpoint allows, how fast it answers, and what the blocks contain."""

    largest: int = 0
    """The largest range that it answered."""
    refused: int | None = None
    """The smallest range that it refused."""
    suggested: int | None = None
    """The range that it named in a refusal."""
    batch: int = 1
    """Calls in one request."""
    names_times: bool = True
    """Whether its logs name the time of their block."""
    blocks: int = 0
    swaps: int = 0
    traded: int = 0
    """The number of blocks that were read, of their swaps, and of those with swaps."""
    request_s: float = 0.0
    swap_s: float = 0.0
    """The time of an answer: of every request, and for each swap in it."""

    @property
    def next_size(self) -> int:
        """The number of blocks to ask for next: twice as many until a range is refused, then halfway between. It is at
        most the number that the backfill would ask for."""
        if self.suggested is not None:
            size = self.suggested
        elif self.refused is not None:
            size = (self.largest + self.refused) // 2 if self.largest else self.refused // 4
        else:
            size = min(MAX_BLOCKS, max(_FIRST_BLOCKS, 2 * self.largest))
        return max(1, min(size, 2 * SPAN_TICKS * self.blocks // self.swaps) if self.swaps else size)


class Forecast(NamedTuple):
    """``calls`` are counted as by ``requests_per_s``. ``limit`` names what
    determines ``seconds``."""

    calls: int
    seconds: float
    limit: str


def year(endpoint: RpcProvider, start_block: int, last: int) -> Period:
    """The blocks from ``start_block`` to ``last``, without those that are more than a year older than ``last``."""
    step = max(1, (last - start_block) // max(1, endpoint.rpc.batch_size - 1))
    headers = endpoint.headers(sorted({*range(start_block, last, step), last}))
    begin = headers[-1].time - _YEAR_S
    for before, after in pairwise(headers):
        if before.time < begin <= after.time:
            share = (begin - before.time) / (after.time - before.time)
            return Period(before.number + round(share * (after.number - before.number)), last, _YEAR_S)
    return Period(start_block, last, headers[-1].time - headers[0].time)


def measure(endpoint: RpcProvider, wanted: LogFilter, period: Period) -> Measured:
    """Read some ranges of the period. Raises ProviderError if the endpoint does not answer, or refuses even one
    block."""
    rpc, found = endpoint.rpc, Measured()
    began = rpc.answering_s
    for _ in range(2):
        endpoint.check_chain()
    found.request_s = (rpc.answering_s - began) / 2
    began, requests = rpc.answering_s, rpc.requests
    for place in range(_READINGS):
        asked = min(found.next_size, period.blocks)
        _read(endpoint, wanted, period.first + (period.blocks - asked) * place // (_READINGS - 1), asked, found)
        if found.largest == period.blocks:
            break
    if not found.blocks:
        raise ProviderError(f"{endpoint.name}: it refuses ranges of {found.refused} blocks")
    found.batch = rpc.batch_size
    for_swaps = rpc.answering_s - began - (rpc.requests - requests) * found.request_s
    found.swap_s = max(0.0, for_swaps) / max(1, found.swaps)
    return found


def _read(endpoint: RpcProvider, wanted: LogFilter, first: int, asked: int, found: Measured) -> None:
    try:
        logs = endpoint.unchecked_logs(first, first + asked - 1, wanted)
    except ProviderError as error:
        if asked == 1 or not error.may_be_too_large:
            raise
        found.refused = asked
        found.suggested = error.suggested
        if found.largest >= asked:  # the blocks here have more events
            found.largest = 0
        return
    found.largest = max(found.largest, asked)
    found.blocks += asked
    found.swaps += len(logs)
    found.traded += len({log.block_number for log in logs})
    found.names_times &= all(log.time for log in logs)


def forecast(measured: Measured, blocks: int, pools: int, per_second: float) -> Forecast:
    """What the backfill of ``blocks`` blocks costs, if they are like those that were read."""
    spans, refusals = _spans(blocks, measured)
    traded = blocks * measured.traded / measured.blocks
    headers = min(traded, spans * SAMPLE) if measured.names_times else traded
    calls = (spans + refusals) * _RANGE_CALLS + headers + pools * _POOL_CALLS
    requests = spans * ceil(_RANGE_CALLS / measured.batch) + max(min(spans, traded), headers / measured.batch)
    swaps = blocks * measured.swaps / measured.blocks
    seconds, limit = max(
        (calls / per_second, f"requests_per_s {per_second:g}"),
        ((requests * measured.request_s + swaps * measured.swap_s) / THREADS, "the time of the answers"),
        (swaps / _STORED_PER_S, f"storing, at {_STORED_PER_S} swaps per second"),
    )
    return Forecast(round(calls), seconds, limit)


def _spans(blocks: int, measured: Measured) -> tuple[int, int]:
    """How many ranges the backfill reads, and how many requests for ranges are refused. A range keeps the size that was
    current when it was handed out."""
    size, largest = SpanSize(blocks), measured.largest if measured.refused else MAX_BLOCKS
    left, waiting = blocks, deque[int]()
    spans = refusals = 0
    while (left or waiting) and spans < _MAX_SPANS:
        while left and len(waiting) < MAX_HANDED_OUT:
            waiting.append(min(left, size.blocks))
            left -= waiting[-1]
        asked = waiting.popleft()
        if asked > largest:
            refusals += 1
            left += asked
            size.refused(asked, measured.suggested)
        else:
            spans += 1
            size.answered(asked, round(asked * measured.swaps / measured.blocks))
    rest = (left + sum(waiting)) / blocks
    return round(spans / (1 - rest)), round(refusals / (1 - rest))
