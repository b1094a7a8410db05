"""Limits how many streams run at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from marketdata.errors import Saturated

MAX_STREAMS = 3
"""Maximum number of simultaneous streams. A stream occupies a worker and a database connection until its client has
read it."""


class StreamLimit:
    """Counts the running streams. Thread-safe."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self._limit = limit
        self._free = threading.BoundedSemaphore(limit)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a stream until the block ends. Raises :class:`Saturated` if too many are running."""
        if not self._free.acquire(blocking=False):
            raise Saturated(f"{self._limit} streams are running, the most allowed; try again later, or read pages")
        try:
            yield
        finally:
            self._free.release()
