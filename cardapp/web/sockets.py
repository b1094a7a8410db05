"""The TCP socket and the lock file of the listener."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import socket
from pathlib import Path

from cardapp import private
from cardapp.errors import StateError, UsageError


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
