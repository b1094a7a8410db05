"""Decides how many blocks to ask for at once: fewer after a refusal, slowly more while requests succeed; pure."""

from __future__ import annotations

MIN_BLOCKS, MAX_BLOCKS = 1, 50_000
_GROWTH = 8
"""Each answered request enlarges the next request by an eighth, so the limit is found with this precision."""
_FORGET = 50
"""After 50 answers a refused size may be tried again, because the number of events in a block changes."""


class AdaptiveRange:
    """Adapts ``size``, the number of blocks of the next request, to what the provider answers and refuses."""

    def __init__(self, size: int = 2_000) -> None:
        self.size = size
        self._answered_size = 0
        self._refused_size: int | None = None
        self._answers = 0  # since the last refusal

    def refused(self, asked: int, suggested: int | None = None) -> bool:
        """Reduce ``size`` after the provider refused ``asked`` blocks as too many. ``suggested`` is the number that the
        provider names in its refusal. Returns False if ``asked`` cannot be made smaller."""
        if asked <= MIN_BLOCKS:
            return False
        if self._answered_size >= asked:
            self._answered_size = 0  # the blocks have more events now than when this size was answered
        smaller = suggested if suggested is not None and suggested < asked else max(asked // 2, self._answered_size)
        self.size = max(MIN_BLOCKS, smaller)
        self._refused_size, self._answers = asked, 0
        return True

    def answered(self, asked: int) -> None:
        """Enlarge ``size`` after the provider answered a request of ``asked`` blocks. A request of fewer than ``size``
        blocks says nothing about the limit, so it changes nothing."""
        if asked < self.size:
            return
        self._answered_size = self.size
        self._answers += 1
        if self._answers >= _FORGET:
            self._refused_size, self._answers = None, 0
        step = max(1, self.size // _GROWTH)
        if self._refused_size is None:
            self.size = min(MAX_BLOCKS, self.size + step)
        elif self._refused_size - self.size > step:
            self.size += (self._refused_size - self.size) // 2
