"""``GET /v1/summary``: the last 24 hours of named symbols, or of the first ones in an order."""

from __future__ import annotations

import hashlib
from functools import partial

from marketdata.api.routing import Request
from marketdata.errors import InvalidValue
from marketdata.http.reply import JSON, Reply
from marketdata.http.revalidation import tagged, weak_tag
from marketdata.limits import DEFAULT_SUMMARIES
from marketdata.store import summary
from marketdata.store.pool import Connection
from marketdata.store.summary import Summary
from marketdata.store.symbols import unknown_symbol
from marketdata.store.version import Version


def read(request: Request) -> Reply:
    """The last 24 hours of up to 200 symbols, up to `as_of`. The ETag stays the same while the items stay the same,
    although `as_of` is always new."""
    services, query = request.services, request.query
    version, read = services.served.version(), services.current_reads.read_each
    addition: summary.Addition | None = "closes" if "closes" in query else None
    if "symbol" in query:
        if "limit" in query:
            raise InvalidValue.of("/limit", "has no meaning without sort")
        names = query["symbol"].split(",")
        named = partial(summary.named, addition=addition)
        found = summary.merged_named(read(version, names, request.known_counter, named), names)
        for name in names:
            if name not in found.names:
                raise unknown_symbol(name)
    else:
        limit = query.get("limit", DEFAULT_SUMMARIES)

        def first(connection: Connection, of: Version, _all: None) -> Summary:
            return summary.sorted_by(connection, of, query["sort"], limit, addition=addition)

        found = summary.merged_sorted(read(version, None, request.known_counter, first), limit)
    items = b",".join(found.items.values())
    tag = weak_tag(hashlib.sha256(items).hexdigest()[:32])
    return tagged(Reply(b'{"items":[%b],"as_of":%d}' % (items, found.as_of), media_type=JSON), tag)
