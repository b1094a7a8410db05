"""Says why a path cannot be used: its file system is full, or it belongs to another account."""

from __future__ import annotations

import errno
import os
import pwd
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


def not_permitted(path: Path) -> str:
    """Why this account may not use ``path``: who owns it, or the nearest folder above it that can be seen."""
    place = path
    while (owner := _owner(place)) is None:
        place = place.parent
    if owner == os.geteuid():
        return f"not permitted: the mode of {place} forbids it"
    return f"not permitted: {place} belongs to {_account(owner)}, and this is {_account(os.geteuid())}"


def _owner(place: Path) -> int | None:
    try:
        return place.stat().st_uid
    except OSError:
        return None


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the account {uid}"
