"""Peak memory of the processes of a bench."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.figures import Figure, resident


def peaks(state_dir: Path, pids: Mapping[str, int]) -> Iterator[Figure]:
    """The peak memory of each named process so far, and the present memory of PostgreSQL's processes. Their shared
    buffers never shrink, so at the end of a run the present memory is about the peak. Pages that several of them share
    are counted once.
    """
    for name, pid in pids.items():
        yield Figure(f"peak memory, {name}", f"{resident(pid, 'VmHWM') / 1024:.0f} MiB")
    server: int = json.loads((state_dir / "owner.lock").read_text())["postgres"]
    held = sum(_proportional(pid) for pid in (server, *children(server)))
    yield Figure("memory at the end, PostgreSQL's processes together (PSS)", f"{held / 1024:.0f} MiB")


def children(parent: int) -> list[int]:
    return [int(pid) for path in Path(f"/proc/{parent}/task").glob("*/children") for pid in path.read_text().split()]


def _proportional(pid: int) -> int:
    """KiB, a shared page divided by the number of its processes; 0 when the process has just ended."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) if found else 0
