"""Symbols, their coverage, and the leases of ingestors."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from typing import Any

from marketdata.api.request_validation import instant, json_body
from marketdata.api.routing import Request
from marketdata.errors import InvalidValue
from marketdata.http.reply import Reply, answer
from marketdata.limits import MAX_ROWS
from marketdata.store import blocks, coverage, leases, symbols
from marketdata.store.blocks import StoredBlock
from marketdata.store.coverage import Range
from marketdata.store.pool import Connection
from marketdata.store.symbols import unknown_symbol
from marketdata.store.version import Version
from marketdata.tick import INT64


def list_symbols(request: Request) -> Reply:
    """All symbols that have a tick, with their aliases and the times of their first and last tick (milliseconds)."""
    version = request.services.served.version()
    reads = request.services.current_reads
    found = symbols.merged(reads.read_each(version, None, request.known_counter, symbols.list_all))
    return answer({"symbols": [asdict(each) for each in found]})


def show_coverage(request: Request) -> Reply:
    """Ranges in order (milliseconds, `to` exclusive). Times outside of all ranges are not indexed yet. `no_trades`
    marks a UTC day without a tick. At the start or the end of an indexed range, it may mark only a part of a day."""
    version = request.services.served.version()
    name = request.query["symbol"]

    def read(connection: Connection, version: Version) -> tuple[str, list[Range]]:
        symbol, ranges = coverage.ranges(connection, version, name)
        if not ranges and not symbols.is_known(connection, version, name):
            raise unknown_symbol(name)
        return symbol, ranges

    symbol, ranges = request.services.current_reads.read(version, [name], request.known_counter, read)
    return answer({"symbol": symbol, "ranges": [_as_json(each) for each in ranges]})


def list_blocks(request: Request) -> Reply:
    """The blocks of a chain that have stored ticks and are not final, newest first. A new ingestor compares them with
    the chain. `more` says that further blocks exist; ask for those `below` the last number that was answered, plus one:
    blocks with this number may be answered again."""
    services, query = request.services, request.query
    version = services.served.version()

    def read(connection: Connection, version: Version, _names: object = None) -> list[StoredBlock]:
        return blocks.not_final(connection, version, query["chain"], query.get("below", INT64 - 1), MAX_ROWS + 1)

    if version.shards is None:
        with services.pool.connection() as connection:  # a replica may not have the newest blocks yet
            found = read(connection, version)
    else:
        parts = services.current_reads.read_each(version, None, request.known_counter, read)
        found = sorted(chain.from_iterable(parts), key=lambda each: -each.number)
    shown = [each._asdict() for each in found[:MAX_ROWS]]
    return answer({"chain": query["chain"], "blocks": shown, "more": len(found) > MAX_ROWS})


def record_coverage(request: Request) -> Reply:
    """Record that a range was indexed, or that indexing failed: of a symbol, of each of a list, or of a chain. This
    replaces earlier records of these times. The range of a chain extends the joined ranges of its symbols that end
    within it.
    A failed range of a chain removes these times from the ranges of the chain and its symbols."""
    body = json_body(request.environ, "CoverageRequest")
    start, end = instant(body["from"]), instant(body["to"])
    if end <= start:
        raise InvalidValue.of("/to", "must be after from")
    services = request.services
    version, recorded = services.served.version(), Range(start, end, body["state"])
    (named,) = {"chain", "symbol", "symbols"} & body.keys()
    if named == "chain" and body["state"] == coverage.JOINED:
        raise InvalidValue.of("/state", "must be indexed or failed for a chain; symbols join a chain")
    with services.pool.connection() as connection:
        if named == "chain":
            coverage.record_chain(connection, version, body["chain"], recorded)
        else:
            symbols_named = body["symbols"] if named == "symbols" else [body["symbol"]]
            coverage.record(connection, version, symbols_named, recorded)
    return answer({named: body[named], **_as_json(recorded)})


def take_lease(request: Request) -> Reply:
    """Take a lease, or extend it by `ttl_s` seconds. Its fencing number increases with every new holder."""
    body = json_body(request.environ, "LeaseRequest")
    with request.services.pool.connection() as connection:
        granted = leases.take(connection, request.path["name"], body["holder"], float(body["ttl_s"]))
    return answer({**asdict(granted), "expires_at": granted.expires_at.isoformat()})


def release_lease(request: Request) -> Reply:
    """Release a lease. `released` is false if nobody held it."""
    body = json_body(request.environ, "LeaseRelease")
    name = request.path["name"]
    with request.services.pool.connection() as connection:
        released = leases.release(connection, name, body["holder"])
    return answer({"name": name, "released": released})


def _as_json(each: Range) -> dict[str, Any]:
    return {"from": each.start // 1000, "to": each.end // 1000, "state": each.state}
