"""``GET /v1/chart``: candles. The text comes from PostgreSQL and is passed through as it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from marketdata.api.http import CSV, JSON, Reply, Request
from marketdata.api.request_validation import instant, query_of
from marketdata.api.response_cache import Answer
from marketdata.api.revalidation import matches, weak_tag
from marketdata.errors import InvalidValue
from marketdata.interval import RESOLUTIONS, time_zone_shift
from marketdata.store import candles
from marketdata.store.version import Version

QUERY = "ChartQuery"
_MEDIA_TYPES = {"csv": CSV}


def chart(request: Request) -> Reply:
    """The candles with startTime <= t <= endTime, each over its whole bucket: the first ones from `startTime` on, and
    without it the newest. The next page starts after the last `t`."""
    text = request.environ.get("QUERY_STRING", "")
    asked = _asked(text)
    services = request.services
    version = services.served.version()
    key = f"{version.candles_function}?{text}"
    media_type = _MEDIA_TYPES.get(asked["format"], JSON)
    known = services.response_cache.get(key)
    wanted = request.environ.get("HTTP_IF_NONE_MATCH")
    if known is not None or wanted is not None:
        counter = services.counters.get((version, asked["symbol"]))
        if counter is not None:
            state = candles.State.of(counter, asked["interval"], asked["shift"])
            tag = _tag(version, state)
            if wanted is not None and matches(wanted, tag):
                return Reply(b"", 304, headers=(("ETag", tag),))
            if known is not None and known.tag == tag:
                return Reply(known.body(state.as_of), 200, media_type, (("ETag", tag),))
    with services.reads.connection() as connection:
        found = candles.read(connection, version, **asked)
    state = found.state
    answer = Answer(_tag(version, state), found.head, found.tells_time)
    services.response_cache.put(key, answer)
    return Reply(answer.body(state.as_of), 200, media_type, (("ETag", answer.tag),))


def _tag(version: Version, state: candles.State) -> str:
    """With the symbol itself: the name that was asked for may be an alias, which can be pointed elsewhere."""
    return weak_tag(version.candles_function, state.symbol, state.origin, state.counter, state.clock)


@lru_cache(maxsize=2048)
def _asked(text: str) -> Mapping[str, Any]:
    """The query as the store's words for it."""
    query = query_of(text, QUERY)
    return {
        "symbol": query["symbol"],
        "interval": query.get("interval") or RESOLUTIONS[query["resolution"]],
        **bounds(query),
        "limit": query["limit"],
        "sort": query["sort"],
        "fill": query["fill"],
        "shift": time_zone_shift(query["timeZone"]),
        "current": query["current"],
        "format": query["format"],
    }


def bounds(query: Mapping[str, Any]) -> dict[str, int | None]:
    """``start`` and ``end`` in microseconds of a query with startTime and endTime."""
    start, end = (None if query.get(name) is None else instant(query[name]) for name in ("startTime", "endTime"))
    if start is not None and end is not None and end < start:
        raise InvalidValue.of("/endTime", "lies before startTime")
    return {"start": start, "end": end}
