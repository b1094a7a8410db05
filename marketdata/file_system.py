"""Names the file system of a path, and says whether a program failed because it is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def named(path: Path) -> str:
    """The file system of an existing path, by the folder at which it is mounted."""
    mounted = path.resolve()
    while not os.path.ismount(mounted):
        mounted = mounted.parent
    return f"the file system {mounted} of {path}"


def free_bytes(path: Path) -> int:
    """The bytes that a program without privileges may still write. Raises OSError."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def is_full(error: OSError) -> bool:
    """Whether the error says that a file system, or the account's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
