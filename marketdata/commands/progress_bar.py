"""The progress bar of commands that write many ticks, on a terminal."""

from __future__ import annotations

import shutil
import sys
from time import monotonic

_SHOW_S = 0.1
_WIDTH = 20


class ProgressBar:
    """A line on standard error that is written again and again; nothing if standard error is no terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
        self._began = monotonic()
        self._shown = 0.0

    @property
    def seconds(self) -> float:
        """The time since the beginning."""
        return monotonic() - self._began

    def show(self, share: float, ticks: int) -> None:
        """Show which share of the work is done, and the number of ticks so far."""
        now = monotonic()
        if self._terminal is None or now - self._shown < _SHOW_S:
            return
        self._shown = now
        share = min(share, 1.0)
        bar = "#" * int(_WIDTH * share)
        speed = ticks / max(now - self._began, 0.001)
        line = f"{self._name} [{bar:<{_WIDTH}}] {share:4.0%}  {ticks:,} ticks  {speed:,.0f} ticks/s"
        self._terminal.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        self._terminal.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()
