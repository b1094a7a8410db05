"""Exchanges the names of two folders atomically (renameat2 with RENAME_EXCHANGE), and syncs files to the disk."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

from marketdata.errors import StateError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders of one file system, and sync. Raises StateError when the kernel or the file
    system cannot do so."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        renameat2 = libc.renameat2
    except AttributeError as error:
        raise StateError("the C library of this machine has no renameat2, which exchanges two folders") from error
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise StateError(f"the file system cannot exchange {one} and {other} in one step: {reason}")
    for folder in {one.parent, other.parent}:
        sync(folder)


def check_exchange(folder: Path) -> None:
    """Exchange two new folders within ``folder`` as a probe. Raises StateError when this is not possible."""
    probes = folder / "exchange-1", folder / "exchange-2"
    try:
        for probe in probes:
            probe.mkdir()
        exchange(*probes)
    finally:
        for probe in probes:
            with contextlib.suppress(OSError):
                probe.rmdir()


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
