"""Percentiles, and the tables of tests/bench/README.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One row: what was measured, the figure as text, and its goal, or "" without one."""

    name: str
    value: str
    goal: str = ""


def percentile(seconds: Sequence[float], share: float) -> float:
    """The ``share`` quantile (0 to 1) of measured seconds, in milliseconds."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def spread(seconds: Sequence[float]) -> str:
    return f"p50 {percentile(seconds, 0.5):.1f} ms, p99 {percentile(seconds, 0.99):.1f} ms"


def median_ms(seconds: Sequence[float]) -> float:
    return 1000 * statistics.median(seconds)


def per_second(painted: Sequence[float]) -> list[int]:
    """The number of frames in each second that begins with a frame. ``painted`` has the milliseconds of the frames."""
    return [sum(at <= other < at + 1000 for other in painted) for at in painted if at + 1000 <= painted[-1]]


def resident(pid: int, field: str = "VmRSS") -> int:
    """The resident memory of a process, in KiB; its peak as ``VmHWM``."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def table(figures: Sequence[Figure]) -> str:
    rows = [f"| {each.name} | {each.value} | {each.goal} |" for each in figures]
    return "\n".join(["| What | Figure | Goal |", "| --- | --- | --- |", *rows])
