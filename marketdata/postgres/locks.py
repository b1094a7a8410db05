"""The two lock files of a state directory, all that the owner of its private cluster and the clients agree on. They are
locked with flock, so a lock is gone with its process, however that dies.

``clients.lock``  Each client holds it shared while it uses the database. The owner ends when it can have it
                  exclusively, and holds it so while it ends: a client that comes meanwhile waits, then finds no owner.
``owner.lock``    The owner holds it. Whoever gets it finds that there is none, starts one and hands the very lock over
                  to it, so there is never a second owner nor a moment without a decision. Its content is what the
                  owner says: its ``pid``, whether it ``stays``, and the process of ``postgres`` once that is
                  ready; or ``error``, ``code`` and ``detail`` when it gave up.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

SHARED, EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX


def open_clients(state_dir: Path) -> int:
    return _open(state_dir / "clients.lock")


def open_owner(state_dir: Path) -> int:
    return _open(state_dir / "owner.lock")


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def release(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_UN)


def take(file: int, how: int) -> bool:
    """Take the lock, or what this process holds of it, ``how``; False when another's is in the way."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def said(file: int) -> dict[str, Any]:
    """What the owner says; nothing when it says nothing, or is about to."""
    try:
        found = json.loads(os.pread(file, 1 << 16, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def say(file: int, **words: Any) -> None:
    """Say this instead of what was said; without words nothing."""
    if not words:
        os.ftruncate(file, 0)
        return
    # Blanks cover the rest of what was said: a reader never meets an empty file in between.
    os.pwrite(file, json.dumps(words).encode().ljust(os.fstat(file).st_size), 0)
