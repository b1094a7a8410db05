"""Reads the database for all feeds in one thread: their changes, and the pages of ``since``.

Because there is only one such thread, a later reading of a candle is never older than an earlier one.
"""

from __future__ import annotations

import heapq
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

from marketdata.api.live.feed import Feed, Key, Span
from marketdata.api.live.websocket import text_frame
from marketdata.api.served_version import ServedVersion
from marketdata.errors import DatabaseUnavailable, MarketError, NotFound, Pruned
from marketdata.http.failures import internal_error
from marketdata.http.reply import encode
from marketdata.interval import SECOND, bucket_end, bucket_open
from marketdata.store import candles, ticks
from marketdata.store.notifications import Change
from marketdata.store.pool import Connection, Pool
from marketdata.store.postgres_errors import translated
from marketdata.store.version import Version
from marketdata.tick import chain_of, microseconds

PACE_SECONDS = 0.05
"""The shortest time between two readings of a feed."""
_RETRY_SECONDS = 1.0
PAGE_ROWS = 500
"""At most this many candles or ticks of a changed range are pushed, namely the newest ones. A page of ``since`` has the
same size."""

_log = logging.getLogger(__name__)

Frames = dict[int | str, bytes]
"""Encoded messages, by the opening time of their candle (microseconds) or the id of their tick."""


@dataclass(slots=True)
class Reading:
    """The messages about changed ranges. ``is_partial`` is True if some change has no message, because a range was too
    large, a removed tick is unknown, or the ticks of a range are pruned."""

    frames: Frames = field(default_factory=dict)
    is_partial: bool = False


Job = Callable[[Connection, Version], None]
Push = Callable[[Feed, Reading], None]


