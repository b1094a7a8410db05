"""Compares the stored ticks of a range of final blocks with the chain, both ways, and mends what differs.

The chain is read by the receipts of blocks, which prove that they are complete. Only where no endpoint has receipts,
the bloom filters must do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from marketdata.errors import ProviderError
from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.api_writer import ApiWriter
from marketdata.source import swaps
from marketdata.source.evm import Header, Log
from marketdata.source.log_filter import LogFilter, swap_filter
from marketdata.source.pools.pool import Pool, PoolIndex
from marketdata.source.provider import Provider, proved_logs
from marketdata.tick import Tick, parse_tick

BLOCKS = 1_000
"""How many of the newest final blocks are compared by default."""
_STEP = 100
_PAGE = 10_000
_UNKNOWN = 404

Bounds = Mapping[str, tuple[int, int]]
"""The first and the last block to compare, by symbol."""


@dataclass
class Differences:
    """Ticks, sorted. ``missing`` are of the chain, ``superfluous`` are stored, and ``different`` are of the chain while
    others with their ids are stored. ``blocks`` are the symbols and block hashes of all of them, stored or not."""

    missing: list[Tick] = field(default_factory=list)
    superfluous: list[Tick] = field(default_factory=list)
    different: list[Tick] = field(default_factory=list)
    blocks: set[tuple[str, str | None]] = field(default_factory=set)

    @property
    def count(self) -> int:
        return len(self.missing) + len(self.superfluous) + len(self.different)


@dataclass
class Range:
    """What the chain has. ``times`` are those of the first and the last block of each symbol, in seconds since
    1970."""

    ticks: dict[tuple[str, str], tuple[Tick, str]]
    """The ticks of the chain, each also as JSON, by symbol and id."""
    times: dict[str, tuple[int, int]]


def read(provider: Provider, pools: Sequence[Pool], bounds: Bounds) -> Range:
    """The ticks of the chain. Raises ProviderError if it cannot be proved which they are."""
    wanted, index = swap_filter(pools), PoolIndex(pools)
    first, last = min(low for low, _ in bounds.values()), max(high for _, high in bounds.values())
    ticks: dict[tuple[str, str], tuple[Tick, str]] = {}
    times: dict[int, int] = {}
    for start in range(first, last + 1, _STEP):
        headers = provider.headers(range(start, min(start + _STEP, last + 1)))
        times |= {header.number: header.time for header in headers}
        for made in swaps.ticks(index, _logs(provider, headers, wanted), swaps.Skipped()):
            tick = parse_tick(json.loads(made.body))
            low, high = bounds[tick.symbol]
            if tick.block_number is not None and low <= tick.block_number <= high:
                ticks[tick.symbol, tick.id] = (tick, made.body)
    return Range(ticks, {symbol: (times[low], times[high]) for symbol, (low, high) in bounds.items()})


def _logs(provider: Provider, headers: Sequence[Header], wanted: LogFilter) -> Iterator[Log]:
    asked = [header for header in headers if wanted.may_be_in(header)]
    for header, logs in zip(asked, provider.receipt_logs(asked, wanted), strict=True):
        if logs is None:
            [found] = proved_logs(provider, [header], wanted)
            if found.unseen:
                raise ProviderError(
                    f"{provider.name} contradicts itself about block {header.number}", code="wrong_answer"
                )
            logs = found.logs
        yield from logs


def compare(api: ApiClient, chain: Range, bounds: Bounds) -> Differences:
    """Compare the stored ticks with those of the chain. ``api`` may read. Raises ApiUnavailable."""
    found, left = Differences(), dict(chain.ticks)
    for symbol, (low, high) in bounds.items():
        for tick in _stored(api, symbol, *chain.times[symbol]):
            expected = left.pop((symbol, tick.id), None)
            if expected is not None:
                if expected[0] == tick:
                    continue
                found.different.append(expected[0])
            elif tick.block_number is None or low <= tick.block_number <= high:
                found.superfluous.append(tick)
            else:
                continue
            found.blocks.add((symbol, tick.block_hash))
    found.missing += [tick for tick, _ in left.values()]
    found.blocks |= {(tick.symbol, tick.block_hash) for tick in (*found.missing, *found.different)}
    for ticks in (found.missing, found.superfluous, found.different):
        ticks.sort(key=lambda tick: (tick.symbol, tick.seq, tick.id))
    return found


def _stored(api: ApiClient, symbol: str, start: int, end: int) -> Iterator[Tick]:
    """The stored ticks of the times [start, end], in seconds since 1970. None if the symbol is unknown."""
    query = f"symbol={symbol}&startTime={start * 1000}&endTime={end * 1000 + 999}&limit={_PAGE}"
    cursor = ""
    while True:
        response = api.request("GET", f"/v1/ticks?{query}{cursor}")
        if response.status == _UNKNOWN:
            return
        if response.status != 200 or not isinstance(response.body, dict):
            raise ApiUnavailable(f"{api.url} named no ticks: {response.detail}", response.retry_after)
        yield from map(parse_tick, response.body["ticks"])
        if response.body["next_cursor"] is None:
            return
        cursor = f"&cursor={quote(response.body['next_cursor'])}"


def mend(writer: ApiWriter, chain: Range, found: Differences) -> None:
    """Retract the blocks that differ, and store the ticks of the chain again. A block whose ticks are missing is
    retracted, too: they may be stored with another time."""
    bodies: dict[tuple[str, str], list[str]] = {(symbol, hash): [] for symbol, hash in found.blocks if hash}
    for tick, body in chain.ticks.values():
        if (key := (tick.symbol, tick.block_hash or "")) in bodies:
            bodies[key].append(body)
    blocks = [({"symbol": symbol, "block_hash": hash}, ticks) for (symbol, hash), ticks in sorted(bodies.items())]
    # A tick may be stored under another block than its own. So all retractions come first.
    items = [json.dumps({"retract": block}) for block, _ in blocks]
    for block, ticks in blocks:
        items += [json.dumps({"restore": block}), *ticks] if ticks else []
    # Twice, because a candle is made anew when a tick of its minute goes. So candles become right, too, if ticks were
    # changed in the database, past its triggers.
    writer.ticks(items * 2)


def cover(api: ApiClient, writer: ApiWriter, chain: Range) -> None:
    """Report those times of the compared blocks as indexed that are not. What is indexed stays as it is, because the
    chain's coverage may continue it."""
    for symbol, (at, last) in chain.times.items():
        response = api.request("GET", f"/v1/coverage?symbol={symbol}")
        if response.status not in (200, _UNKNOWN):
            raise ApiUnavailable(f"{api.url} named no coverage: {response.detail}", response.retry_after)
        ranges = response.body["ranges"] if response.status == 200 else []
        for each in (each for each in ranges if each["state"] != "failed"):
            start, end = each["from"] // 1000, each["to"] // 1000
            if at < start and at <= last:
                writer.cover([symbol], at, min(start, last + 1))
            at = max(at, end)
        if at <= last:
            writer.cover([symbol], at, last + 1)


def lines(found: Differences) -> Iterator[str]:
    """The differences for a person, one tick a line."""
    yield f"missing {len(found.missing)}, superfluous {len(found.superfluous)}, different {len(found.different)}"
    for kind, ticks in _kinds(found):
        for tick in ticks:
            yield f"{kind} {tick.symbol} block {tick.block_number} {tick.id}"


def document(chain: str, first: int, last: int, found: Differences) -> dict[str, Any]:
    """The differences as one JSON document."""
    ticks = {kind: [tick._asdict() for tick in ticks] for kind, ticks in _kinds(found)}
    return {"chain": chain, "from_block": first, "to_block": last, **ticks}


def _kinds(found: Differences) -> Iterable[tuple[str, list[Tick]]]:
    return (("missing", found.missing), ("superfluous", found.superfluous), ("different", found.different))
