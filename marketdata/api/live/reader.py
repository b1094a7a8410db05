"""The thread that reads the database for all feeds: what changed, and what a new subscription asks for.

One thread, so that what it hands on is in the order of the database: of two readings of a candle the later is newer.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from time import monotonic

from marketdata.api.live import readings
from marketdata.api.live.feed import Feed, Key, Span
from marketdata.api.live.readings import Reading
from marketdata.api.served_version import ServedVersion
from marketdata.errors import DatabaseUnavailable, MarketError
from marketdata.http.failures import internal_error
from marketdata.interval import SECOND, bucket_end, bucket_open
from marketdata.store.notifications import Change
from marketdata.store.pool import Connection, Pool, translated
from marketdata.store.version import Version

PACE_SECONDS = 0.05
"""A feed is read at most once in this time."""
_RETRY_SECONDS = 1.0

Job = Callable[[Connection, Version], None]
Push = Callable[[Feed, Reading], None]

_log = logging.getLogger(__name__)


class Reader:
    """``start`` once, ``stop`` any number of times. ``push`` is called in this thread with what changed."""

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
        """Read what these changes mean for the feeds."""
        if not self._feeds or not changes:
            return
        version = self._served.version()
        self._serve(version)
        with self._changed:
            for change in changes:
                if change.is_of(version.ticks_table):
                    for feed in self._feeds.get(change.symbol, {}).values():
                        feed.mark(change)
                        self._marked[feed] = None
            if self._marked:
                self._changed.notify()

    def resync(self) -> None:
        """Tell every subscriber that changes may have been missed."""
        with self._changed:
            feeds = [feed for feeds in self._feeds.values() for feed in feeds.values()]
        for feed in feeds:
            self._push(feed, Reading(is_partial=True))

    def _serve(self, version: Version) -> None:
        """Candles of another version may differ."""
        earlier, self._version = self._version, version
        if earlier not in (None, version):
            self.resync()

    def submit(self, job: Job, failed: Callable[[MarketError], None]) -> None:
        """Call ``job`` in this thread; ``failed`` if it raises."""
        with self._changed:
            self._jobs.append((job, failed))
            self._changed.notify()

    def use(self, key: Key) -> Feed:
        """The feed of ``key``, marked by every change that is committed from now on, until ``release``."""
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
        """Read a feed. One that cannot be read is tried again later; the others wait only for a lost database."""
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
                reading = readings.changed(connection, version, feed, spans)
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
        """Mark the candles whose buckets have ended: ``closed`` changes by time alone."""
        while self._closings and self._closings[0][0] <= time.time():
            at, key = heapq.heappop(self._closings)
            self._scheduled.discard(key)
            feed = self._feeds.get(key.symbol, {}).get(key)
            if feed is not None:
                opened = bucket_open(round(at * SECOND) - 1, key.interval, key.shift)
                feed.add(Span(opened, opened, False))
                self._marked[feed] = None
                self._schedule_closing(key)

    def _schedule_closing(self, key: Key) -> None:
        opened = bucket_open(time.time_ns() // 1000, key.interval, key.shift)
        self._scheduled.add(key)
        heapq.heappush(self._closings, (bucket_end(opened, key.interval, key.shift) / SECOND, key))

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