class FeedReader:
    """Reads changed feeds in its own thread, and calls ``push`` there with each reading. Call ``start`` once; ``stop``
    is idempotent."""

    def __init__(self, pool: Pool, served: ServedVersion, push: Push) -> None:
        self._pool = pool
        self._served = served
        self._push = push
        self._version: Version | None = None
        self._changed = threading.Condition()
        self._feeds: dict[str, dict[Key, Feed]] = {}
        self._marked: dict[Feed, None] = {}
        self._closings: list[tuple[float, Key]] = []
        self._scheduled: set[Key] = set()
        self._jobs: deque[tuple[Job, Callable[[MarketError], None]]] = deque()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="api-live-reader", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    # -- in any thread -------------------------------------------------------------------------------------------------

    def changed(self, changes: list[Change]) -> None:
        """Mark the feeds that these changes affect."""
        if not self._feeds or not changes:
            return
        version = self._served.version()
        self._serve(version)
        with self._changed:
            for change in changes:
                if change.is_of(version.ticks_table):
                    for feed in self._affected(change):
                        feed.mark(change)
                        if feed.spans:
                            self._marked[feed] = None
            if self._marked:
                self._changed.notify()

    def _affected(self, change: Change) -> list[Feed]:
        symbols: Iterable[str] = (change.symbol,)
        if change.kind == "chain_final":
            symbols = (symbol for symbol in self._feeds if chain_of(symbol) == change.symbol)
        return [feed for symbol in symbols for feed in self._feeds.get(symbol, {}).values()]

    def resync(self) -> None:
        """Tell every subscriber that it may have missed changes."""
        with self._changed:
            feeds = [feed for feeds in self._feeds.values() for feed in feeds.values()]
        for feed in feeds:
            self._push(feed, Reading(is_partial=True))

    def _serve(self, version: Version) -> None:
        """Note the served version. If it has changed, subscribers must read again, because candles may differ."""
        earlier, self._version = self._version, version
        if earlier not in (None, version):
            self.resync()

    def submit(self, job: Job, failed: Callable[[MarketError], None]) -> None:
        """Run ``job`` in the reader's thread. If the job fails, ``failed`` is called with the error."""
        with self._changed:
            self._jobs.append((job, failed))
            self._changed.notify()

    def use(self, key: Key) -> Feed:
        """The feed of ``key``, which is created if necessary. Until ``release``, the feed gets every change that is
        committed from now on."""
        with self._changed:
            feed = self._feeds.setdefault(key.symbol, {}).setdefault(key, Feed(key))
            feed.users += 1
            if key not in self._scheduled and not feed.is_of_ticks:
                self._schedule_closing(key)
        return feed

    def release(self, feed: Feed) -> None:
        with self._changed:
            feed.users -= 1
            if not feed.users:
                self._marked.pop(feed, None)
                feeds = self._feeds[feed.key.symbol]
                del feeds[feed.key]
                if not feeds:
                    del self._feeds[feed.key.symbol]

    # -- in the reader's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                jobs, due = self._next()
                if jobs or due:
                    self._read(jobs, due)
            except Exception:
                _log.exception("internal error while reading for live connections")
                self._pause()

    def _next(self) -> tuple[list[tuple[Job, Callable[[MarketError], None]]], list[Feed]]:
        """Wait for jobs or for feeds that are due."""
        with self._changed:
            self._mark_closed()
            now = monotonic()
            due = [feed for feed in self._marked if feed.due <= now]
            if not due and not self._jobs and not self._is_stopping:
                waits = [feed.due - now for feed in self._marked]
                if self._closings:
                    waits.append(max(self._closings[0][0] - time.time(), 0.001))
                self._changed.wait(min(waits) if waits else None)
                return [], []
            for feed in due:
                del self._marked[feed]
            jobs = list(self._jobs)
            self._jobs.clear()
            return jobs, due

    def _read(self, jobs: list[tuple[Job, Callable[[MarketError], None]]], due: list[Feed]) -> None:
        try:
            version = self._served.version()
            with self._pool.connection() as connection:
                self._serve(version)
                for job, failed in jobs:
                    _call(job, connection, version, failed)
                    jobs = jobs[1:]
                while due:
                    self._try_feed(connection, version, due[0])
                    due = due[1:]
        except MarketError as error:
            _log.warning("live connections wait for the database: %s", error.detail)
            for _, failed in jobs:
                failed(error)
        finally:
            with self._changed:
                for feed in due:
                    self._mark_again(feed)

    def _try_feed(self, connection: Connection, version: Version, feed: Feed) -> None:
        """Read a feed. A failure delays only this feed, unless the database is unavailable."""
        try:
            self._read_feed(connection, version, feed)
        except DatabaseUnavailable:
            raise
        except MarketError as error:
            _log.warning("the changes of %s cannot be read: %s", feed.key, error.detail)
        except Exception:
            _log.exception("internal error while reading the changes of %s", feed.key)
        else:
            return
        with self._changed:
            self._mark_again(feed)

    def _read_feed(self, connection: Connection, version: Version, feed: Feed) -> None:
        with self._changed:
            spans = feed.take()
        try:
            with translated():
                reading = read_changes(connection, version, feed, spans)
        except Exception:
            with self._changed:
                for span in spans:
                    feed.add(span)
            raise
        feed.due = monotonic() + PACE_SECONDS
        self._push(feed, reading)

    def _mark_again(self, feed: Feed) -> None:
        if feed.users:
            feed.due = monotonic() + _RETRY_SECONDS
            self._marked[feed] = None

    def _mark_closed(self) -> None:
        """Mark the candles whose buckets have ended. Their member ``closed`` becomes true, but no notification says
        so."""
        while self._closings and self._closings[0][0] <= time.time():
            at, key = heapq.heappop(self._closings)
            self._scheduled.discard(key)
            feed = self._feeds.get(key.symbol, {}).get(key)
            if feed is not None:
                opened = bucket_open(round(at * SECOND) - 1, key.interval, key.zone)
                feed.add(Span(opened, opened, False))
                self._marked[feed] = None
                self._schedule_closing(key)

    def _schedule_closing(self, key: Key) -> None:
        opened = bucket_open(time.time_ns() // 1000, key.interval, key.zone)
        self._scheduled.add(key)
        heapq.heappush(self._closings, (bucket_end(opened, key.interval, key.zone) / SECOND, key))

    def _pause(self) -> None:
        with self._changed:
            if not self._is_stopping:
                self._changed.wait(_RETRY_SECONDS)


def _call(job: Job, connection: Connection, version: Version, failed: Callable[[MarketError], None]) -> None:
    try:
        with translated():
            job(connection, version)
    except MarketError as error:
        failed(error)
    except Exception:
        _log.exception("internal error in a request of a live connection")
        failed(internal_error())


# -- reading ----------------------------------------------------------------------------------------------------------


def read_changes(connection: Connection, version: Version, feed: Feed, spans: list[Span]) -> Reading:
    """Read the changed ranges of a feed; return the messages for its subscribers. If the symbol was dropped, they must
    read it again, and learn it there."""
    reading = Reading()
    try:
        for span in spans:
            read = _changed_ticks if feed.is_of_ticks else _changed_candles
            read(connection, version, feed, span, reading)
    except NotFound:
        feed.forget_all()
        return Reading(is_partial=any(span.is_removal for span in spans))
    except Pruned:
        reading.is_partial = True
    return reading


def _changed_candles(connection: Connection, version: Version, feed: Feed, span: Span, reading: Reading) -> None:
    _, interval, zone = feed.key
    opened, buckets = span.first, [span.first]
    while len(buckets) <= PAGE_ROWS and (opened := bucket_end(opened, interval, zone)) <= span.last:
        buckets.append(opened)
    is_wide = len(buckets) > PAGE_ROWS
    chart = candles.read(
        connection, version, feed.key.symbol, interval,
        start=None if is_wide else span.first, end=span.last, limit=PAGE_ROWS, zone=zone,
    )  # fmt: skip
    rows = {t: row for t, row in map(_with_time, chart.rows) if t >= span.first}
    if is_wide:
        reading.is_partial |= span.is_removal or len(rows) == PAGE_ROWS
    elif span.is_removal:
        rows |= {t: b'{"t":%d,"n":0}' % (t // 1000) for t in buckets if t not in rows}
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
            feed.forget(identity)
            message = {"type": "tick", "symbol": symbol, "id": identity, "retracted": True}
            reading.frames[identity] = text_frame(encode(message))
    feed.pushed |= stored.keys()
    feed.learn(stored)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of ``since``. ``following`` is the cursor of the next page for :func:`read_page`, or None at the end."""

    frames: Frames
    following: int | str | None


def read_page(connection: Connection, version: Version, feed: Feed, start: int, cursor: int | str | None) -> Page:
    """Reads one page of the candles or ticks from ``start`` (microseconds) on. If ``cursor`` is None, this is the first
    page. For each further page, ``cursor`` is the ``following`` of the previous page."""
    symbol, interval, zone = feed.key
    if feed.is_of_ticks:
        given = cursor if isinstance(cursor, str) else None
        found = ticks.read(connection, version, symbol, start=start, limit=PAGE_ROWS, cursor=given, format="ndjson")
        frames, times = {}, {}
        for line in found.body.splitlines():
            tick = json.loads(line)
            frames[tick["id"]], times[tick["id"]] = text_frame(_tick(line)), microseconds(tick["ts"])
        feed.learn(times)
        if found.next_cursor is None:
            feed.learned_since(start)
        return Page(frames, found.next_cursor)
    first = cursor if isinstance(cursor, int) else start
    chart = candles.read(connection, version, symbol, interval, start=first, limit=PAGE_ROWS, zone=zone)
    rows = dict(map(_with_time, chart.rows))
    return Page({t: _candle(feed, row) for t, row in rows.items()}, max(rows) + 1 if chart.more else None)


def _with_time(row: bytes) -> tuple[int, bytes]:
    return int(row[len(b'{"t":') : row.index(b",")]) * (SECOND // 1000), row


def _candle(feed: Feed, row: bytes) -> bytes:
    return text_frame(b'%b,"candle":%b}' % (feed.message("candle")[:-1], row))


def _tick(line: bytes) -> bytes:
    return b'{"type":"tick",' + line[1:]
