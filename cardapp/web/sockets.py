"""The sockets and the lock that the listener owns: made safely, with a clear reason when they cannot be."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import socket
import stat
from pathlib import Path

from cardapp import private
from cardapp.errors import StateError, UsageError

_BACKLOG_PROBE_SECONDS = 1.0


def take_lock(path: Path) -> int:
    """An exclusively locked descriptor of ``path``; closing it lets go. One instance per state directory."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        private.refuse_foreign(path, "CARD_STATE_DIR")
        raise StateError(f"the lock {path} cannot be opened: {error.strerror}; set CARD_STATE_DIR") from error
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


def bind_tcp(host: str, port: int) -> socket.socket:
    """A socket bound to a loopback address, not yet listening; ``port`` 0 takes any free one.

    SO_REUSEADDR lets a restarted service have its port back at once; on Linux it never shares one that is listened on.
    """
    address = "127.0.0.1" if host == "localhost" else host
    if not ipaddress.ip_address(address).is_loopback:
        raise UsageError(
            f"CARD_API_HOST={host!r} is not a loopback address: reach the service by an ssh tunnel instead"
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError as error:
        bound.close()
        raise StateError(
            f"port {port} of {host} cannot be had: {error.strerror}; stop what has it, or set CARD_API_PORT "
            "(0 takes any free one)",
            code="address_in_use" if error.errno == errno.EADDRINUSE else "address_unusable",
        ) from error
    return bound


def bind_unix(path: Path) -> socket.socket:
    """A socket bound to ``path`` with mode 0600 in a directory of ours alone; a stale file there is replaced.

    Raises StateError for a socket that somebody listens on, for anything else in its place, and for a directory that
    others may enter or that is a symlink.
    """
    private.make_directory(path.parent, "CARD_API_SOCKET")
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux takes the file's mode from the socket's inode, so it is never open to others, not even for a moment.
        os.fchmod(bound.fileno(), 0o600)
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise StateError(f"the socket {path} cannot be made: {error.strerror}; set CARD_API_SOCKET") from error
    return bound


def remove_own(path: Path, mark: tuple[int, int]) -> None:
    """Remove the socket file, unless another one has taken its place since (``mark`` is device and inode)."""
    try:
        found = os.lstat(path)
        if (found.st_dev, found.st_ino) == mark:
            os.unlink(path)
    except FileNotFoundError:
        pass


def mark_of(path: Path) -> tuple[int, int]:
    """Device and inode of the file at ``path``."""
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _remove_stale(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    private.refuse_foreign(path, "CARD_API_SOCKET")
    if not stat.S_ISSOCK(found.st_mode):
        raise StateError(f"{path} is there and is no socket: move it away, or set CARD_API_SOCKET")
    if _answers(path):
        raise StateError(
            f"another instance answers on {path}: stop it, or set CARD_API_SOCKET to another path", code="socket_in_use"
        )
    path.unlink(missing_ok=True)


def _answers(path: Path) -> bool:
    """Whether somebody listens. A full queue is somebody too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_BACKLOG_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
