"""``GET /v1/chart``: candles. PostgreSQL produces the text of the response, which is sent unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from marketdata.api.current_reads import counter_tag
from marketdata.api.request_validation import instant
from marketdata.api.response_cache import CachedBody
from marketdata.api.routing import Request
from marketdata.errors import InvalidValue
from marketdata.http.reply import CSV, JSON, Reply
from marketdata.http.revalidation import is_conditional, is_current, not_modified, tagged
from marketdata.interval import RESOLUTIONS
from marketdata.store import candles
from marketdata.store.time_zones import TimeZones
from marketdata.store.version import Version
from marketdata.tick import looks_like_seconds

_FINAL_IN_TAG = re.compile(r'\.([0-9]{1,18})"', re.ASCII)
_MEDIA_TYPES = {"csv": CSV}


def chart(request: Request) -> Reply:
    """Candles with startTime <= t <= endTime. Each candle covers its whole bucket. If there are more candles than
    `limit`, the response has the first ones if `startTime` is given, otherwise the newest ones. The next page after
    `startTime` starts after the last `t`."""
    services = request.services
    version, reads = services.served.version(), services.current_reads
    arguments = _store_arguments(request.query, services.time_zones)
    media_type = _MEDIA_TYPES.get(arguments["format"], JSON)
    key = (version.candles_function, *arguments.values())
    cached = services.response_cache.get(key)
    known_final = _known_final(request.environ)
    if cached is not None or is_conditional(request.environ):
        counter = services.symbol_versions.get(version, arguments["symbol"])
        if counter is not None and reads.is_current(version, counter.symbol, counter.counter, request.known_counter):
            state = candles.State.of(counter, arguments["interval"], arguments["zone"])
            tag = _tag(version, state)
            if is_current(request.environ, tag):
                return not_modified(tag)
            if cached is not None and cached.tag == tag and state.final >= known_final:
                return tagged(Reply(cached.body(state.as_of), media_type=media_type), tag)
    read = partial(candles.read, **arguments)
    found = reads.read(version, [arguments["symbol"]], request.known_counter, read, checks=True)
    if found.state.final < known_final:
        found = reads.read_primary(version, [arguments["symbol"]], read)
    fresh = CachedBody(_tag(version, found.state), found.head, found.has_as_of)
    services.response_cache.put(key, fresh)
    return tagged(Reply(fresh.body(found.state.as_of), media_type=media_type), fresh.tag)


def _tag(version: Version, state: candles.State) -> str:
    """Returns the entity tag. It contains the symbol itself, because the query may name an alias, and an alias can
    later stand for another symbol."""
    return counter_tag(state.counter, version.candles_function, state.symbol, state.origin, state.clock, state.final)


def _known_final(environ: Mapping[str, Any]) -> int:
    """Returns the greatest finality in the tags that the client sends, or 0. The counter does not tell whether a
    replica has it, because the finality of a chain changes without the counters of its symbols."""
    tags = environ.get("HTTP_IF_NONE_MATCH")
    return 0 if tags is None else max(map(int, _FINAL_IN_TAG.findall(tags)), default=0)


def _store_arguments(query: Mapping[str, Any], time_zones: TimeZones) -> dict[str, Any]:
    """Converts the checked query to arguments of :func:`marketdata.store.candles.read`."""
    return {
        "symbol": query["symbol"],
        "interval": query.get("interval") or RESOLUTIONS[query["resolution"]],
        **bounds(query),
        "limit": query["limit"],
        "sort": query["sort"],
        "fill": query["fill"],
        "zone": time_zones.find(query["timeZone"]),
        "current": query["current"],
        "format": query["format"],
        "open": query["open"],
    }


def bounds(query: Mapping[str, Any]) -> dict[str, int | None]:
    """Converts startTime and endTime of a query to ``start`` and ``end`` in microseconds."""
    start, end = (_bound(query, name) for name in ("startTime", "endTime"))
    if start is not None and end is not None and end < start:
        raise InvalidValue.of("/endTime", "is before startTime")
    return {"start": start, "end": end}


def _bound(query: Mapping[str, Any], name: str) -> int | None:
    if query.get(name) is None:
        return None
    us = instant(query[name])
    # 0 means the beginning of all ticks.
    if us and looks_like_seconds(us, query[name]):
        raise InvalidValue.of(f"/{name}", "looks like seconds; multiply by 1000")
    return us
