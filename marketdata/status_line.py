"""A line of a terminal that shows the progress of a long command."""

from __future__ import annotations

import shutil
from typing import TextIO

_BAR_WIDTH = 20


class StatusLine:
    """Does nothing if ``stream`` is not a terminal."""

    def __init__(self, stream: TextIO | None) -> None:
        self._terminal = stream if stream is not None and stream.isatty() else None

    def show(self, text: str) -> None:
        """Replace what is shown. A text that is wider than the terminal is cut."""
        if self._terminal is not None:
            self._terminal.write(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K")
            self._terminal.flush()

    def clear(self) -> None:
        if self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()


def bar(share: float) -> str:
    """A share from 0 to 1 as a bar and in percent."""
    return f"[{'#' * int(_BAR_WIDTH * share):<{_BAR_WIDTH}}] {share:4.0%}"


def clock(seconds: float) -> str:
    """A duration like ``2:05`` or ``1:02:05``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
