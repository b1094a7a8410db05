"""Runs podman with the options that it needs on this machine.

On two kinds of machine podman starts no container with its default settings. First, if control groups of both versions
are mounted, crun refuses to start a container ("cgroups in hybrid mode"), so runc is used. Second, if root may not
raise limits (no CAP_SYS_RESOURCE), the kernel refuses the limits that podman sets by default, so lower limits are set.
If the user names a configuration in ``CONTAINERS_CONF``, neither option is added.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp.errors import CardAppError, MissingRequirement

TIMEOUT = 60.0
STARTING = ("run", "create", "build")
"""The commands whose process gets limits; ``exec`` uses the limits of its container."""
HYBRID = "cgroups in hybrid mode not supported"
RUNC_MISSING = "; runc supports it (Debian: apt-get install runc)"
DEFAULT_FILES = 1048576
"""podman's default limit of open files."""


@dataclass(frozen=True)
class Machine:
    """Where this machine tells what podman's options depend on."""

    unified_groups: Path = Path("/sys/fs/cgroup/unified/cgroup.procs")
    pid_max: Path = Path("/proc/sys/kernel/pid_max")
    system_path: str = "/usr/local/sbin:/usr/sbin:/sbin"
    """The folders of runc and debootstrap, which only root has on its ``PATH``."""
    limit: Callable[[int], int] = lambda kind: resource.getrlimit(kind)[1]
    """Takes the number of a resource; returns this process's hard limit of it."""


class PodmanFailed(CardAppError):
    """podman failed. The text is podman's message."""

    code = "podman_failed"


class Podman:
    """podman as this user runs it. ``environ`` decides its storage and configuration."""

    def __init__(self, environ: Mapping[str, str] = os.environ, machine: Machine = Machine()) -> None:
        self.environ = dict(environ)
        self.system_path = f"{self.environ.get('PATH', os.defpath)}:{machine.system_path}"
        """``PATH`` with the folders of the programs of the system."""
        configured = bool(self.environ.get("CONTAINERS_CONF"))
        self._options = [] if configured else self._runtime_options(machine)
        self._limits = [] if configured else _limit_options(machine)

    def command(self, *arguments: str | Path) -> list[str]:
        """The command line of ``podman ARGUMENTS``. The first argument is podman's subcommand.

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
        """Run ``podman ARGUMENTS`` in ``directory`` and return its output.

        :raises PodmanFailed: its exit code is not 0, or it is killed after ``timeout`` seconds.
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

    def _runtime_options(self, machine: Machine) -> list[str]:
        has_both = machine.unified_groups.exists()
        return ["--runtime", "runc"] if has_both and shutil.which("runc", path=self.system_path) else []

    def info(self) -> dict[str, Any]:
        """The output of ``podman info``: this machine and podman's storage."""
        found: dict[str, Any] = json.loads(self.run("info", "--format=json").stdout)
        return found

    def can_limit(self) -> bool:
        """Whether podman can limit the memory and the processes of a container here, with control groups.

        A user other than root needs control groups of version 2 that systemd delegates. Otherwise podman ignores the
        limits or fails to start the container.
        """
        host = self.info()["host"]
        if host["security"]["rootless"] and host["cgroupManager"] != "systemd":
            return False
        controllers = host.get("cgroupControllers")  # older releases do not list them
        return controllers is None or {"memory", "pids"} <= set(controllers)


def _limit_options(machine: Machine) -> list[str]:
    """Options with the limits of this process, if they are lower than podman's default limits."""
    files, processes = machine.limit(resource.RLIMIT_NOFILE), machine.limit(resource.RLIMIT_NPROC)
    if files == resource.RLIM_INFINITY or files >= DEFAULT_FILES:
        return []
    # podman lowers its own limit of processes to the largest process id.
    largest = int(machine.pid_max.read_text())
    processes = largest if processes == resource.RLIM_INFINITY else min(processes, largest)
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]
