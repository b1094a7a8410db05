"""Symbols, what of them has been indexed, and the leases of those who index."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from marketdata.api.http import Reply, Request, answer
from marketdata.api.request_validation import instant, json_body
from marketdata.errors import InvalidValue, NotFound
from marketdata.store import coverage, leases, symbols
from marketdata.store.coverage import Range


def list_symbols(request: Request) -> Reply:
    """Every symbol that has a tick, with its aliases and the times of the first and the last one (milliseconds)."""
    services = request.services
    with services.reads.connection() as connection:
        found = symbols.list_all(connection, services.served.version())
    return answer({"symbols": [asdict(each) for each in found]})


def show_coverage(request: Request) -> Reply:
    """Ranges in order (milliseconds, `to` exclusive). What lies in none was not indexed yet; `no_trades`: UTC days, or
    parts of days at the ends of an indexed range, without a tick."""
    services = request.services
    asked = request.query["symbol"]
    with services.reads.connection() as connection:
        symbol, ranges = coverage.ranges(connection, services.served.version(), asked)
        known = ranges or symbols.is_known(connection, services.served.version(), asked)
    if not known:
        raise NotFound(f"there is no symbol {asked}; /v1/symbols lists those that there are", code="unknown_symbol")
    return answer({"symbol": symbol, "ranges": [_shown(each) for each in ranges]})


def record_coverage(request: Request) -> Reply:
    """Note that a range was indexed, or that indexing it failed; what was noted of those times before is replaced."""
    body = json_body(request.environ, "CoverageRequest")
    start, end = instant(body["from"]), instant(body["to"])
    if end <= start:
        raise InvalidValue.of("/to", "must lie after from")
    services = request.services
    noted = Range(start, end, body["state"])
    with services.pool.connection() as connection:
        coverage.record(connection, services.served.version(), body["symbol"], noted)
    return answer({"symbol": body["symbol"], **_shown(noted)})


def take_lease(request: Request) -> Reply:
    """Take a lease or hold on to it for `ttl_s` seconds more. Its fencing number grows with every new holder."""
    body = json_body(request.environ, "LeaseRequest")
    with request.services.pool.connection() as connection:
        granted = leases.take(connection, request.path["name"], body["holder"], float(body["ttl_s"]))
    return answer({**asdict(granted), "expires_at": granted.expires_at.isoformat()})


def release_lease(request: Request) -> Reply:
    """Give a lease back; `released` is false when there was none in force."""
    body = json_body(request.environ, "LeaseRelease")
    name = request.path["name"]
    with request.services.pool.connection() as connection:
        released = leases.release(connection, name, body["holder"])
    return answer({"name": name, "released": released})


def _shown(each: Range) -> dict[str, Any]:
    return {"from": each.start // 1000, "to": each.end // 1000, "state": each.state}
