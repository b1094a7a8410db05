"""The way to the database for every process of the service.

    with database(settings) as conninfo: ...      # DATABASE_URL where that is set, else the private cluster

A client starts the owner of the private cluster (``owner.py``) where there is none, also when it is killed later on, so
that a service recovers without a restart. What the two agree on stands in ``locks.py``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from marketdata import errors
from marketdata.postgres import locks
from marketdata.postgres.cluster import conninfo, rotate
from marketdata.postgres.processes import alive, end, readable
from marketdata.settings import Settings

START_SECONDS = 120.0
"""How long a client waits: a start takes a fraction of a second, the recovery after a crash may take long."""

_POLL_SECONDS = 0.02
_RETRY_SECONDS = 5.0


@contextlib.contextmanager
def database(settings: Settings, *, linger: bool = True) -> Iterator[str]:
    """The libpq connection string of a database that answers and stays while the block runs.

    The private cluster lingers a moment afterwards, for the next command; with ``linger=False`` it has ended when the
    block is left, unless somebody else uses it. Raises the owner's error when the private cluster cannot be had:
    StateError, MissingRequirement, UsageError.
    """
    if settings.database_url:
        yield settings.database_url
        return
    with Client(settings.state_dir, linger=linger) as client:
        yield client.conninfo


class Client:
    """A client's hold on the private cluster of a state directory; ``close`` any number of times."""

    def __init__(self, state_dir: Path, *, linger: bool = True) -> None:
        make_private(state_dir)
        self._linger = linger
        self._state_dir = state_dir
        self.conninfo = conninfo(state_dir)
        self._wake, self._stop = os.pipe()
        self._lock = locks.open_clients(state_dir)
        try:
            _wait_for_ending_owner(self._lock)
            owner = wait_for_owner(state_dir)
        except BaseException:
            os.close(self._wake)
            os.close(self._stop)
            self._let_go()
            raise
        self._thread = threading.Thread(target=self._keep, args=(owner,), name="database-client", daemon=True)
        # A signal is for the main thread, which may wait for it with sigwait; a thread has the mask of its start.
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
        os.close(self._stop)
        self._thread.join()
        os.close(self._wake)
        self._let_go()

    def _let_go(self) -> None:
        # While it is held exclusively nobody else comes, so nobody's database is ended.
        if not self._linger and locks.take(self._lock, locks.EXCLUSIVE):
            _end_owner(self._state_dir)
        os.close(self._lock)

    def _keep(self, owner: int) -> None:
        """Start the next owner whenever the present one is gone."""
        while not self._stopped(owner):
            try:
                owner = wait_for_owner(self._state_dir, self._wake)
            except (errors.MarketError, OSError):
                owner = 0  # a full disk, say: its log tells. What asks for a connection meanwhile is told, too

    def _stopped(self, owner: int) -> bool:
        """Wait until the owner is gone; without one (0) a while. True when the client is closed."""
        try:
            process = os.pidfd_open(owner) if owner else None
        except ProcessLookupError:
            return False
        try:
            watched = [self._wake] if process is None else [self._wake, process]
            return self._wake in readable(watched, _RETRY_SECONDS if process is None else None)
        finally:
            if process is not None:
                os.close(process)


def wait_for_owner(state_dir: Path, wake: int | None = None) -> int:
    """The process id of the owner, which is ready; starts one where there is none. ``wake`` readable cuts it short."""
    deadline = monotonic() + START_SECONDS
    started = False
    while monotonic() < deadline:
        lock = locks.open_owner(state_dir)
        try:
            if locks.take(lock, locks.EXCLUSIVE):
                if started and (said := locks.said(lock)).get("error"):
                    raise _as_error(said)
                locks.say(lock)
                _spawn(state_dir, lock)
                started = True
            # Who was killed left its words: for an instant they stand there while the next one has the lock already.
            elif (said := locks.said(lock)).get("postgres") and alive(said["pid"]):
                return int(said["pid"])
        finally:
            os.close(lock)
        if readable([] if wake is None else [wake], _POLL_SECONDS):
            return 0
    raise errors.StateError(
        f"the database in {state_dir} is still starting after {START_SECONDS:.0f} s, as it does when it recovers "
        f"from a crash; {state_dir / 'database.log'} tells how far it is. Try again later",
        code="starting",
    )


def _spawn(state_dir: Path, lock: int) -> None:
    """Start the owner, detached, with the lock that is held here; returns at once."""
    log_path = state_dir / "database.log"
    rotate(log_path)
    with log_path.open("ab") as log:
        os.chmod(log_path, 0o600)
        command = [sys.executable, "-P", "-m", "marketdata.postgres.owner", str(state_dir.resolve()), str(lock)]
        # It forks and ends at once: the owner is nobody's child, so it leaves no zombie in its client.
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock],
            start_new_session=True, cwd="/",
        )  # fmt: skip
    if done.returncode != 0:
        raise errors.StateError(f"the database's owner process could not be started; {log_path} tells why")


def _as_error(said: dict[str, Any]) -> errors.MarketError:
    kinds = {kind.__name__: kind for kind in (errors.UsageError, errors.MissingRequirement)}
    return kinds.get(said["error"], errors.StateError)(said["detail"], code=said["code"])


def _end_owner(state_dir: Path) -> None:
    """End the owner, and with it the cluster; returns when both are gone. One that was started to stay does."""
    lock = locks.open_owner(state_dir)
    deadline = monotonic() + START_SECONDS
    try:
        while not locks.take(lock, locks.EXCLUSIVE) and monotonic() < deadline:
            said = locks.said(lock)
            if said.get("stays"):
                return
            if "pid" in said:  # one that was started just now says so soon
                end([said["pid"]], signal.SIGTERM, START_SECONDS)
            readable([], _POLL_SECONDS)
    finally:
        os.close(lock)


def _wait_for_ending_owner(clients: int) -> None:
    """Take the clients' lock, shared; an owner that ends does not let go of it before all is shut down."""
    deadline = monotonic() + START_SECONDS
    while not locks.take(clients, locks.SHARED):
        if monotonic() > deadline:
            raise errors.StateError("the owner of the private database is ending, and takes too long; try again later")
        readable([], _POLL_SECONDS)


def make_private(state_dir: Path) -> None:
    """Make the state directory; nobody else may look into it, PostgreSQL's account may pass through for root."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(state_dir, os.W_OK | os.X_OK):
            raise PermissionError("it is not yours to write to")
    except OSError as error:
        raise errors.StateError(
            f"{state_dir} cannot be the state directory: {error.strerror or error}; set MARKET_STATE_DIR"
        ) from error
