"""Finds symbols that get their first tick, for the message ``symbol``, and symbols that were dropped.

A notification does not say whether its symbol is new, so each process keeps the set of all symbols that have ticks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import partial

from marketdata.api.live.feed_reader import FeedReader
from marketdata.api.live.reads import Reads
from marketdata.api.served_version import ServedVersion
from marketdata.errors import MarketError
from marketdata.store import symbols
from marketdata.store.notifications import Change
from marketdata.store.version import Version


class NewSymbols:
    """Calls ``announce`` with new symbols, and ``withdraw`` with symbols that were dropped, in the listener's or in the
    reader's thread."""

    def __init__(
        self,
        reader: FeedReader,
        served: ServedVersion,
        announce: Callable[[Collection[str]], None],
        withdraw: Callable[[Collection[str]], None],
    ) -> None:
        self._reader = reader
        self._served = served
        self._announce = announce
        self._withdraw = withdraw
        self._lock = threading.Lock()
        self._version: Version | None = None
        self._known: set[str] = set()
        """The symbols of ``_version`` that have ticks."""
        self._is_loading = False

    def changed(self, changes: list[Change]) -> None:
        """Announce the symbols of these changes that are not known yet."""
        if not changes:
            return
        with self._lock:
            # If no version is loaded, none may exist. Then asking for it would raise an error in the listener.
            if self._version is None or (version := self._served.version()) != self._version:
                if not self._is_loading:
                    self._load()
                return
            ours = [each for each in changes if each.is_of(version.ticks_table)]
            fresh = {each.symbol for each in ours if each.kind == "stored"} - self._known
            self._known |= fresh
            reduced = {each.symbol for each in ours if each.kind == "removed"}
        self._announce(sorted(fresh))
        if reduced:
            self._reader.submit(partial(self._check, reduced), lambda _error: None)

    def resync(self) -> None:
        """Handle a loss of notifications: read all symbols again, and announce those that were missed."""
        with self._lock:
            self._load()

    def _load(self) -> None:
        self._is_loading = True
        self._reader.submit(self._read, self._failed)

    def _failed(self, _error: MarketError) -> None:
        self._is_loading = False  # the next change tries again

    def _read(self, reads: Reads) -> None:
        version = reads.version
        found = set().union(*reads.read_each(None, symbols.with_ticks))
        with self._lock:
            is_first = version != self._version
            missed = set() if is_first else found - self._known
            lacking = set() if is_first else self._known - found
            self._known = found if is_first else self._known | found
            self._version = version
            self._is_loading = False
        self._announce(sorted(missed))
        self._check(lacking, reads)

    def _check(self, lacking: Collection[str], reads: Reads) -> None:
        """Withdraw the symbols in ``lacking`` that were dropped."""
        gone = set().union(*reads.read_each(lacking, symbols.unknown))
        with self._lock:
            gone &= self._known
            self._known -= gone
        self._withdraw(gone)
