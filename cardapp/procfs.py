"""What this application reads of other processes in ``/proc`` (proc(5))."""

from __future__ import annotations

from pathlib import Path


def start_time(pid: int) -> int | None:
    """When the process ``pid`` started, in clock ticks since boot; None if it has ended, a zombie included.

    The kernel reuses pids. A pid together with its start time names one process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    # Field 2, the command in parentheses, may itself hold spaces and parentheses.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in ("Z", "X") else int(rest[18])
