"""Processes as the private cluster needs them: who PostgreSQL runs as, children that end with their parent, and finding
and ending what an earlier owner left behind. Linux only (/proc, pidfd, prctl)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marketdata.errors import MissingRequirement

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Account:
    """Whom PostgreSQL runs as."""

    uid: int
    gid: int
    groups: list[int]

    @classmethod
    def of_this_process(cls) -> Account:
        """This user; for root the account ``postgres``."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), os.getgroups())
        try:
            entry = pwd.getpwnam("postgres")
        except KeyError as error:
            raise MissingRequirement(
                "PostgreSQL does not run as root, and there is no account named postgres. Debian's package postgresql "
                "brings one; or run this as a normal user; or set DATABASE_URL to a PostgreSQL that runs elsewhere"
            ) from error
        return cls(entry.pw_uid, entry.pw_gid, os.getgrouplist("postgres", entry.pw_gid))

    @property
    def options(self) -> dict[str, Any]:
        """What makes ``subprocess`` start a child as this account."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups}


def readable(files: Sequence[int], seconds: float | None) -> list[int]:
    """The file descriptors that can be read, or whose other end is closed, at most ``seconds`` later.

    A pidfd can be when its process has ended. Any descriptor will do: ``select.select`` takes none above 1023.
    """
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _event in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)]


def alive(pid: int) -> bool:
    """True while the process runs; one that ended and was not waited for yet does not."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not readable([process], 0)
    finally:
        os.close(process)


def end(pids: list[int], how: signal.Signals, seconds: float) -> list[int]:
    """Signal the processes and wait until they are gone; those that stayed for ``seconds`` are returned."""
    stayed = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(process, how)
                if not readable([process], seconds):
                    stayed.append(pid)
            finally:
                os.close(process)
    return stayed


def tie_to_this_process() -> Callable[[], None]:
    """For a child, between fork and exec: SIGINT when this process dies, and no signal blocked or ignored.

    A shell lets what it runs in the background ignore SIGINT. A program that had not set its own handlers yet would
    then miss the one signal that is to end it.
    """
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def tie() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return tie


def named(name: str) -> Iterator[int]:
    """The processes whose program has this name."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                if Path("/proc", entry, "comm").read_text().strip() == name:
                    yield int(entry)


def works_in(pid: int, folder: Path) -> bool:
    """True when ``folder`` is the working directory of the process."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False
