"""How many blocks to ask for at once: less after "too many results", slowly more while answers come."""

from __future__ import annotations

SMALLEST, LARGEST = 1, 50_000
_GROWTH = 8
"""An answered request makes the next one larger by one part in this many; a limit is not looked for more exactly."""
_FORGET = 50
"""After this many answers a refused size may be tried again: how many events there are in a block changes."""


class AdaptiveRange:
    """The number of blocks of the next request, in ``size``."""

    def __init__(self, size: int = 2_000) -> None:
        self.size = size
        self._good = 0
        self._refused: int | None = None
        self._answers = 0

    def refused(self, asked: int, suggested: int | None = None) -> bool:
        """``asked`` blocks were too many; the provider may have named a number. False when no fewer can be asked."""
        if asked <= SMALLEST:
            return False
        if self._good >= asked:
            self._good = 0  # there are more events now
        smaller = suggested if suggested is not None and suggested < asked else max(asked // 2, self._good)
        self.size = max(SMALLEST, smaller)
        self._refused, self._answers = asked, 0
        return True

    def answered(self, asked: int) -> None:
        """A request of ``asked`` blocks was answered. One that was cut short by its end says nothing of the size."""
        if asked < self.size:
            return
        self._good = self.size
        self._answers += 1
        if self._answers >= _FORGET:
            self._refused, self._answers = None, 0
        step = max(1, self.size // _GROWTH)
        if self._refused is None:
            self.size = min(LARGEST, self.size + step)
        elif self._refused - self.size > step:
            self.size += (self._refused - self.size) // 2
