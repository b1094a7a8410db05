"""Reads the candles or ticks of a range and makes the messages that push them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from marketdata.api.live.feed import Feed, Span
from marketdata.api.live.frames import text_frame
from marketdata.http.reply import encode
from marketdata.interval import SECOND, bucket_end
from marketdata.store import candles, ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import microseconds

ROWS = 500
"""At most so many candles or ticks of a range are pushed, the newest; also the size of a page of ``since``."""

Frames = dict[int | str, bytes]
"""Messages by the opening time of their candle (microseconds), or by the id of their tick."""


@dataclass(slots=True)
class Reading:
    """``is_partial``: the range has more than was read, or may have lost candles or ticks that are not named."""

    frames: Frames = field(default_factory=dict)
    is_partial: bool = False


def changed(connection: Connection, version: Version, feed: Feed, spans: list[Span]) -> Reading:
    """What the feed's subscribers have to receive after these ranges changed."""
    reading = Reading()
    for span in spans:
        read = _changed_ticks if feed.is_of_ticks else _changed_candles
        read(connection, version, feed, span, reading)
    return reading


def _changed_candles(connection: Connection, version: Version, feed: Feed, span: Span, reading: Reading) -> None:
    _, interval, shift = feed.key
    opened, buckets = span.first, [span.first]
    while len(buckets) <= ROWS and (opened := bucket_end(opened, interval, shift)) <= span.last:
        buckets.append(opened)
    is_wide = len(buckets) > ROWS
    chart = candles.read(
        connection, version, feed.key.symbol, interval,
        start=None if is_wide else span.first, end=span.last, limit=ROWS, shift=shift,
    )  # fmt: skip
    rows = {t: row for t, row in map(_with_time, chart.rows) if t >= span.first}
    if is_wide:
        reading.is_partial |= span.is_removal or len(rows) == ROWS
    elif span.is_removal:
        rows |= {t: b'{"t":%d,"n":0}' % (t // 1000) for t in buckets if t not in rows}
    reading.frames |= {t: _candle(feed, row) for t, row in sorted(rows.items())}


def _changed_ticks(connection: Connection, version: Version, feed: Feed, span: Span, reading: Reading) -> None:
    """Ticks of the range that were not sent before, and those that were and are gone.

    Of a range with more than ``ROWS`` ticks only the newest are read, and only those newer than the oldest one of them
    are known to be gone: it may share its time with ticks that were not read.
    """
    symbol = feed.key.symbol
    page = ticks.read(connection, version, symbol, start=span.first, end=span.last, limit=ROWS, format="ndjson")
    is_cut = page.next_cursor is not None
    if is_cut:
        page = ticks.read(connection, version, symbol, end=span.last, limit=ROWS, format="ndjson")
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
            feed.forget(identity)
            message = {"type": "tick", "symbol": symbol, "id": identity, "retracted": True}
            reading.frames[identity] = text_frame(encode(message))
    feed.pushed |= stored.keys()
    feed.learn(stored)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of what ``since`` asks for; ``following`` is where the next one starts (see :func:`page`), None at the
    end."""

    frames: Frames
    following: int | str | None


def page(connection: Connection, version: Version, feed: Feed, start: int, cursor: int | str | None) -> Page:
    """The candles or ticks from ``start`` (microseconds), or from the last page's ``following``."""
    symbol, interval, shift = feed.key
    if feed.is_of_ticks:
        given = cursor if isinstance(cursor, str) else None
        found = ticks.read(connection, version, symbol, start=start, limit=ROWS, cursor=given, format="ndjson")
        frames, times = {}, {}
        for line in found.body.splitlines():
            tick = json.loads(line)
            frames[tick["id"]], times[tick["id"]] = text_frame(_tick(line)), microseconds(tick["ts"])
        feed.learn(times)
        if found.next_cursor is None:
            feed.learned_since(start)
        return Page(frames, found.next_cursor)
    first = cursor if isinstance(cursor, int) else start
    chart = candles.read(connection, version, symbol, interval, start=first, limit=ROWS, shift=shift)
    rows = dict(map(_with_time, chart.rows))
    return Page({t: _candle(feed, row) for t, row in rows.items()}, max(rows) + 1 if chart.more else None)


def _with_time(row: bytes) -> tuple[int, bytes]:
    return int(row[len(b'{"t":') : row.index(b",")]) * (SECOND // 1000), row


def _candle(feed: Feed, row: bytes) -> bytes:
    return text_frame(b'%b,"candle":%b}' % (feed.message("candle")[:-1], row))


def _tick(line: bytes) -> bytes:
    return b'{"type":"tick",' + line[1:]
