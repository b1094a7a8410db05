"""``GET /v1/ticks``: pages of ticks by keyset, or a whole range as a stream of lines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from marketdata.api.chart import bounds
from marketdata.api.http import CSV, JSON, NDJSON, Reply, Request
from marketdata.api.revalidation import weak_tag
from marketdata.errors import InvalidValue, Saturated
from marketdata.store import ticks

LIMIT = 500

STREAMS_AT_ONCE = 3
"""A stream keeps a worker and a connection for as long as its client reads."""

MEDIA_TYPES = {"object": JSON, "csv": CSV, "ndjson": NDJSON}
CURSOR = "X-Next-Cursor"
CURSOR_SAYS = "With a page as csv or ndjson: the `cursor` of the next page; none with the last one, nor with a stream."

_streams = threading.BoundedSemaphore(STREAMS_AT_ONCE)


def read(request: Request) -> Reply:
    """Ticks with startTime <= ts <= endTime: the first ones from `startTime` on, and without it the newest. Pages
    follow one another by `cursor`, also while ticks arrive. `csv` and `ndjson` stream the whole range unless a `limit`
    makes pages of it, whose cursor is then in the header X-Next-Cursor."""
    query = request.query
    asked: dict[str, Any] = {**bounds(query), "sort": query["sort"], "format": query["format"]}
    if query["format"] != "object" and "limit" not in query:
        if "cursor" in query:
            raise InvalidValue.of("/cursor", "goes with a limit")
        return Reply(_Stream(request, asked), media_type=MEDIA_TYPES[query["format"]])
    services = request.services
    version = services.served.version()
    with services.reads.connection() as connection:
        page = ticks.read(
            connection, version, query["symbol"], limit=query.get("limit", LIMIT), cursor=query.get("cursor"), **asked
        )
    headers = [("ETag", weak_tag(page.symbol, page.origin, page.counter))]
    if query["format"] != "object" and page.next_cursor is not None:
        headers.append((CURSOR, page.next_cursor))
    return Reply(page.body, media_type=MEDIA_TYPES[query["format"]], headers=tuple(headers))


class _Stream:
    """The lines of a range. It has a connection from its making on until it is closed, as WSGI promises."""

    def __init__(self, request: Request, asked: dict[str, Any]) -> None:
        services = request.services
        with ExitStack() as stack:
            stack.enter_context(_one_more())
            connection = stack.enter_context(services.reads.connection())
            self._blocks = ticks.stream(connection, services.served.version(), request.query["symbol"], **asked)
            self._kept = stack.pop_all()

    def __iter__(self) -> Iterator[bytes]:
        return self._blocks

    def close(self) -> None:
        """Give the connection back; again is no error."""
        self._kept.close()


@contextmanager
def _one_more() -> Iterator[None]:
    if not _streams.acquire(blocking=False):
        raise Saturated(f"{STREAMS_AT_ONCE} streams are running; ask again later, or for pages with a limit")
    try:
        yield
    finally:
        _streams.release()
