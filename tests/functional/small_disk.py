"""A small file system for one program, in a mount namespace that ends with the program. A test can fill it and free it
again."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.capabilities import need

MOUNTS = "root, who may mount a file system (Debian package util-linux)"
_MOUNT = 'mount -t tmpfs -o "size=$1,mode=0700" small "$2" && shift 2 && exec "$@"'


def inside(folder: Path, size: int) -> list[str]:
    """A command that runs the command after it in a mount namespace where ``folder`` is a file system of ``size``
    bytes. Where mounting is not allowed, the test is skipped."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _MOUNT, "sh", str(size), str(folder)]
    is_root = os.geteuid() == 0 and shutil.which("unshare") is not None
    need(is_root and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0, MOUNTS)
    return command


class Disk:
    """The file system at ``folder`` that only the process ``pid`` and its children see, reached through it."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.seen = Path(f"/proc/{pid}/root") / str(folder).lstrip("/")
        self._ballast = self.seen / "ballast"

    def fill(self) -> None:
        """Leave no block free. A second call also takes the blocks that became free meanwhile."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):  # no space left
            while True:
                file.write(bytes(1 << 16))
        assert os.statvfs(self._ballast).f_bavail == 0

    def free(self) -> None:
        self._ballast.unlink()
