"""The one process that owns the private cluster of a state directory, and the way every other process gets to it.

    with database(settings) as conninfo: ...      # DATABASE_URL where that is set, else the private cluster

Two lock files (flock, so a lock is gone with its process however that dies) are all that the processes agree on:

``<state>/clients.lock``  each client holds it shared while it uses the database. The owner ends when it can have it
                          exclusively, and holds it so while it ends: a client that comes meanwhile waits, then finds
                          no owner.
``<state>/owner.lock``    held by the owner. Whoever gets it finds that there is none, starts one and hands the very
                          lock over to it, so there is never a second owner nor a moment without a decision. Its
                          content is what the owner says: nothing while it is not ready, ``{"pid": …}`` when it is,
                          ``{"error": …, "detail": …}`` when it gave up.

A client that lives on when the owner was killed starts the next one, so a service recovers without a restart.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from marketdata import errors
from marketdata.embedded import Cluster, conninfo, rotate
from marketdata.processes import alive, end
from marketdata.settings import Settings

LINGER_SECONDS = 2.0
"""How long the cluster stays after its last client, so that one-shot commands in a row share one start."""
START_SECONDS = 120.0
"""How long a client waits: a start takes a fraction of a second, the recovery after a crash may take long."""
RESTARTS, RESTART_SECONDS = 5, 60.0
"""A PostgreSQL that dies more often than this is given up."""
LEFTOVER_SECONDS = 60.0
"""How long the cluster of a killed owner may take to end before it is told to at once."""

_WATCH_SECONDS = 0.5
_START_POLL_SECONDS = 0.02
_RETRY_SECONDS = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


# -- the client's side -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def database(settings: Settings) -> Iterator[str]:
    """The libpq connection string of a database that answers and stays while the block runs.

    Raises the owner's error when the private cluster cannot be had: StateError, MissingRequirement, UsageError.
    """
    if settings.database_url:
        yield settings.database_url
        return
    with Lease(settings.state_dir) as lease:
        yield lease.conninfo


class Lease:
    """A client's hold on the private cluster of a state directory; ``close`` any number of times."""

    def __init__(self, state_dir: Path) -> None:
        make_private(state_dir)
        self._state_dir = state_dir
        self.conninfo = conninfo(state_dir)
        self._wake, self._stop = os.pipe()
        self._lock = _open(state_dir / "clients.lock")
        try:
            _wait_for_lock(self._lock, fcntl.LOCK_SH, "the database's owner is ending, for too long")
            owner = wait_for_owner(state_dir)
        except BaseException:
            os.close(self._lock)
            os.close(self._wake)
            os.close(self._stop)
            raise
        self._thread = threading.Thread(target=self._keep, args=(owner,), name="database-lease", daemon=True)
        self._thread.start()
        self._open = True

    def __enter__(self) -> Lease:
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
        os.close(self._lock)

    def end_owner(self) -> None:
        """End the owner, and the cluster with it, at once; returns when both are gone. The lease is closed."""
        self.close()
        lock = _open(self._state_dir / "owner.lock")
        try:
            if pid := _read(lock).get("pid"):
                end([pid], signal.SIGTERM, START_SECONDS)
        finally:
            os.close(lock)

    def _keep(self, owner: int) -> None:
        """Start the next owner whenever the present one is gone."""
        while not self._stopped(owner):
            try:
                owner = wait_for_owner(self._state_dir, self._wake)
            except (errors.MarketError, OSError):
                owner = 0  # a full disk, say: its log tells. What asks for a connection meanwhile is told, too

    def _stopped(self, owner: int) -> bool:
        """Wait until the owner is gone; without one (0) a while. True when the lease is closed."""
        try:
            process = os.pidfd_open(owner) if owner else None
        except ProcessLookupError:
            return False
        try:
            watched = [self._wake] if process is None else [self._wake, process]
            return self._wake in select.select(watched, [], [], _RETRY_SECONDS if process is None else None)[0]
        finally:
            if process is not None:
                os.close(process)


def wait_for_owner(state_dir: Path, wake: int | None = None) -> int:
    """The process id of the owner, which is ready; starts one where there is none. ``wake`` readable cuts it short."""
    deadline = monotonic() + START_SECONDS
    started = False
    while monotonic() < deadline:
        lock = _open(state_dir / "owner.lock")
        try:
            if _try_lock(lock, fcntl.LOCK_EX):
                if started and (said := _read(lock)).get("error"):
                    raise _as_error(said)
                os.ftruncate(lock, 0)
                _spawn(state_dir, lock)
                started = True
            # Who was killed left its words: for an instant they stand there while the next one has the lock already.
            elif (pid := _read(lock).get("pid")) and alive(pid):
                return int(pid)
        finally:
            os.close(lock)
        if select.select([wake] if wake is not None else [], [], [], _START_POLL_SECONDS)[0]:
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
        command = [sys.executable, "-P", "-m", "marketdata.owner", str(state_dir.resolve()), str(lock)]
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


