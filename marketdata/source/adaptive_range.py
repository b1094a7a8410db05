"""How many blocks to ask for at once: fewer after "too many results", slowly more while requests succeed; pure."""

from __future__ import annotations

MIN_BLOCKS, MAX_BLOCKS = 1, 50_000
_GROWTH = 8
"""Each answered request enlarges the next one by an eighth. The provider's limit is found to the same precision."""
_FORGET = 50
"""After 50 answers a refused size may be tried again: the number of events in a block changes."""


class AdaptiveRange:
    """``size`` is the number of blocks of the next request."""

    def __init__(self, size: int = 2_000) -> None:
        self.size = size
        self._good = 0
        self._refused: int | None = None
        self._answers = 0

    def refused(self, asked: int, suggested: int | None = None) -> bool:
        """The provider refused ``asked`` blocks as too many, and may have suggested a number. False when ``asked``
        cannot be made smaller."""
        if asked <= MIN_BLOCKS:
            return False
        if self._good >= asked:
            self._good = 0  # there are more events now
        smaller = suggested if suggested is not None and suggested < asked else max(asked // 2, self._good)
        self.size = max(MIN_BLOCKS, smaller)
        self._refused, self._answers = asked, 0
        return True

    def answered(self, asked: int) -> None:
        """A request of ``asked`` blocks was answered. One of less than ``size`` tells nothing about the limit."""
        if asked < self.size:
            return
        self._good = self.size
        self._answers += 1
        if self._answers >= _FORGET:
            self._refused, self._answers = None, 0
        step = max(1, self.size // _GROWTH)
        if self._refused is None:
            self.size = min(MAX_BLOCKS, self.size + step)
        elif self._refused - self.size > step:
            self.size += (self._refused - self.size) // 2
