"""Finds and ends the processes of a session, and never signals another process.

The kernel reuses pids, so a process is identified by its pid and its start time. The processes of a session inherit an
environment variable with the ``container_id``, by which they are found. A second variable holds the session's
directory, in case the record with the ``container_id`` is lost. The card's program gets neither variable, so it and its
children are found by HOME, which is a folder of the session. Signals are sent through a pidfd, and the process is
checked after its pidfd was opened.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp.procfs import start_time

CONTAINER_VARIABLE = "CARDAPP_SESSION"  # a session's container_id
DIRECTORY_VARIABLE = "CARDAPP_SESSION_DIRECTORY"
HOME_VARIABLE = "HOME"


@dataclass(frozen=True)
class Process:
    """The identity of a process: its pid, and its start time in clock ticks since boot."""

    pid: int
    started: int

    def as_json(self) -> dict[str, int]:
        return {"pid": self.pid, "started": self.started}

    @classmethod
    def from_json(cls, found: Any) -> Process | None:
        """The process in the JSON value ``found``; None if ``found`` does not describe a process."""
        if isinstance(found, dict) and isinstance(found.get("pid"), int) and isinstance(found.get("started"), int):
            return cls(found["pid"], found["started"])
        return None

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started

    def end(self, timeout: float) -> None:
        """Send SIGTERM, and SIGKILL after half of ``timeout`` seconds; return when the process has ended."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if not self.alive:
                    return
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, number)
                _wait_for_all([pidfd], timeout / 2)
        finally:
            os.close(pidfd)


@dataclass(frozen=True)
class Instance:
    """One run of a session's container; for the local runtime, one run of its MCP server.

    ``container`` is the container's first process, with its pid on the host; None for the local runtime.
    """

    name: str
    container: Process | None = None

    @classmethod
    def of_this_process(cls) -> Instance:
        """The name ``boot id:pid:start time`` of this process. It is unique even after the machine was restarted."""
        pid = os.getpid()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return cls(f"{boot}:{pid}:{start_time(pid) or 0}")


def pids_with(value: str, variable: str = CONTAINER_VARIABLE) -> Iterator[int]:
    """The pids of the other processes whose environment holds ``variable=value``."""
    wanted, own = os.fsencode(f"{variable}={value}"), os.getpid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != own and wanted in _environment(int(entry.name)):
            yield int(entry.name)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # the process has ended, or belongs to another user


def end_processes(value: str, timeout: float, variable: str = CONTAINER_VARIABLE) -> int:
    """End every process whose environment holds ``variable=value``. Returns their number.

    The processes get SIGTERM, and SIGKILL in the second half of ``timeout`` seconds. The search is repeated until it
    finds none, because such a process may start another one meanwhile.
    """
    begun = time.monotonic()
    ended: set[int] = set()
    while (left := begun + timeout - time.monotonic()) > 0:
        with contextlib.ExitStack() as handles:
            known = ((pid, _handle(pid, f"{variable}={value}", handles)) for pid in pids_with(value, variable))
            found = {pid: pidfd for pid, pidfd in known if pidfd is not None}
            if not found:
                break
            signal_number = signal.SIGTERM if left > timeout / 2 else signal.SIGKILL
            ended |= found.keys()
            for pidfd in found.values():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal_number)
            _wait_for_all(list(found.values()), min(left, timeout / 4))
    return len(ended)


def continue_processes(value: str, variable: str = CONTAINER_VARIABLE) -> None:
    """Continue every process whose environment holds ``variable=value``, if a signal has stopped it."""
    with contextlib.ExitStack() as handles:
        for pid in pids_with(value, variable):
            if (pidfd := _handle(pid, f"{variable}={value}", handles)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGCONT)


def _handle(pid: int, entry: str, handles: contextlib.ExitStack) -> int | None:
    """Open a pidfd of ``pid``, which ``handles`` closes. Returns None if the process's environment lacks ``entry``."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    handles.callback(os.close, pidfd)
    return pidfd if os.fsencode(entry) in _environment(pid) else None


def _wait_for_all(pidfds: list[int], timeout: float) -> None:
    poll = select.poll()
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    deadline = time.monotonic() + timeout
    waiting = set(pidfds)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(left * 1000):
            poll.unregister(pidfd)
            waiting.discard(pidfd)
