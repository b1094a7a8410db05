"""How many blocks the backfill reads at once; pure."""

from __future__ import annotations

from marketdata.source.adaptive_range import AdaptiveRange

THREADS = 4
MAX_HANDED_OUT = 4 * THREADS
"""The largest number of spans that the threads have at a time."""
SPAN_TICKS = 1_000
"""The intended number of ticks in a span. Small spans let the threads read, decode and store at the same time."""


class SpanSize:
    """Adapts the size of the next span to what the provider refuses, and to the number of ticks. ``blocks`` is the
    number of all blocks to read."""

    def __init__(self, blocks: int) -> None:
        self._range = AdaptiveRange()
        self._most = max(1, blocks // MAX_HANDED_OUT)

    @property
    def blocks(self) -> int:
        return min(self._range.size, self._most)

    def answered(self, asked: int, ticks: int) -> None:
        self._range.answered(asked)
        self._most = max(1, asked * SPAN_TICKS // max(1, ticks))

    def refused(self, asked: int, suggested: int | None) -> bool:
        """Reduce the size, unless it is already smaller than ``asked``, because several spans of one size may be
        refused at once. Returns False if the size cannot be smaller. ``suggested`` as in :class:`AdaptiveRange`."""
        return asked > self.blocks or self._range.refused(asked, suggested)
