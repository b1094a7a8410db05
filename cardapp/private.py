"""Places that this user alone may enter: the directories of everything that is kept, and of the sockets.

Whoever reaches a socket in them can run any command, so a directory is closed to others (0700), this user's own and no
symbolic link. Rights are changed only on what was made here or holds nothing: closing a directory that is in use could
lock others out of it (think of ``/tmp`` or ``/srv`` as root).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cardapp.errors import StateError

_SYSTEM = 0
"""The user id of root, to whom ``/tmp`` belongs."""


def make_directory(path: Path, setting: str) -> bool:
    """Make ``path`` and what is missing above it; True when it was not there. ``setting`` names what to change.

    :raises StateError: it is a symbolic link, no directory, another user's, or in use and open to others.
    """
    try:
        if _made(path):
            return True
        refuse_foreign(path, setting)
        if _inspected(path, setting).st_mode & 0o077:
            _close(path, setting)
    except OSError as error:
        raise _unusable(path, setting, error) from error
    return False


def make_directory_of_file(path: Path, setting: str) -> None:
    """Make the directory ``path`` for a file that is private by its own rights.

    One that is there may be open to others, as long as they can neither remove nor replace what lies in it: it is this
    user's or the system's own, and writable by nobody else or "sticky" as ``/tmp`` is.

    :raises StateError: it is a symbolic link, no directory, or others could replace the file.
    """
    try:
        if _made(path):
            return
        _refuse_link(path, setting)
        found = _inspected(path, setting)
    except OSError as error:
        raise _unusable(path, setting, error) from error
    if found.st_uid not in (_SYSTEM, os.geteuid()) or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
        raise StateError(
            f"other users may replace what lies in {path}: set {setting} to a place of your own",
            code="state_directory_open",
        )


def refuse_foreign(path: Path, setting: str) -> None:
    """:raises StateError: what lies at ``path``, if anything does, is a symbolic link or another user's."""
    _refuse_link(path, setting)
    try:
        owner = path.lstat().st_uid
    except FileNotFoundError:
        return
    if owner != os.geteuid():
        raise StateError(f"{path} belongs to another user: set {setting} to a place of your own", code="state_foreign")


def _refuse_link(path: Path, setting: str) -> None:
    if path.is_symlink():
        raise StateError(
            f"{path} is a symbolic link, so somebody else could choose what is used: remove it, or set {setting} to "
            "the real place",
            code="state_symlink",
        )


def _made(path: Path) -> bool:
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return False
    return True


def _inspected(path: Path, setting: str) -> os.stat_result:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(f"{path} is no directory: move it away, or set {setting} to another place")
    return found


def _close(path: Path, setting: str) -> None:
    with os.scandir(path) as entries:
        if any(entries):
            raise StateError(
                f"{path} is open to other users, and who reaches the sockets in it can run any command: chmod 700 it "
                f"if it is yours alone, or set {setting} to a private directory",
                code="state_directory_open",
            )
    path.chmod(0o700)


def _unusable(path: Path, setting: str, error: OSError) -> StateError:
    return StateError(f"{path} cannot be used: {error.strerror}; set {setting} to another place")
