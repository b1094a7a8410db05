"""Compares the newest final blocks of a chain with the store from time to time, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from math import nan

from marketdata.errors import MarketError, Stopped
from marketdata.ingest.worker import Fatal, Worker
from marketdata.source.rpc_file import Chain

_FIRST_S = 60.0
"""Seconds before the first comparison. A start has more urgent requests."""

Compare = Callable[[Chain, threading.Event], int]
"""Compares a chain and returns the number of differences. Setting the event ends the waits."""

_log = logging.getLogger("marketdata.ingestor")


class RegularVerification:
    """Works from ``start`` until ``stop``, every ``verify_s`` seconds of the chain. A failure waits for the next
    time."""

    def __init__(self, chain: Chain, compare: Compare, fatal: Fatal) -> None:
        self._chain = chain
        self._compare = compare
        self._worker = Worker(f"verify-{chain.name}", self._step, fatal, chain.name)
        self._is_begun = False
        self.differences: float = nan
        """The differences that the last comparison found; NaN before the first one."""

    def start(self) -> None:
        self._worker.start()

    def interrupt(self) -> None:
        """Tell the thread to stop, without waiting for it."""
        self._worker.stopping.set()

    def stop(self, timeout: float) -> None:
        self._worker.stop(timeout)

    def _step(self) -> float:
        if not self._is_begun:
            self._is_begun = True
            return min(_FIRST_S, self._chain.verify_s)
        try:
            self.differences = self._compare(self._chain, self._worker.stopping)
        except Stopped:
            raise
        except MarketError as error:
            _log.warning("%s: stored ticks were not compared with the chain: %s", self._chain.name, error.detail)
        else:
            if self.differences:
                _log.warning(
                    "%s: %d stored ticks differ from the chain; bin/marketdata-ingestor verify names them, and repair "
                    "mends them", self._chain.name, self.differences,
                )  # fmt: skip
        return self._chain.verify_s
