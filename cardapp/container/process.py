"""Which processes are a session's, and ending them, without ever signalling a stranger.

A process number alone proves nothing: it may belong to another process by now. Two things do: the number with its start
time, and the session's mark, a variable in the environment that every process of a session was started with and
inherits; a second variable holds the session's directory, for when its record is lost and the mark with it. Signals go
through a process handle (pidfd) that is checked after it was opened.
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

MARK = "CARDAPP_SESSION"  # a session's container_id
PLACE = "CARDAPP_SESSION_DIRECTORY"


@dataclass(frozen=True)
class Process:
    """A process, told apart from every other: its number and its start time in clock ticks since boot."""

    pid: int
    started: int

    def as_json(self) -> dict[str, int]:
        return {"pid": self.pid, "started": self.started}

    @classmethod
    def from_json(cls, found: Any) -> Process | None:
        """The process in ``found``; None when it holds none."""
        if isinstance(found, dict) and isinstance(found.get("pid"), int) and isinstance(found.get("started"), int):
            return cls(found["pid"], found["started"])
        return None

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started

    def end(self, timeout: float) -> None:
        """Ask it to end, kill it after half of ``timeout`` seconds; return when it is gone."""
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


def this_process() -> Process:
    pid = os.getpid()
    return Process(pid, start_time(pid) or 0)


def instance() -> str:
    """``boot id:pid:start time`` of this process: never the same twice, over restarts of the machine too."""
    own = this_process()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{own.pid}:{own.started}"


def marked(value: str, variable: str = MARK) -> Iterator[int]:
    """The processes that carry a session's mark (or its place), this one aside."""
    wanted, own = os.fsencode(f"{variable}={value}"), os.getpid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != own and wanted in _environment(int(entry.name)):
            yield int(entry.name)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # ended meanwhile, or another user's: not ours in either case


def end_marked(value: str, timeout: float, variable: str = MARK) -> int:
    """End every process with the mark (or the place): asked first, killed in the last half of ``timeout``.

    Answers how many. What a session's process starts while we look is found by looking again until nothing is left.
    """
    begun = time.monotonic()
    ended: set[int] = set()
    while (left := begun + timeout - time.monotonic()) > 0:
        with contextlib.ExitStack() as handles:
            known = ((pid, _handle(pid, f"{variable}={value}", handles)) for pid in marked(value, variable))
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


def _handle(pid: int, entry: str, handles: contextlib.ExitStack) -> int | None:
    """A handle on ``pid`` if it still is a process with ``entry`` in its environment; closed by ``handles``."""
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
