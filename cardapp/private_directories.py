"""Makes private directories, for the stored state and for sockets.

Whoever can connect to a socket in such a directory can run any command. So the directory must belong to this user, have
mode 0700 and be no symbolic link. The mode of an existing directory is changed only if the directory is empty. A
service that runs as root could otherwise lock other users out of a directory like ``/tmp`` or ``/srv``.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from cardapp.errors import StateError

_ROOT_UID = 0
"""Root owns ``/tmp``."""


def make_directory(path: Path, setting: str) -> bool:
    """Make ``path`` and its missing parents with mode 0700. Returns True if ``path`` did not exist.

    :param setting: the setting that the error messages tell the user to change.
    :raises StateError: ``path`` is a symbolic link or no directory, belongs to another user, or other users can enter
        it and it is not empty.
    """
    try:
        if _create(path):
            return True
        refuse_foreign(path, setting)
        if _directory_status(path, setting).st_mode & 0o077:
            _restrict(path, setting)
    except OSError as error:
        raise _unusable(path, setting, error) from error
    return False


def make_directory_of_file(path: Path, setting: str) -> None:
    """Make the directory ``path`` for a file that is private by its own mode.

    Others may read an existing directory, but must not be able to remove or replace the file. So the directory must
    belong to this user or root, and either nobody else can write to it or it has the sticky bit, as ``/tmp`` has.

    :raises StateError: ``path`` is a symbolic link, no directory, or other users could replace the file.
    """
    try:
        if _create(path):
            return
        _refuse_link(path, setting)
        found = _directory_status(path, setting)
    except OSError as error:
        raise _unusable(path, setting, error) from error
    if found.st_uid not in (_ROOT_UID, os.geteuid()) or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
        raise StateError(
            f"other users can replace files in {path}: set {setting} to a directory of your own",
            code="state_directory_open",
        )


def refuse_foreign(path: Path, setting: str) -> None:
    """Refuse a path that another user may control. A path that does not exist is accepted.

    :raises StateError: ``path`` is a symbolic link or belongs to another user.
    """
    _refuse_link(path, setting)
    try:
        owner = path.lstat().st_uid
    except FileNotFoundError:
        return
    if owner != os.geteuid():
        raise StateError(f"{path} belongs to another user: set {setting} to a path of your own", code="state_foreign")


def take_lock(path: Path) -> int:
    """Lock the file ``path``, so that only one instance of the program uses a state directory. Returns a descriptor.
    When the descriptor is closed, the lock is released."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        refuse_foreign(path, "CARD_STATE_DIR")
        raise StateError(
            f"the lock {path} cannot be opened: {error.strerror}; set CARD_STATE_DIR to another folder"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise StateError(
            f"another instance (pid {holder}) uses {path.parent}: stop it, or set CARD_STATE_DIR to another folder",
            code="state_in_use",
        ) from error
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _refuse_link(path: Path, setting: str) -> None:
    if path.is_symlink():
        raise StateError(
            f"{path} is a symbolic link, and another user may control its target: remove the link, or set {setting} to "
            "the real path",
            code="state_symlink",
        )


def _create(path: Path) -> bool:
    """Create the directory; False if ``path`` exists."""
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return False
    return True


def _directory_status(path: Path, setting: str) -> os.stat_result:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(f"{path} is not a directory: move it away, or set {setting} to another path")
    return found


def _restrict(path: Path, setting: str) -> None:
    """Set the mode 0700, if the directory is empty."""
    with os.scandir(path) as entries:
        if any(entries):
            raise StateError(
                f"other users can enter {path}, and whoever connects to the sockets in it can run any command: run "
                f"chmod 700 on it if only you use it, or set {setting} to a private directory",
                code="state_directory_open",
            )
    path.chmod(0o700)


def _unusable(path: Path, setting: str, error: OSError) -> StateError:
    return StateError(f"{path} cannot be used: {error.strerror}; set {setting} to another path")
