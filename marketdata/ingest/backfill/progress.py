"""What a backfill says of itself: a bar on a terminal, and one line at its end."""

from __future__ import annotations

import shutil
from collections import deque
from time import monotonic
from typing import TextIO

from marketdata.ingest.backfill.work import Backfill

_WINDOW_S = 30.0
"""The rate is that of the last seconds: how many ticks there are in a block changes with the years."""
_BAR = 20
_REASONS = {"no_price": "without a price", "not_a_swap": "no swap of its kind of pool"}


class Progress:
    """``show`` draws the bar if ``stream`` is a terminal."""

    def __init__(self, work: Backfill, chain: str, stream: TextIO | None) -> None:
        self._work = work
        self._chain = chain
        self._terminal = stream if stream is not None and stream.isatty() else None
        self._began = monotonic()
        self._seen: deque[tuple[float, int, int]] = deque()

    def show(self) -> None:
        counts, now = self._work.counts, monotonic()
        self._seen.append((now, counts.blocks, counts.ticks))
        while now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        if self._terminal is not None:
            line = self._line(now)[: shutil.get_terminal_size().columns - 1]
            self._terminal.write(f"\r{line}\x1b[K")
            self._terminal.flush()

    def clear(self) -> None:
        if self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()

    def summary(self) -> str:
        """One line about all of it."""
        counts, seconds = self._work.counts, monotonic() - self._began
        ends = sorted(set(self._work.ends.values()))
        up_to = f" up to block {ends[-1]:,}" if ends else ""
        if not counts.blocks and self._work.next_block is None:
            return f"{self._chain}: nothing left to read{up_to}"
        skipped = "".join(f", {number:,} swaps skipped ({_REASONS[why]})" for why, number in counts.skipped.items())
        return (
            f"{self._chain}: {counts.blocks:,} blocks{up_to} read in {seconds:.1f} s: {counts.ticks:,} ticks, "
            f"{counts.new:,} new, {counts.known:,} known, {counts.dead:,} refused (dead letters){skipped}"
        )

    def _line(self, now: float) -> str:
        counts, all_blocks = self._work.counts, self._work.all_blocks
        if not all_blocks:
            return f"{self._chain}: asking the provider and the API"
        then, blocks_then, ticks_then = self._seen[0]
        seconds = max(now - then, 0.001)
        blocks_s, ticks_s = (counts.blocks - blocks_then) / seconds, (counts.ticks - ticks_then) / seconds
        left = _clock((all_blocks - counts.blocks) / blocks_s) if blocks_s else "--:--"
        done = counts.blocks / all_blocks
        bar = "#" * int(_BAR * done)
        return (
            f"{self._chain} [{bar:<{_BAR}}] {done:4.0%}  {counts.blocks:,} of {all_blocks:,} blocks  "
            f"{ticks_s:,.0f} ticks/s  {left} left"
        )


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
