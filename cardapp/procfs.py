"""Reads facts about other processes from ``/proc`` (proc(5))."""

from __future__ import annotations

import os
import select
from pathlib import Path

TRACING_STOP = "t"
"""The state of a process that its tracer, for example a debugger, has stopped."""


def start_time(pid: int) -> int | None:
    """When the process ``pid`` started, in clock ticks since boot; None if it has ended, even if it is still a zombie.

    The kernel reuses pids. A pid and its start time together identify a process.
    """
    found = _stat(pid)
    return None if not found or found[0] in ("Z", "X") else int(found[19])


def state(pid: int) -> str | None:
    """The state of the process ``pid`` as a letter, for example ``R`` for running; None if it does not exist."""
    found = _stat(pid)
    return found[0] if found else None


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` without the first two, so the state is the first one. Empty if the process does
    not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return []
    # Field 2, the command in parentheses, may contain spaces and parentheses.
    return stat.rpartition(")")[2].split()


def has_ended(pid: int, started: int, seconds: float) -> bool:
    """Wait up to ``seconds`` until the process ``pid`` that started at ``started`` has ended; return whether it has."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # the process has ended, or no descriptor is left
        return start_time(pid) != started
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


def tracer(pid: int) -> int:
    """The pid of the process that traces ``pid``, as a debugger does; 0 if there is none or ``pid`` has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("TracerPid:")), 0)


def pid_space(pid: int) -> str | None:
    """The pid namespace of a process of this account; None if it has ended. Each container has its own namespace."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def is_frozen(pid: int, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> bool:
    """Whether the control group of the process is frozen (cgroups(7)). ``podman pause`` freezes it."""
    try:
        for line in (proc / str(pid) / "cgroup").read_text("ascii").splitlines():
            _number, controllers, path = line.split(":", 2)
            if controllers == "freezer":
                return (groups / f"freezer{path}" / "freezer.state").read_text("ascii").strip() != "THAWED"
            if controllers == "":
                # This is the line of cgroups version 2. If version 1 is mounted too, its freezer is on an earlier line.
                return "frozen 1" in (groups / path.lstrip("/") / "cgroup.events").read_text("ascii").splitlines()
    except (OSError, ValueError):
        pass
    return False
