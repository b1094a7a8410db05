"""Process control for the private cluster: the account that PostgreSQL runs as, children that end with their parent,
and functions to find and end processes of an earlier owner. Linux only (/proc, pidfd, prctl)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marketdata.errors import MissingRequirement

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Account:
    """The account that PostgreSQL runs as."""

    uid: int
    gid: int
    groups: list[int]

    @classmethod
    def of_this_process(cls) -> Account:
        """The account of this process. If this process runs as root, it is the account ``postgres``."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), os.getgroups())
        try:
            entry = pwd.getpwnam("postgres")
        except KeyError as error:
            raise MissingRequirement(
                "PostgreSQL does not run as root, and there is no account named postgres. Install Debian's package "
                "postgresql, which creates it; or run this as a normal user; or set DATABASE_URL to a PostgreSQL "
                "that runs elsewhere"
            ) from error
        return cls(entry.pw_uid, entry.pw_gid, os.getgrouplist("postgres", entry.pw_gid))

    @property
    def options(self) -> dict[str, Any]:
        """The arguments with which ``subprocess`` starts a child as this account."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups}


def wait_readable(descriptors: Sequence[int], timeout: float | None) -> list[int]:
    """Wait up to ``timeout`` seconds (None: without limit) and return the descriptors that are readable or closed.

    A pidfd is readable when its process has ended. ``poll`` is used because ``select.select`` refuses descriptors above
    1023.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _event in poll.poll(None if timeout is None else max(0.0, timeout) * 1000)]


def is_running(pid: int) -> bool:
    """Whether the process runs. A zombie does not count as running."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not wait_readable([process], 0)
    finally:
        os.close(process)


def signal_and_wait(pids: Sequence[int], number: signal.Signals, timeout: float) -> list[int]:
    """Send the signal to each process and wait up to ``timeout`` seconds for its end. Returns the ids of those that
    still run."""
    running = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(process, number)
                if not wait_readable([process], timeout):
                    running.append(pid)
            finally:
                os.close(process)
    return running


def continue_stopped(pids: Sequence[int]) -> list[int]:
    """Continue stopped processes, because a stopped process handles only SIGKILL. Returns the ids of those that stay
    stopped because a debugger holds them."""
    stopped = [pid for pid in pids if _state(pid) in ("T", "t")]
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return [pid for pid in stopped if _state(pid) in ("T", "t")]


def _state(pid: int) -> str:
    """The state of a process as in proc(5); empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def end_with_parent() -> Callable[[], None]:
    """Return a ``preexec_fn``. With it, the child gets SIGINT when this process dies. The child starts without a
    blocked or ignored signal.

    A shell makes background processes ignore SIGINT. A child inherits this. Until it has installed its own handlers, it
    would ignore the signal that must end it.
    """
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def prepare_child() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:  # the parent died before prctl took effect
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return prepare_child


def ending_with_this_process(command: Sequence[str | Path]) -> list[str | Path]:
    """Wrap ``command`` so that it gets SIGINT when this process ends.

    Unlike a ``preexec_fn``, this is safe in a process with several threads.
    """
    return [sys.executable, "-P", "-m", "marketdata.postgres.processes", str(os.getpid()), *command]


def _become(parent: str, *command: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() == int(parent):  # otherwise the parent died before prctl took effect
        os.execv(command[0], command)


def find_by_name(name: str) -> Iterator[int]:
    """The process ids of all processes with this command name."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                if Path("/proc", entry, "comm").read_text().strip() == name:
                    yield int(entry)


def has_working_directory(pid: int, folder: Path) -> bool:
    """Whether ``folder`` is the working directory of the process."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


if __name__ == "__main__":
    _become(*sys.argv[1:])
