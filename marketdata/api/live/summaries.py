"""Reads the summaries that connections follow, once for all connections, in the reader's thread.

A summary is read again within a second after a change of its symbol. All are read once a minute, because ticks leave
the 24 hours without a notification.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from marketdata.api.live.feed_reader import FeedReader
from marketdata.api.live.reads import Reads
from marketdata.errors import MarketError
from marketdata.interval import SECOND
from marketdata.limits import MAX_SUMMARIES
from marketdata.store import summary
from marketdata.store.notifications import Change

REFRESH_SECONDS = 60.0

Items = Mapping[str, bytes]
"""The JSON text of items, by symbol."""


class Summaries:
    """Calls ``push`` with the items that have changed, in the reader's thread. Thread-safe."""

    def __init__(self, reader: FeedReader, push: Callable[[Items], None]) -> None:
        self._reader = reader
        self._push = push
        self._lock = threading.Lock()
        self._watchers: dict[str, int] = {}
        """The number of subscriptions to each symbol."""
        self._items: dict[str, bytes] = {}
        """The newest read item of each watched symbol."""
        self._marked: dict[str, int] = {}
        """The symbols to read, each with the time (microseconds) of its latest changed tick."""
        self._queue: list[str] = []
        """The symbols that are being read."""
        self._refresh_at = 0.0

    def watch(self, items: Items) -> None:
        """Follow these symbols from now on. A change that was committed after the items were read, but before this
        call, was not noted, so all are read once more."""
        with self._lock:
            for symbol, item in items.items():
                self._watchers[symbol] = self._watchers.get(symbol, 0) + 1
                self._items.setdefault(symbol, item)
                self._marked.setdefault(symbol, 0)

    def unwatch(self, symbols: Collection[str]) -> None:
        with self._lock:
            for symbol in symbols:
                self._watchers[symbol] -= 1
                if not self._watchers[symbol]:
                    del self._watchers[symbol], self._items[symbol]
                    self._marked.pop(symbol, None)

    def changed(self, changes: list[Change]) -> None:
        with self._lock:
            for change in changes:
                if change.is_of_ticks and change.symbol in self._watchers:
                    self._marked[change.symbol] = max(change.last, self._marked.get(change.symbol, 0))

    def resync(self) -> None:
        """Handle a loss of notifications: read all again."""
        with self._lock:
            self._mark_all()

    def _mark_all(self) -> None:
        for symbol in self._watchers:
            self._marked.setdefault(symbol, 0)

    def sweep(self, now: float) -> None:
        """Start to read the marked symbols, unless earlier ones are still being read. Call this every second."""
        with self._lock:
            if now >= self._refresh_at:
                self._refresh_at = now + REFRESH_SECONDS
                self._mark_all()
            if self._queue or not self._marked:
                return
            self._queue = list(self._marked)
            # A tick from a clock that is ahead is in the summary only when its time has come.
            present = time.time_ns() // 1000
            soon = present + int(REFRESH_SECONDS) * SECOND
            self._marked = {symbol: last for symbol, last in self._marked.items() if present < last <= soon}
        self._reader.submit(self._read, self._failed)

    # -- in the reader's thread ----------------------------------------------------------------------------------------

    def _read(self, reads: Reads) -> None:
        """Read one part of the queue. Each part is a job, so that candles do not wait for the whole queue."""
        part = self._queue[:MAX_SUMMARIES]
        found, missing = reads.read_available(part, summary.named)
        with self._lock:
            fresh = {
                symbol: item
                for each in found
                for symbol, item in each.items.items()
                if symbol in self._watchers and self._items[symbol] != item
            }
            self._items |= fresh
            self._queue = self._queue[MAX_SUMMARIES:]
            self._mark(missing)
            has_more = bool(self._queue)
        self._push(fresh)
        if has_more:
            self._reader.submit(self._read, self._failed)

    def _failed(self, _error: MarketError) -> None:
        """Mark the symbols of the queue again; the next sweep tries again."""
        with self._lock:
            self._mark(self._queue)
            self._queue = []

    def _mark(self, symbols: Collection[str]) -> None:
        for symbol in symbols:
            if symbol in self._watchers:
                self._marked.setdefault(symbol, 0)
