"""``POST /v1/ingest/tick``: one tick, or a batch of items as JSON or as lines of it.

The hot path. What is sent is checked by :mod:`marketdata.tick`, in a few microseconds for a good tick; the schema
``Ingest`` describes the same set of values, and tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from marketdata.api.http import JSON, NDJSON, Reply, Request, answer
from marketdata.api.request_validation import decoded, media_type, raw_body
from marketdata.api.schemas import plain
from marketdata.errors import Conflict, InvalidValue, MalformedJson, TooLarge
from marketdata.store.ticks import Outcome
from marketdata.tick import Item, parse_item, parse_tick

ITEMS_MAX = 10_000

_REFUSALS: dict[Outcome, tuple[str, str]] = {
    Outcome.CONFLICT: ("tick_conflict", "another tick with this id is stored, and ticks never change"),
    Outcome.RETRACTED: ("retracted", "its block was retracted; restore the block first if it came back"),
}

Rejected = dict[str, Any]

_AMOUNTS = frozenset(("price", "size", "ts"))


def ingest(request: Request) -> Reply:
    """Store one tick (201, or 200 for the very same one again), or a batch: its good items are stored, the others are
    named. What is acknowledged is durable, and so is every candle that it touches."""
    kind = media_type(request.environ, (JSON, NDJSON))
    raw = raw_body(request.environ)
    if kind == NDJSON:
        return _batch(request, _lines(raw), _of_line)
    value = decoded(raw)
    if isinstance(value, dict) and "ticks" in value:
        return _batch(request, _items(value), item_of)
    return _single(request, value)


def _single(request: Request, value: Any) -> Reply:
    tick = parse_tick(_in_text(value))
    outcome = request.services.ingestion.store((tick,))[0]
    if outcome in _REFUSALS:
        code, detail = _REFUSALS[outcome]
        raise Conflict(detail, code=code)
    return answer({"id": tick.id, "status": outcome}, 201 if outcome == Outcome.CREATED else 200)


def _batch(request: Request, values: Sequence[Any], parse: Callable[[Any], Item]) -> Reply:
    items: list[Item] = []
    places: list[int] = []
    rejected: list[Rejected] = []
    for index, value in enumerate(values):
        try:
            items.append(parse(value))
        except (InvalidValue, MalformedJson) as error:
            rejected.append({"index": index, "code": error.code, "detail": error.detail[:500]})
        else:
            places.append(index)
    outcomes = request.services.ingestion.store(items) if items else ()
    if rejected:
        request.services.metrics.ingested("invalid", len(rejected))
    duplicates = outcomes.count(Outcome.DUPLICATE)
    refused = [
        _rejection(index, outcome) for index, outcome in zip(places, outcomes, strict=True) if outcome in _REFUSALS
    ]
    rejected = sorted([*rejected, *refused], key=lambda each: each["index"])
    accepted = len(outcomes) - duplicates - len(refused)
    return answer({"accepted": accepted, "duplicates": duplicates, "rejected": rejected})


def _rejection(index: int, outcome: Outcome) -> Rejected:
    code, detail = _REFUSALS[outcome]
    return {"index": index, "code": code, "detail": detail}


def _items(value: dict[str, Any]) -> list[Any]:
    ticks = value["ticks"]
    if len(value) > 1:
        unknown = ", ".join(str(name)[:80] for name in value if name != "ticks")
        raise InvalidValue.of("", f"has unknown field(s) {unknown} beside ticks")
    if not isinstance(ticks, list):
        raise InvalidValue.of("/ticks", "must be an array")
    _check_count(len(ticks))
    return ticks


def _lines(raw: bytes) -> list[bytes]:
    lines = raw.split(b"\n")
    if lines and not lines[-1].strip():
        lines.pop()
    _check_count(len(lines))
    return lines


def _check_count(count: int) -> None:
    if count > ITEMS_MAX:
        raise TooLarge(f"the batch has {count} items, the most is {ITEMS_MAX}: send it in parts")


def _of_line(line: bytes) -> Item:
    return item_of(decoded(line))


def item_of(value: Any) -> Item:
    """An item as it was decoded, checked; what the schema ``IngestItem`` refuses is an InvalidValue."""
    return parse_item(_in_text(value))


def _in_text(value: Any) -> Any:
    """``value`` with the numbers that have a point or an exponent by their text, where a tick may have such."""
    if type(value) is not dict or Decimal not in map(type, value.values()):
        return value
    return {name: plain(each) if name in _AMOUNTS and type(each) is Decimal else each for name, each in value.items()}
