"""The memory that the processes of the API share: what each has counted, and what each reported last.

A counter in this memory survives its process. The process that is started again in its place goes on counting, so no
sum falls, and nobody has to ask a process that does not react.

Each process writes to its own region only. It sets the size of the names after the names themselves, and writes a
report beside the former one before it switches to it. So a process that is killed at any moment leaves consistent data.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, TypeAlias

REPORT_SECONDS = 1.0
"""How often each process reports."""
FRESH_SECONDS = 5.0
"""An older report is not used: its process has stopped or does not react."""

_HEAD_BYTES = 4096
_RUNNING, _RESTARTS = range(2)
"""Places of the supervisor's numbers in the head of the memory."""

_REGION_HEAD_BYTES = 64
_NUMBERS_USED, _NAMES_SIZE, _REPORT, _REPORT_SIZES = range(4)
"""Places in the head of a region: how many numbers are used, the size of the names, which of the two reports is the
current one, and the sizes of both."""
_REPORT_BYTES = 16 * 1024
_NUMBERS = 16 * 1024
_NAMES_BYTES = 256 * 1024
_NUMBERS_AT = _REGION_HEAD_BYTES + 2 * _REPORT_BYTES
_NAMES_AT = _NUMBERS_AT + 8 * _NUMBERS
REGION_BYTES = _NAMES_AT + _NAMES_BYTES
"""A region has room for several times the counters of all routes with all their statuses."""

Name = tuple[str | int, ...]
Row: TypeAlias = "memoryview[float]"


class Region:
    """The part of one process: rows of numbers, each with a name, and a report."""

    def __init__(self, memory: memoryview, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._head = memory[:_REGION_HEAD_BYTES].cast("q")
        places = (_REGION_HEAD_BYTES, _REGION_HEAD_BYTES + _REPORT_BYTES)
        self._reports = [memory[at : at + _REPORT_BYTES] for at in places]
        self._numbers = memory[_NUMBERS_AT:_NAMES_AT].cast("d")
        self._names = memory[_NAMES_AT:REGION_BYTES]

    def rows(self) -> dict[Name, Row]:
        """All rows by their names."""
        found: dict[Name, Row] = {}
        for line in bytes(self._names[: self._head[_NAMES_SIZE]]).splitlines():
            begin, end, *name = json.loads(line)
            found[tuple(name)] = self._numbers[begin:end]
        return found

    def add_row(self, name: Name, length: int) -> Row:
        """Add a row of ``length`` zeros. Only one thread of the region's process may do this at a time."""
        begin, at = self._head[_NUMBERS_USED], self._head[_NAMES_SIZE]
        self._head[_NUMBERS_USED] = begin + length
        line = json.dumps([begin, begin + length, *name]).encode() + b"\n"
        self._names[at : at + len(line)] = line
        self._head[_NAMES_SIZE] = at + len(line)
        return self._numbers[begin : begin + length]

    def report(self, report: Mapping[str, Any]) -> None:
        """Replace the report. Only the region's process does this."""
        text = json.dumps({"at": self._clock(), **report}).encode()
        other = 1 - self._head[_REPORT]
        self._reports[other][: len(text)] = text
        self._head[_REPORT_SIZES + other] = len(text)
        self._head[_REPORT] = other

    def forget_report(self) -> None:
        """Remove the report of a process that has ended."""
        self._head[_REPORT_SIZES] = self._head[_REPORT_SIZES + 1] = 0

    @property
    def has_report(self) -> bool:
        """Whether the process has reported since its start."""
        return bool(self._head[_REPORT_SIZES + self._head[_REPORT]])

    def last_report(self) -> dict[str, Any] | None:
        """The last report, if it is fresh. ``at`` is its time in monotonic seconds."""
        current = self._head[_REPORT]
        text = bytes(self._reports[current][: self._head[_REPORT_SIZES + current]])
        if not text:
            return None
        report: dict[str, Any] = json.loads(text)
        return report if self._clock() - report["at"] < FRESH_SECONDS else None


class SharedMemory:
    """The regions of ``processes`` processes. ``own`` is that of this one, and None in the supervisor."""

    def __init__(
        self, processes: int, *, own: int | None, descriptor: int = -1, clock: Callable[[], float] = monotonic
    ) -> None:
        """``descriptor`` is one of :func:`shared_file`. Without it the memory belongs to this process alone."""
        size = _size(processes)
        whole = memoryview(mmap.mmap(descriptor, size))
        self._head = whole[:_HEAD_BYTES].cast("d")
        self.regions = [Region(whole[at : at + REGION_BYTES], clock) for at in range(_HEAD_BYTES, size, REGION_BYTES)]
        self.own = None if own is None else self.regions[own]

    @classmethod
    def of_one_process(cls) -> SharedMemory:
        """The memory of a process that serves alone."""
        memory = cls(1, own=0)
        memory.running = 1
        return memory

    @property
    def running(self) -> int:
        """How many processes serve."""
        return int(self._head[_RUNNING])

    @running.setter
    def running(self, count: int) -> None:
        self._head[_RUNNING] = count

    @property
    def restarts(self) -> int:
        """How many processes were started in the place of one that had ended."""
        return int(self._head[_RESTARTS])

    @restarts.setter
    def restarts(self, count: int) -> None:
        self._head[_RESTARTS] = count

    def totals(self) -> dict[Name, list[float]]:
        """The sums of the rows with the same name."""
        sums: dict[Name, list[float]] = {}
        for region in self.regions:
            for name, row in region.rows().items():
                before = sums.get(name, [0.0] * len(row))
                sums[name] = [one + other for one, other in zip(before, row, strict=True)]
        return sums

    def other_reports(self) -> list[dict[str, Any]]:
        """The fresh reports of the other processes."""
        reports = [region.last_report() for region in self.regions if region is not self.own]
        return [report for report in reports if report is not None]


def shared_file(processes: int) -> int:
    """Returns the descriptor of memory for ``processes`` processes, which they inherit."""
    descriptor = os.memfd_create("marketdata-api", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, _size(processes))
    return descriptor


def _size(processes: int) -> int:
    return _HEAD_BYTES + processes * REGION_BYTES
