"""Reads the database for all feeds in one thread: their changes, and the pages of ``since``.

Because there is only one such thread, a later reading of a candle is never older than an earlier one.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from time import monotonic

from marketdata.api.live.feed import Feed, Key, Span
from marketdata.api.live.readings import Reading, is_final, learn, read_changes
from marketdata.api.live.reads import Reads
from marketdata.api.served_version import ServedVersion
from marketdata.errors import DatabaseUnavailable, MarketError
from marketdata.http.failures import internal_error
from marketdata.interval import SECOND, bucket_end, bucket_open
from marketdata.store.notifications import Change
from marketdata.store.placement import Placement
from marketdata.store.pool import Connection, Pool
from marketdata.store.postgres_errors import translated
from marketdata.store.version import Version
from marketdata.tick import chain_of

PACE_SECONDS = 0.05
"""The shortest time between two readings of a feed."""
_RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)

Job = Callable[[Reads], None]
Push = Callable[[Feed, Reading], None]


class FeedReader:
    """Reads changed feeds in its own thread, and calls ``push`` there with each reading. Call ``start`` once; ``stop``
    is idempotent."""

    def __init__(self, pool: Pool, placement: Placement, served: ServedVersion, push: Push) -> None:
        self._pool = pool
        self._placement = placement
        self._served = served
        self._push = push
        self._version: Version | None = None
        self._changed = threading.Condition()
        self._feeds: dict[str, dict[Key, Feed]] = {}
        self._marked: dict[Feed, None] = {}
        self._closings: list[tuple[float, int, Key]] = []
        """Times at which buckets end. The number orders equal times, because keys have no order."""
        self._numbers = count()
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
                        if change.kind == "chain_final" and version.shards is not None:
                            feed.final_until = max(change.last, feed.final_until)
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
                reads = Reads(connection, version, self._placement)
                for job, failed in jobs:
                    _call(job, reads, failed)
                    jobs = jobs[1:]
                while due:
                    self._try_feed(reads, due[0])
                    due = due[1:]
        except MarketError as error:
            _log.warning("live connections wait for the database: %s", error.detail)
            for _, failed in jobs:
                failed(error)
        finally:
            with self._changed:
                for feed in due:
                    self._mark_again(feed)

    def _try_feed(self, reads: Reads, feed: Feed) -> None:
        """Read a feed. A failure delays only this feed, unless the only database is unavailable."""
        try:
            self._read_feed(reads, feed)
        except MarketError as error:
            if isinstance(error, DatabaseUnavailable) and not reads.is_distributed:
                raise
            _log.warning("the changes of %s cannot be read: %s", feed.key, error.detail)
        except Exception:
            _log.exception("internal error while reading the changes of %s", feed.key)
        else:
            return
        with self._changed:
            self._mark_again(feed)

    def _read_feed(self, reads: Reads, feed: Feed) -> None:
        with self._changed:
            spans, final_until = feed.take(), feed.final_until
            feed.final_until = 0

        def read(connection: Connection, version: Version) -> tuple[bool, Reading]:
            is_there = not final_until or is_final(connection, version, feed.key.symbol, final_until)
            return is_there, read_changes(connection, version, feed, spans)

        try:
            with translated():
                is_there, reading = reads.read(feed.key.symbol, read)
        except Exception:
            self._add_again(feed, spans, final_until)
            raise
        feed.due = monotonic() + PACE_SECONDS
        if not is_there and not reading.is_dropped:
            self._add_again(feed, spans, final_until)
        learn(feed, reading)
        self._push(feed, reading)

    def _add_again(self, feed: Feed, spans: list[Span], final_until: int) -> None:
        """Read these ranges again later, until the chain's finality has arrived on the node."""
        with self._changed:
            feed.final_until = max(final_until, feed.final_until)
            for span in spans:
                feed.add(span)
            if feed.users:
                self._marked[feed] = None

    def _mark_again(self, feed: Feed) -> None:
        if feed.users:
            feed.due = monotonic() + _RETRY_SECONDS
            self._marked[feed] = None

    def _mark_closed(self) -> None:
        """Mark the candles whose buckets have ended. Their member ``closed`` becomes true, but no notification says
        so."""
        while self._closings and self._closings[0][0] <= time.time():
            at, _, key = heapq.heappop(self._closings)
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
        end = bucket_end(opened, key.interval, key.zone) / SECOND
        heapq.heappush(self._closings, (end, next(self._numbers), key))

    def _pause(self) -> None:
        with self._changed:
            if not self._is_stopping:
                self._changed.wait(_RETRY_SECONDS)


def _call(job: Job, reads: Reads, failed: Callable[[MarketError], None]) -> None:
    try:
        with translated():
            job(reads)
    except MarketError as error:
        failed(error)
    except Exception:
        _log.exception("internal error in a request of a live connection")
        failed(internal_error())
