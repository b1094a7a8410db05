"""Counts the slow ways that replays had to take, so that ``GET /api/health`` can show them."""

from __future__ import annotations

import threading
from collections.abc import Iterable

NAMES = ("late_pc_sign", "no_checkpoint", "failed_restart", "second_run")
"""The names that a session's ``checkpoint_replay`` reports in ``fallbacks``; ``service.json`` describes each."""


class Fallbacks:
    """The counts since the service started, by name. Any thread may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(NAMES, 0)

    def add(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._counts[name] += 1

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
