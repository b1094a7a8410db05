"""The TCP sockets and the lock file of the listener."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
from pathlib import Path

from cardapp import private_directories
from cardapp.errors import StateError, UsageError

_PORT_TRIES = 5
_NO_ADDRESS = "address_absent"
_BIND_CODES = {
    errno.EADDRINUSE: "address_in_use",
    errno.EADDRNOTAVAIL: _NO_ADDRESS,
    errno.EAFNOSUPPORT: _NO_ADDRESS,
}


def take_lock(path: Path) -> int:
    """An exclusively locked descriptor of ``path``; closing it releases the lock. It allows one instance per state
    directory."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        private_directories.refuse_foreign(path, "CARD_STATE_DIR")
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


def bind_tcp(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to loopback on one port, not yet listening; ``port`` 0 takes a free one.

    For 127.0.0.1 and localhost the second socket is ``[::1]``, where IPv6 exists: a browser tries both addresses of
    ``localhost``, and another account could serve the one that is left.
    """
    address = "127.0.0.1" if host == "localhost" else host
    if not ipaddress.ip_address(address).is_loopback:
        raise UsageError(
            f"CARD_API_HOST={host!r} is not a loopback address: reach the service by an ssh tunnel instead"
        )
    if address != "127.0.0.1":
        return [_bound(address, port)]
    for _ in range(_PORT_TRIES if port == 0 else 1):
        first = _bound(address, port)
        try:
            return [first, *_bound_to_ipv6(first.getsockname()[1])]
        except StateError as error:
            first.close()
            refused = error
    raise refused


def _bound_to_ipv6(port: int) -> list[socket.socket]:
    try:
        return [_bound("::1", port)]
    except StateError as error:
        if error.code == _NO_ADDRESS:
            return []
        raise


def _bound(address: str, port: int) -> socket.socket:
    """SO_REUSEADDR lets a restarted service have its port again at once; on Linux two listening sockets never share a
    port by it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as undo:
        try:
            bound = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((address, port))
        except OSError as error:
            raise StateError(
                f"port {port} of {address} cannot be used: {error.strerror}; stop the program that uses it, or set "
                "CARD_API_PORT (0 takes any free one)",
                code=_BIND_CODES.get(error.errno or 0, "address_unusable"),
            ) from error
        undo.pop_all()
        return bound
