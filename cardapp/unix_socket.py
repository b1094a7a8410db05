"""Binds a Unix socket that only this user can use, identifies socket files, and finds the process at the other end of a
connection.

Any process that can connect to a socket of this program can run commands as this user. So a socket gets mode 0600, in
a directory that only this user may enter.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cardapp import private_directories
from cardapp.errors import StateError, UsageError

MAX_PATH = 107
"""Maximum number of bytes in the path of a socket: ``sun_path`` has 108 bytes with the final NUL (unix(7))."""

_UCRED = struct.Struct("3i")  # pid, uid, gid: unix(7), SO_PEERCRED


@dataclass(frozen=True)
class SocketIdentity:
    """Distinguishes a socket file from a later one at the same path. The file system may reuse the inode, but not the
    time."""

    device: int
    inode: int
    ctime_ns: int


def check_path(path: Path, setting: str) -> None:
    """Check that ``path`` is short enough for a socket. ``setting`` is the setting that the user can change.

    :raises UsageError: the path is too long.
    """
    length = len(os.fsencode(path))
    if length > MAX_PATH:
        raise UsageError(
            f"the socket path {path} has {length} bytes, the kernel allows {MAX_PATH}: set {setting} to a shorter path"
        )


def bind(path: Path, setting: str) -> socket.socket:
    """Bind a stream socket to ``path``, with mode 0600. It does not listen yet.

    The directory is made if it is missing. A socket file on which no process listens is replaced. ``setting`` is the
    setting that decides the path.

    :raises UsageError: the path is too long.
    :raises StateError: another process listens there (code ``socket_in_use``), the path holds another kind of file, or
        other users can enter the directory.
    """
    check_path(path, setting)
    private_directories.make_directory(path.parent, setting)
    _remove_stale(path, setting)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the file the mode of the socket's inode, so the file is never open to other users.
        os.fchmod(bound.fileno(), 0o600)
        bound.bind(os.fspath(path))
    except OSError as error:
        bound.close()
        raise StateError(f"cannot create the socket {path}: {error.strerror}; set {setting} to another path") from error
    return bound


def identity(path: str | os.PathLike[str]) -> SocketIdentity | None:
    """The identity of the socket file at ``path``; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return SocketIdentity(found.st_dev, found.st_ino, found.st_ctime_ns)


def remove(path: Path, bound: SocketIdentity | None) -> None:
    """Remove the socket file at ``path``, unless its identity is no longer ``bound``."""
    if bound is not None and identity(path) == bound:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


@contextlib.contextmanager
def pinned(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a path to which a client can connect in place of ``path``. It always leads to the file that is at ``path``
    now. If that file is a symbolic link, no connection is possible.

    Without this, a program in a container could replace the socket of its session by a link, and so make the client
    connect to a socket outside the container.

    :raises OSError: there is no file.
    """
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def peer(connected: socket.socket) -> tuple[int, int]:
    """Pid and uid of the process at the other end of the connection (``SO_PEERCRED``)."""
    pid, uid, _gid = _UCRED.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return int(pid), int(uid)


def _remove_stale(path: Path, setting: str) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    private_directories.refuse_foreign(path, setting)
    if not stat.S_ISSOCK(found.st_mode):
        raise StateError(f"{path} exists and is not a socket: move it away, or set {setting} to another path")
    if has_listener(path):
        raise StateError(
            f"another process listens on {path}: stop it, or set {setting} to another path", code="socket_in_use"
        )
    path.unlink(missing_ok=True)


def has_listener(path: Path, seconds: float = 1.0) -> bool:
    """Whether a process listens on the socket at ``path``. If its queue is full for ``seconds``, it does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(seconds)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
