"""What this application reads of other processes in ``/proc`` (proc(5))."""

from __future__ import annotations

import os
import select
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


def has_ended(pid: int, started: int, seconds: float) -> bool:
    """Whether the process ``pid`` that started at ``started`` has ended, or ends within ``seconds``."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return start_time(pid) != started or bool(poll.poll(1000 * seconds))
    finally:
        os.close(pidfd)


def command_line(pid: int) -> list[str]:
    """The arguments that the process was started with; empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.split("\0")[:-1]


def is_frozen(pid: int) -> bool:
    """Whether the process is in a control group that is frozen, as ``podman pause`` does (cgroups(7))."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text("ascii").splitlines()
        for line in groups:
            _number, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                return Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").read_text("ascii").strip() != "THAWED"
            if controllers == "":
                events = Path(f"/sys/fs/cgroup{path}/cgroup.events")
                if events.exists():
                    return "frozen 1" in events.read_text("ascii").splitlines()
    except (OSError, ValueError):
        pass
    return False
