"""``POST /v1/ingest/tick``: one tick, or a batch of items as JSON, NDJSON or CSV.

For speed, :mod:`marketdata.tick` checks the items instead of the schema ``Ingest``. A test asserts that both accept the
same values. Prices and sizes are passed to PostgreSQL as text, without superfluous zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from marketdata.api.content_coding import whole
from marketdata.api.current_reads import VERSION
from marketdata.api.ingest_csv import stored_blocks
from marketdata.api.request_validation import decoded, media_type
from marketdata.api.routing import Request
from marketdata.api.tick_writer import Stored
from marketdata.errors import PRUNED_UNTIL, Conflict, InvalidValue, MalformedJson, MarketError, Pruned, TooLarge
from marketdata.http.reply import CSV_TYPE, JSON, NDJSON, Headers, Reply, answer
from marketdata.limits import MAX_BODY_BYTES, MAX_ITEMS, MAX_REJECTED_LINES
from marketdata.store import symbols
from marketdata.store.ticks import REFUSALS, Outcome
from marketdata.tick import Item, parse_item, parse_tick

Rejected = dict[str, Any]


def ingest(request: Request) -> Reply:
    """Store one tick (201, or 200 if the identical tick is already stored), or a batch. The valid items of a batch are
    stored, the others are listed in the response. When the response arrives, the ticks and their candles are
    durable. CSV has ticks only, one a line; its first line names the columns: symbol, id, ts, price and size, and
    where needed seq, side, block_number, block_hash and tx, in any order. Every body may be packed with gzip."""
    kind = media_type(request.environ, (JSON, NDJSON, CSV_TYPE), accepts_gzip=True)
    if kind == CSV_TYPE:
        return _csv(request)
    raw = whole(request.environ, MAX_BODY_BYTES)
    if kind == NDJSON:
        return _batch(request, _lines(raw), _line_item)
    value = decoded(raw, for_ingest=True)
    if isinstance(value, dict) and "ticks" in value:
        return _batch(request, _items(value), parse_item)
    return _single(request, value)


def _single(request: Request, value: Any) -> Reply:
    tick = parse_tick(value)
    stored = request.services.tick_writer.store((tick,))
    outcome = stored.outcomes[0]
    if outcome in REFUSALS:
        code, detail = REFUSALS[outcome]
        raise _pruned(request, tick.symbol) if outcome == Outcome.PRUNED else Conflict(detail, code=code)
    status = 201 if outcome == Outcome.CREATED else 200
    return answer({"id": tick.id, "status": outcome}, status, _version(stored))


def _pruned(request: Request, name: str) -> Pruned:
    """The refusal of a single tick, with the symbol's line."""
    services = request.services
    with services.pool.connection() as connection:
        line = symbols.pruned_until(connection, services.served.version(), name)
    return Pruned(REFUSALS[Outcome.PRUNED][1], extra={PRUNED_UNTIL: line})


def _batch(request: Request, values: Iterable[tuple[int, Any]], parse: Callable[[Any], Item]) -> Reply:
    """Store the valid items. ``values`` are pairs of an index and an item; the response names an item by its index."""
    items: list[Item] = []
    accepted_indexes: list[int] = []
    rejected: list[Rejected] = []
    for index, value in values:
        try:
            items.append(parse(value))
        except (InvalidValue, MalformedJson) as error:
            rejected.append(_invalid(index, error))
        else:
            accepted_indexes.append(index)
    stored = request.services.tick_writer.store(items) if items else Stored((), 0)
    outcomes = stored.outcomes
    if rejected:
        request.services.metrics.ingested("invalid", len(rejected))
    duplicates = outcomes.count(Outcome.DUPLICATE)
    refused = [
        _rejection(index, outcome)
        for index, outcome in zip(accepted_indexes, outcomes, strict=True)
        if outcome in REFUSALS
    ]
    rejected = sorted([*rejected, *refused], key=lambda each: each["index"])
    accepted = len(outcomes) - duplicates - len(refused)
    return answer({"accepted": accepted, "duplicates": duplicates, "rejected": rejected}, headers=_version(stored))


def _csv(request: Request) -> Reply:
    """Store the valid lines of CSV. The response lists the first rejected lines, and the number of all."""
    accepted = duplicates = rejected_count = counter = 0
    rejected: list[Rejected] = []
    for block, stored in stored_blocks(request):
        refused = [
            _rejection(index, outcome)
            for index, outcome in zip(block.indexes, stored.outcomes, strict=True)
            if outcome in REFUSALS
        ]
        if block.rejected:
            request.services.metrics.ingested("invalid", len(block.rejected))
        invalid = [_invalid(index, error) for index, error in block.rejected]
        duplicates += (repeated := stored.outcomes.count(Outcome.DUPLICATE))
        accepted += len(stored.outcomes) - repeated - len(refused)
        rejected_count += len(refused) + len(invalid)
        counter = max(counter, stored.counter)
        if len(rejected) < MAX_REJECTED_LINES:
            rejected += sorted([*invalid, *refused], key=lambda each: each["index"])
    result = {
        "accepted": accepted,
        "duplicates": duplicates,
        "rejected": rejected[:MAX_REJECTED_LINES],
        "rejected_count": rejected_count,
    }
    return answer(result, headers=_version(Stored((), counter)))


def _version(stored: Stored) -> Headers:
    return ((VERSION, str(stored.counter)),) if stored.counter else ()


def _invalid(index: int, error: MarketError) -> Rejected:
    return {"index": index, "code": error.code, "detail": error.detail[:500]}


def _rejection(index: int, outcome: Outcome) -> Rejected:
    code, detail = REFUSALS[outcome]
    return {"index": index, "code": code, "detail": detail}


def _items(value: dict[str, Any]) -> Iterable[tuple[int, Any]]:
    ticks = value["ticks"]
    if len(value) > 1:
        unknown = ", ".join(str(name)[:80] for name in value if name != "ticks")
        raise InvalidValue.of("", f"has the unknown field(s) {unknown} beside ticks")
    if not isinstance(ticks, list):
        raise InvalidValue.of("/ticks", "must be an array")
    _check_count(len(ticks))
    return enumerate(ticks)


def _lines(raw: bytes) -> Iterable[tuple[int, bytes]]:
    """Returns the lines that are not blank, with their numbers from 0. The numbers count blank lines, too. A line is
    blank if it has only JSON's white space."""
    lines = [(number, line) for number, line in enumerate(raw.split(b"\n")) if line.strip(b" \t\r")]
    _check_count(len(lines))
    return lines


def _check_count(count: int) -> None:
    if count > MAX_ITEMS:
        raise TooLarge(f"the batch has {count} items, at most {MAX_ITEMS} are allowed: send several batches")


def _line_item(line: bytes) -> Item:
    return parse_item(decoded(line, for_ingest=True))
