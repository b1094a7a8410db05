"""``GET /v1/ticks``: returns pages of ticks with a keyset cursor, or streams a whole range as lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from marketdata.api.chart import bounds
from marketdata.api.current_reads import counter_tag
from marketdata.api.routing import Request
from marketdata.errors import InvalidValue
from marketdata.http.reply import CSV, JSON, NDJSON, Reply
from marketdata.http.revalidation import tagged
from marketdata.limits import DEFAULT_ROWS
from marketdata.store import ticks

MEDIA_TYPES = {"object": JSON, "csv": CSV, "ndjson": NDJSON}
CURSOR = "X-Next-Cursor"
CURSOR_ABOUT = "For a page as csv or ndjson: the `cursor` of the next page. Absent on the last page and on streams."


def read(request: Request) -> Reply:
    """Ticks with startTime <= ts <= endTime. The first page has the first ticks if `startTime` is given, otherwise the
    newest ticks. `cursor` requests the next page, and stays valid while ticks arrive. Without a `limit`, `csv` and
    `ndjson` stream the whole range. With a `limit`, they return pages, and the header X-Next-Cursor has the cursor."""
    query = request.query
    arguments: dict[str, Any] = {**bounds(query), "sort": query["sort"], "format": query["format"]}
    if query["format"] != "object" and "limit" not in query:
        if "cursor" in query:
            raise InvalidValue.of("/cursor", "needs a limit: a stream has no pages")
        return Reply(_Stream(request, arguments), media_type=MEDIA_TYPES[query["format"]])
    services = request.services
    version = services.served.version()
    page_of = {"limit": query.get("limit", DEFAULT_ROWS), "cursor": query.get("cursor")}
    read_page = partial(ticks.read, symbol=query["symbol"], **page_of, **arguments)
    page = services.current_reads.read(version, [query["symbol"]], request.known_counter, read_page)
    reply = Reply(page.body, media_type=MEDIA_TYPES[query["format"]])
    if query["format"] != "object" and page.next_cursor is not None:
        reply = reply.with_headers((CURSOR, page.next_cursor))
    return tagged(reply, counter_tag(page.counter, page.symbol, page.origin))


class _Stream:
    """Yields the lines of a range. It may keep a database connection until ``close``, which WSGI servers always
    call."""

    def __init__(self, request: Request, arguments: dict[str, Any]) -> None:
        reads, symbol = request.services.current_reads, request.query["symbol"]
        version = request.services.served.version()
        with ExitStack() as stack:
            stack.enter_context(request.services.streams.counted())
            read = stack.enter_context(reads.several(version, [symbol], request.known_counter))
            self._blocks = ticks.blocks(read, symbol, **arguments)
            self._resources = stack.pop_all()

    def __iter__(self) -> Iterator[bytes]:
        return self._blocks

    def close(self) -> None:
        """Return the connection to its pool; may be called repeatedly."""
        self._resources.close()
