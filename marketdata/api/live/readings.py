"""Reads the changes of a feed, and its pages of ``since``, and encodes them as messages.

Nothing here changes the feed, because a read may be repeated on another node.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from marketdata.api.live.feed import Feed, Span
from marketdata.api.live.websocket import text_frame
from marketdata.errors import NotFound, Pruned
from marketdata.http.reply import encode
from marketdata.interval import SECOND, bucket_end
from marketdata.store import candles, ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import chain_of, microseconds

PAGE_ROWS = 500
"""At most this many candles or ticks of a changed range are pushed, namely the newest ones. A page of ``since`` has the
same size."""

Frames = dict[int | str, bytes]
"""Encoded messages, by the opening time of their candle (microseconds) or the id of their tick."""


@dataclass(slots=True)
class Reading:
    """The messages about changed ranges. ``is_partial`` is True if some change has no message, because a range was too
    large, a removed tick is unknown, or the ticks of a range are pruned.

    ``stored`` has the times of the ticks that were read, by id; ``gone`` has the sent ticks that were removed.
    ``is_dropped`` is True if the symbol does not exist."""

    frames: Frames = field(default_factory=dict)
    is_partial: bool = False
    stored: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    is_dropped: bool = False


def read_changes(connection: Connection, version: Version, feed: Feed, spans: list[Span]) -> Reading:
    """Read the changed ranges of a feed; return the messages for its subscribers. If the symbol was dropped, they must
    read again, and the refusal tells them."""
    reading = Reading()
    try:
        for span in spans:
            read = _changed_ticks if feed.is_of_ticks else _changed_candles
            read(connection, version, feed, span, reading)
    except NotFound:
        return Reading(is_partial=any(span.is_removal for span in spans), is_dropped=True)
    except Pruned:
        reading.is_partial = True
    return reading


def is_final(connection: Connection, version: Version, symbol: str, until: int) -> bool:
    """Whether the finality of the symbol's chain, which a notification of the coordinator announced, is on this node.
    The nodes commit a moment after the coordinator."""
    return candles.is_chain_final(connection, version, chain_of(symbol) or "", until)


def learn(feed: Feed, reading: Reading) -> None:
    """Note what a reading found."""
    if reading.is_dropped:
        feed.forget_all()
    for identity in reading.gone:
        feed.forget(identity)
    feed.pushed |= reading.stored.keys()
    feed.learn(reading.stored)


def _changed_candles(connection: Connection, version: Version, feed: Feed, span: Span, reading: Reading) -> None:
    symbol, interval, zone, open = feed.key
    opened, buckets = span.first, [span.first]
    while len(buckets) <= PAGE_ROWS and (opened := bucket_end(opened, interval, zone)) <= span.last:
        buckets.append(opened)
    is_wide = len(buckets) > PAGE_ROWS
    chart = candles.read(
        connection, version, symbol, interval,
        start=None if is_wide else span.first, end=span.last, limit=PAGE_ROWS, zone=zone, open=open,
    )  # fmt: skip
    rows = {t: row for t, row in map(_with_time, chart.rows) if t >= span.first}
    if is_wide:
        reading.is_partial |= span.is_removal or len(rows) == PAGE_ROWS
    elif span.is_removal:
        rows |= {t: b'{"t":%d,"n":0}' % (t // 1000) for t in buckets if t not in rows}
    if open == "previous":  # the next candle opens at a close that may have changed
        after = candles.read(connection, version, symbol, interval, start=span.last + 1, limit=1, zone=zone, open=open)
        rows |= dict(map(_with_time, after.rows))
    reading.frames |= {t: _candle(feed, row) for t, row in sorted(rows.items())}


def _changed_ticks(connection: Connection, version: Version, feed: Feed, span: Span, reading: Reading) -> None:
    """Adds messages for the ticks of the range that were not sent yet, and for sent ticks that were removed.

    Of a range with more than ``PAGE_ROWS`` ticks, only the newest are read. Of the ticks that have the oldest time in
    this page, some may not be in the page. So a tick that is not in the page counts as removed only if it is later than
    that time.
    """
    symbol = feed.key.symbol
    page = ticks.read(connection, version, symbol, start=span.first, end=span.last, limit=PAGE_ROWS, format="ndjson")
    is_cut = page.next_cursor is not None
    if is_cut:
        page = ticks.read(connection, version, symbol, end=span.last, limit=PAGE_ROWS, format="ndjson")
        reading.is_partial = True
    stored = {}
    for line in page.body.splitlines():
        tick = json.loads(line)
        stored[tick["id"]] = microseconds(tick["ts"])
        if tick["id"] not in feed.pushed:
            reading.frames[tick["id"]] = text_frame(_tick(line))
    if span.is_removal:
        reading.is_partial |= not feed.knows(span)
        first = min(stored.values()) + 1 if is_cut else span.first
        gone = [each for each, ts in feed.known.items() if first <= ts <= span.last and each not in stored]
        for identity in gone:
            message = {"type": "tick", "symbol": symbol, "id": identity, "retracted": True}
            reading.frames[identity] = text_frame(encode(message))
        reading.gone += gone
    reading.stored |= stored


@dataclass(frozen=True, slots=True)
class Page:
    """One page of ``since``. ``following`` is the cursor of the next page for :func:`read_page`, or None at the end.
    ``ticks`` has the times of the ticks, by id."""

    frames: Frames
    following: int | str | None
    ticks: dict[str, int] = field(default_factory=dict)


def read_page(connection: Connection, version: Version, feed: Feed, start: int, cursor: int | str | None) -> Page:
    """Reads one page of the candles or ticks from ``start`` (microseconds) on. If ``cursor`` is None, this is the first
    page. For each further page, ``cursor`` is the ``following`` of the previous page."""
    symbol, interval, zone, open = feed.key
    if feed.is_of_ticks:
        given = cursor if isinstance(cursor, str) else None
        found = ticks.read(connection, version, symbol, start=start, limit=PAGE_ROWS, cursor=given, format="ndjson")
        frames, times = {}, {}
        for line in found.body.splitlines():
            tick = json.loads(line)
            frames[tick["id"]], times[tick["id"]] = text_frame(_tick(line)), microseconds(tick["ts"])
        return Page(frames, found.next_cursor, times)
    first = cursor if isinstance(cursor, int) else start
    chart = candles.read(connection, version, symbol, interval, start=first, limit=PAGE_ROWS, zone=zone, open=open)
    rows = dict(map(_with_time, chart.rows))
    return Page({t: _candle(feed, row) for t, row in rows.items()}, max(rows) + 1 if chart.more else None)


def _with_time(row: bytes) -> tuple[int, bytes]:
    return int(row[len(b'{"t":') : row.index(b",")]) * (SECOND // 1000), row


def _candle(feed: Feed, row: bytes) -> bytes:
    return text_frame(b'%b,"candle":%b}' % (feed.message("candle")[:-1], row))


def _tick(line: bytes) -> bytes:
    return b'{"type":"tick",' + line[1:]