# -- the owner's side ------------------------------------------------------------------------------------------------


class Owner:
    """Runs the cluster until it is told to end or, unless ``stay``, nobody uses it any more. Main thread only."""

    def __init__(self, state_dir: Path, lock: int, *, stay: bool = False) -> None:
        self._cluster = Cluster(state_dir)
        self._lock = lock
        self._clients = _open(state_dir / "clients.lock")
        self._stay = stay
        self._deaths: list[float] = []

    def run(self) -> None:
        """Returns when all is shut down; raises our error, which the clients are told too, when it cannot go on."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._cluster.prepare()
            self._clear()
            self._cluster.launch()
            self._watch()
        except errors.MarketError as error:
            _write(self._lock, {"error": type(error).__name__, "code": error.code, "detail": error.detail})
            raise
        except OSError as error:
            detail = f"the private database could not be run: {error}"
            _write(self._lock, {"error": "StateError", "code": "state", "detail": detail})
            raise errors.StateError(detail) from error
        finally:
            self._cluster.stop()

    def _watch(self) -> None:
        ready, idle_since = False, None
        while True:
            came = signal.sigtimedwait(_SIGNALS, _WATCH_SECONDS if ready else _START_POLL_SECONDS)
            if came is not None and came.si_signo != signal.SIGCHLD:
                break
            if (status := self._cluster.process.poll()) is not None:
                _write(self._lock, None)
                self._revive(status, was_ready=ready)
                ready = False
            elif not ready and self._cluster.ready():
                ready = True
                _write(self._lock, {"pid": os.getpid(), "postgres": self._cluster.process.pid})
            if self._stay or not self._unused():
                idle_since = None
            elif idle_since is None:
                idle_since = monotonic()
            elif monotonic() - idle_since >= LINGER_SECONDS and _try_lock(self._clients, fcntl.LOCK_EX):
                break
        _write(self._lock, None)

    def _unused(self) -> bool:
        """True when no client holds its lock. It is not kept: whoever comes now finds the cluster running."""
        if not _try_lock(self._clients, fcntl.LOCK_EX):
            return False
        fcntl.flock(self._clients, fcntl.LOCK_UN)
        return True

    def _revive(self, status: int, *, was_ready: bool) -> None:
        """Start PostgreSQL again after it died; a start that fails by itself, or too many deaths, is the end."""
        now = monotonic()
        self._deaths = [at for at in self._deaths if now - at < RESTART_SECONDS] + [now]
        if (status > 0 and not was_ready) or len(self._deaths) > RESTARTS:
            raise errors.StateError(
                f"PostgreSQL ended with status {status}; its last words, from {self._cluster.log}:\n"
                f"{self._cluster.last_words()}",
                code="database_failed",
            )
        sys.stderr.write(f"marketdata-db: PostgreSQL ended with status {status}; it is started again\n")
        self._clear()
        self._cluster.launch()

    def _clear(self) -> None:
        """Wait until nothing of an earlier PostgreSQL works in the data directory any more.

        Only then may its postmaster.pid be taken for stale. A killed owner's postmaster is shutting down by itself, a
        killed postmaster's backends notice within moments.
        """
        for how, seconds in ((signal.SIGINT, LEFTOVER_SECONDS), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
            deadline = monotonic() + seconds
            while (left := self._cluster.residents()) and monotonic() < deadline:
                end(left, how, deadline - monotonic())
            if not left:
                return
        raise errors.StateError(f"processes {left} of an earlier PostgreSQL do not end; end them, then try again")


def serve(state_dir: Path, *, stay: bool) -> None:
    """Own the cluster in this process until SIGTERM; StateError when another process owns it already."""
    make_private(state_dir)
    lock = _open(state_dir / "owner.lock")
    try:
        if not _try_lock(lock, fcntl.LOCK_EX):
            raise errors.StateError(
                f"process {_read(lock).get('pid', '(starting)')} owns the database of {state_dir} already", code="owned"
            )
        os.ftruncate(lock, 0)
        Owner(state_dir, lock, stay=stay).run()
    finally:
        os.close(lock)


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


# -- the lock files --------------------------------------------------------------------------------------------------


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_lock(file: int, how: int, otherwise: str) -> None:
    deadline = monotonic() + START_SECONDS
    while not _try_lock(file, how):
        if monotonic() > deadline:
            raise errors.StateError(otherwise)
        select.select([], [], [], _START_POLL_SECONDS)


def _read(file: int) -> dict[str, Any]:
    """What the owner says; nothing when it says nothing, or is about to."""
    try:
        said = json.loads(os.pread(file, 1 << 16, 0))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _write(file: int, said: dict[str, Any] | None) -> None:
    os.ftruncate(file, 0)
    if said:
        os.pwrite(file, json.dumps(said).encode(), 0)


def _main(state_dir: str, lock: str) -> None:
    if os.fork() == 0:
        try:
            Owner(Path(state_dir), int(lock)).run()
        except errors.MarketError as error:
            sys.exit(f"marketdata-db: {error.detail}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
