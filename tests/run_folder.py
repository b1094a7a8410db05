"""A pytest plugin: a folder that all workers of a run share, for what is dear to make."""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def run_folder() -> Iterator[Path]:
    """The run's folder. It lies right under /tmp, because the path of a Unix socket has to stay within 107 bytes. Every
    account may pass through it. The last worker removes it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
    folder = Path("/tmp", f"tests-{run[:16]}")
    folder.mkdir(mode=0o711, exist_ok=True)
    with (folder / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        yield folder
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """``with made_once(folder) as is_first``: only one worker at a time is in the block. ``is_first`` is true until a
    worker has left it without an exception; what an unfinished one has put into ``folder`` is removed."""
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_first = not done.exists()
        if is_first:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield is_first
        done.touch()
