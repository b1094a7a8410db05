"""Gives every process of the service access to the database.

    with database(settings) as conninfo: ...      # DATABASE_URL if it is set, else the private cluster

A client starts the owner process of the private cluster (``owner.py``) if none runs, and again when the owner dies. So
a service recovers without a restart. ``locks.py`` describes how clients and owner coordinate.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from marketdata import errors, file_system
from marketdata.postgres import locks
from marketdata.postgres.access import socket_in
from marketdata.postgres.cluster import conninfo, rotate_log
from marketdata.postgres.processes import continue_stopped, is_running, signal_and_wait, wait_readable
from marketdata.secretfile import make_folder
from marketdata.settings import Settings

START_TIMEOUT = 120.0
"""Seconds that a client waits for the database. A start takes less than a second, but crash recovery may take long."""

_POLL_SECONDS = 0.02
_RETRY_SECONDS = 5.0

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def database(settings: Settings, *, linger: bool = True) -> Iterator[str]:
    """Yield the libpq connection string of a running database, and keep the private cluster running meanwhile.

    Afterwards the private cluster keeps running for a moment, so that a next command finds it. With ``linger=False`` it
    has shut down when the block is left, unless another client uses it. If the private cluster does not start, this
    raises the error of the owner: StateError, MissingRequirement or UsageError.
    """
    if settings.database_url:
        yield settings.database_url
        return
    with Client(settings.state_dir, socket_dir=settings.socket_dir, linger=linger) as client:
        yield client.conninfo


class Client:
    """Keeps the private cluster of a state directory running until ``close``, which may be called repeatedly.

    If this client starts the cluster, ``socket_dir`` is the folder of the cluster's second socket.
    """

    def __init__(self, state_dir: Path, *, socket_dir: Path | None = None, linger: bool = True) -> None:
        make_private(state_dir)
        self._linger = linger
        self._state_dir = state_dir
        self._socket_dir = socket_dir
        self.conninfo = conninfo(state_dir)
        # Closing the write end makes the read end readable, which stops the thread.
        self._stop_reader, self._stop_writer = os.pipe()
        self._lock = locks.open_clients_lock(state_dir)
        try:
            _lock_shared(self._lock, state_dir)
            owner = wait_for_owner(state_dir, socket_dir)
        except BaseException:
            os.close(self._stop_reader)
            os.close(self._stop_writer)
            self._release()
            raise
        self._check_socket(socket_dir)
        self._thread = threading.Thread(
            target=self._keep_owner_running, args=(owner,), name="database-owner-monitor", daemon=True
        )
        # A thread inherits the signal mask. All signals are blocked in the new thread, because the main thread may wait
        # for them with sigwait.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._open = True

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        os.close(self._stop_writer)
        self._thread.join()
        os.close(self._stop_reader)
        self._release()

    def _release(self) -> None:
        # While this client has the lock exclusively, no other client can start. So nobody needs the owner.
        if not self._linger and locks.acquire(self._lock, locks.EXCLUSIVE):
            _end_owner(self._state_dir)
        os.close(self._lock)

    @staticmethod
    def _check_socket(folder: Path | None) -> None:
        """Warn if PostgreSQL already runs without the second socket that this client asks for."""
        if folder is not None and not socket_in(folder).exists():
            _log.warning(
                "PostgreSQL was started by a process without MARKET_SOCKET_DIR and has no socket in %s: stop all "
                "processes that use it, wait three seconds, and start them with the setting",
                folder,
            )

    def _keep_owner_running(self, owner: int) -> None:
        """Start the next owner whenever the current one ends, until the client is closed."""
        while not self._wait_for_end_of(owner):
            try:
                owner = wait_for_owner(self._state_dir, self._socket_dir, self._stop_reader)
            except (errors.MarketError, OSError):
                # A cause is for example a full disk. database.log names the cause, and requests fail with
                # DatabaseUnavailable meanwhile.
                owner = 0

    def _wait_for_end_of(self, owner: int) -> bool:
        """Wait until the owner ends or, if there is none (0), until it is time to try again. Returns True when the
        client is closed."""
        try:
            process = os.pidfd_open(owner) if owner else None
        except ProcessLookupError:
            return False
        try:
            descriptors = [self._stop_reader] if process is None else [self._stop_reader, process]
            return self._stop_reader in wait_readable(descriptors, _RETRY_SECONDS if process is None else None)
        finally:
            if process is not None:
                os.close(process)


def wait_for_owner(state_dir: Path, socket_dir: Path | None, stop: int | None = None) -> int:
    """Wait for an owner whose PostgreSQL accepts connections, starting one if needed; returns its process id.

    Returns 0 as soon as the descriptor ``stop`` becomes readable.
    """
    deadline = monotonic() + START_TIMEOUT
    started = False
    while monotonic() < deadline:
        lock = locks.open_owner_lock(state_dir)
        try:
            if not _has_foreground_owner(state_dir) and locks.acquire(lock, locks.EXCLUSIVE):
                if started and (status := locks.read_status(lock)).get("error"):
                    raise _error_from(status)
                locks.write_status(lock)
                _start_owner(state_dir, socket_dir, lock)
                started = True
            # A killed owner leaves its status in the file. The status may still be there when the next owner has the
            # lock. So the process id is checked.
            elif (status := locks.read_status(lock)).get("postgres") and is_running(status["pid"]):
                return int(status["pid"])
        finally:
            os.close(lock)
        if wait_readable([] if stop is None else [stop], _POLL_SECONDS):
            return 0
    raise errors.StateError(
        f"the database in {state_dir} did not start within {START_TIMEOUT:.0f} s. It may be recovering from a crash: "
        f"{state_dir / 'database.log'} shows the progress; try again later",
        code="starting",
    )


def _has_foreground_owner(state_dir: Path) -> bool:
    """Whether ``bin/marketdata-db`` is the owner, or is about to become it."""
    lock = locks.open_foreground_lock(state_dir)
    try:
        return not locks.acquire(lock, locks.SHARED)
    finally:
        os.close(lock)


def _start_owner(state_dir: Path, socket_dir: Path | None, lock: int) -> None:
    """Start a detached owner and pass it the locked descriptor; returns before PostgreSQL is ready."""
    log_path = state_dir / "database.log"
    rotate_log(log_path)
    with log_path.open("ab") as log:
        os.chmod(log_path, 0o600)
        command = [
            sys.executable, "-P", "-m", "marketdata.postgres.owner", str(lock), str(state_dir.resolve()),
            *([] if socket_dir is None else [str(socket_dir)]),
        ]  # fmt: skip
        # The started process forks and exits. So the owner is not a child of this process, which need not wait for its
        # end.
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock],
            start_new_session=True, cwd="/",
        )  # fmt: skip
    if done.returncode != 0:
        raise errors.StateError(f"the owner process of the database did not start; {log_path} says why")


def _error_from(status: dict[str, Any]) -> errors.MarketError:
    classes = {each.__name__: each for each in (errors.UsageError, errors.MissingRequirement)}
    return classes.get(status["error"], errors.StateError)(status["detail"], code=status["code"])


def _end_owner(state_dir: Path) -> None:
    """Stop the owner and wait until it and PostgreSQL have ended. An owner in the foreground is left running."""
    lock = locks.open_owner_lock(state_dir)
    deadline = monotonic() + START_TIMEOUT
    try:
        while not locks.acquire(lock, locks.EXCLUSIVE) and monotonic() < deadline:
            status = locks.read_status(lock)
            if status.get("stays"):
                return
            if "pid" in status:  # an owner that was started just now writes its status within moments
                continue_stopped([status["pid"]])
                signal_and_wait([status["pid"]], signal.SIGTERM, START_TIMEOUT)
            wait_readable([], _POLL_SECONDS)
    finally:
        os.close(lock)


def _lock_shared(clients_lock: int, state_dir: Path) -> None:
    """Lock ``clients.lock`` shared. An owner that shuts down holds it exclusively until PostgreSQL has ended."""
    deadline = monotonic() + START_TIMEOUT
    while not locks.acquire(clients_lock, locks.SHARED):
        refuse_while_converted(state_dir)
        if monotonic() > deadline:
            raise errors.StateError(
                f"the private database has been shutting down for {START_TIMEOUT:.0f} s; try again later"
            )
        wait_readable([], _POLL_SECONDS)


def refuse_while_converted(state_dir: Path) -> None:
    """Raise StateError while a command has the database to itself (``exclusive.py``)."""
    lock = locks.open_owner_lock(state_dir)
    try:
        status = locks.read_status(lock)
    finally:
        os.close(lock)
    if (command := status.get("exclusive")) and is_running(status["pid"]):
        raise errors.StateError(
            f"{command} (process {status['pid']}) has the database of {state_dir} to itself; try again when it has "
            "ended",
            code="exclusive",
        )


def make_private(state_dir: Path) -> None:
    """Create the state directory with mode 0700. Raises StateError when it cannot be created or is not writable."""
    make_folder(state_dir, "MARKET_STATE_DIR")
    if not os.access(state_dir, os.W_OK | os.X_OK):
        raise errors.StateError(f"{file_system.not_permitted(state_dir)}; set MARKET_STATE_DIR to another folder")
