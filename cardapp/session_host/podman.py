"""Runs podman with the options that it needs on this machine.

On two kinds of machine, virtual machines among them, podman's own settings start no container. Where control groups of
both versions are mounted, crun refuses ("cgroups in hybrid mode"), and runc does not. A root that may not raise limits
(no CAP_SYS_RESOURCE) is refused the limits that podman sets by default. A user who names a configuration in
``CONTAINERS_CONF`` has decided about both, and nothing is added.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cardapp.errors import CardAppError, MissingRequirement

TIMEOUT = 60.0
STARTING = ("run", "create", "build")
"""The commands whose process gets limits; ``exec`` uses the limits of its container."""
UNIFIED_GROUPS = Path("/sys/fs/cgroup/unified/cgroup.procs")
PID_MAX = Path("/proc/sys/kernel/pid_max")
HYBRID = "cgroups in hybrid mode not supported"
RUNC_MISSING = "; runc supports it (Debian: apt-get install runc)"
DEFAULT_FILES = 1048576
"""podman's default limit of open files."""
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where runc and debootstrap are, which is on the ``PATH`` of root alone."""


class PodmanFailed(CardAppError):
    """podman failed; the text is its own message."""

    code = "podman_failed"


class Podman:
    """podman as this user runs it. ``environ`` decides its storage and configuration."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.environ = dict(environ)
        own = bool(self.environ.get("CONTAINERS_CONF"))
        self._options = [] if own else _runtime_options(self.environ)
        self._limits = [] if own else _limit_options()

    def command(self, *arguments: str | Path) -> list[str]:
        """The command line of ``podman ARGUMENTS``; the first argument is podman's command.

        :raises MissingRequirement: podman is not installed.
        """
        program = shutil.which("podman", path=self.environ.get("PATH"))
        if program is None:
            raise MissingRequirement(
                "podman is not on PATH; install it (Debian: apt-get install podman debootstrap uidmap)"
            )
        first, *rest = map(str, arguments)
        return [program, *self._options, first, *(self._limits if first in STARTING else []), *rest]

    def run(
        self, *arguments: str | Path, timeout: float | None = TIMEOUT, directory: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``podman ARGUMENTS`` in ``directory`` and return what it printed; ``timeout`` in seconds.

        :raises PodmanFailed: its exit code is not 0, or it takes longer than ``timeout`` and is killed.
        :raises MissingRequirement: podman is not installed.
        """
        command = self.command(*arguments)
        try:
            done = subprocess.run(
                command, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                check=False, timeout=timeout, cwd=directory,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise PodmanFailed(f"podman {arguments[0]} did not end within {timeout:.0f} s and was killed") from error
        if done.returncode != 0:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            remedy = RUNC_MISSING if HYBRID in said and not self._options else ""
            raise PodmanFailed(f"podman {arguments[0]} failed: {said.removeprefix('Error: ')}{remedy}")
        return done

    def info(self) -> dict[str, Any]:
        """What ``podman info`` tells of this machine and its storage."""
        found: dict[str, Any] = json.loads(self.run("info", "--format=json").stdout)
        return found

    def can_limit(self) -> bool:
        """Whether this user can limit memory and processes of a container here (control groups).

        A user without root can where control groups of version 2 are delegated by systemd. Elsewhere podman ignores the
        limits or starts no container with them.
        """
        host = self.info()["host"]
        if host["security"]["rootless"] and host["cgroupManager"] != "systemd":
            return False
        controllers = host.get("cgroupControllers")  # older releases do not list them
        return controllers is None or {"memory", "pids"} <= set(controllers)


def _runtime_options(environ: Mapping[str, str]) -> list[str]:
    path = f"{environ.get('PATH', os.defpath)}:{SYSTEM_PATH}"
    return ["--runtime", "runc"] if UNIFIED_GROUPS.exists() and shutil.which("runc", path=path) else []


def _limit_options() -> list[str]:
    """Limits that this process may set, where it may not set podman's."""
    files, processes = (resource.getrlimit(each)[1] for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    if files == resource.RLIM_INFINITY or files >= DEFAULT_FILES:
        return []
    # podman lowers its own limit of processes to the largest process id.
    largest = int(PID_MAX.read_text())
    processes = largest if processes == resource.RLIM_INFINITY else min(processes, largest)
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]
