"""The three lock files of a state directory, with which the owner of the private cluster and its clients coordinate.

All are locked with flock, so the kernel releases a lock when its process ends, however it ends.

``clients.lock``  Every client holds it shared while it uses the database. The owner shuts down when it can lock the
                  file exclusively, and keeps the file locked until PostgreSQL has ended. A client that starts meanwhile
                  waits for the lock. Then it finds no owner and starts the next one.
``owner.lock``    The owner holds it exclusively. A client that can lock it knows that no owner runs. The client starts
                  an owner and passes the locked descriptor to it, so there is never a second owner. The content is the
                  owner's status as JSON: ``pid``, ``stays`` (true in the foreground) and ``postgres`` (the postmaster's
                  process id, once PostgreSQL accepts connections). After a failure, the content is ``error``, ``code``
                  and ``detail``.
``foreground.lock``  ``bin/marketdata-db`` holds it exclusively while it is the owner or waits to become the owner. No
                  client starts an owner meanwhile.

A command with exclusive use of the database (``exclusive.py``) holds the first two exclusively. The status is then the
command's ``pid``, and its name as ``exclusive``.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

SHARED, EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX


def open_clients_lock(state_dir: Path) -> int:
    return _open(state_dir / "clients.lock")


def open_owner_lock(state_dir: Path) -> int:
    return _open(state_dir / "owner.lock")


def open_foreground_lock(state_dir: Path) -> int:
    return _open(state_dir / "foreground.lock")


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def acquire(file: int, mode: int) -> bool:
    """Lock the file, or convert the present lock, without waiting. Returns False when another process prevents it."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_UN)


def holders(file: int) -> list[int]:
    """The ids of the other processes that hold a lock of the file, as far as this process can see them."""
    inode = os.fstat(file).st_ino
    found = []
    with open("/proc/locks", encoding="ascii") as entries:
        for entry in entries:  # like "3: FLOCK  ADVISORY  READ 1234 fe:00:131 0 EOF"
            fields = entry.split()
            if "FLOCK" in fields and fields[-3].rpartition(":")[2] == str(inode):
                found.append(int(fields[-4]))
    return sorted({pid for pid in found if pid > 0 and pid != os.getpid()})


def read_status(file: int) -> dict[str, Any]:
    """The owner's status; empty when the file contains no complete JSON object."""
    try:
        status = json.loads(os.pread(file, 1 << 16, 0))
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}


def write_status(file: int, **status: Any) -> None:
    """Replace the owner's status; without arguments, empty the file."""
    if not status:
        os.ftruncate(file, 0)
        return
    # The text is padded with spaces to the length of the previous content. If the file were truncated instead, it would
    # be empty for a moment.
    os.pwrite(file, json.dumps(status).encode().ljust(os.fstat(file).st_size), 0)
