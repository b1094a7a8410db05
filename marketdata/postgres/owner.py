"""The owner: the single process that runs the private cluster of a state directory.

A client that finds no owner starts one (``client.py``). Such an owner ends shortly after its last client has gone.
``bin/marketdata-db`` runs an owner in the foreground. It ends only on a signal. The main thread starts PostgreSQL,
because the kernel ends PostgreSQL when the thread that started it dies. The owner waits for signals instead of handling
them, so that no handler can interrupt it between two steps.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from marketdata import errors
from marketdata.postgres import locks
from marketdata.postgres.client import make_private, refuse_while_converted
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import continue_stopped, signal_and_wait, wait_readable

LINGER_SECONDS = 2.0
"""How long the cluster continues to run after its last client, so that consecutive commands share a start."""
MAX_RESTARTS, RESTARTS_PERIOD = 5, 60.0
"""The owner gives up when PostgreSQL dies more often than this within the period (seconds)."""
OLD_CLUSTER_TIMEOUT = 60.0
"""If an owner was killed, its PostgreSQL may still run. It then gets a fast shutdown, and after this many seconds an
immediate one."""

_CHECK_SECONDS = 0.5
_START_CHECK_SECONDS = 0.02
_LOOK_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Owner:
    """Runs the cluster until the last client is gone. Main thread only.

    With ``on_ready`` it runs in the foreground, until a signal. ``on_ready`` is called each time PostgreSQL begins to
    accept connections.
    """

    def __init__(
        self, state_dir: Path, socket_dir: Path | None, lock: int, *, on_ready: Callable[[], None] | None = None
    ) -> None:
        self._cluster = Cluster(state_dir, socket_dir)
        self._lock = lock
        self._clients_lock = locks.open_clients_lock(state_dir)
        self._on_ready = on_ready
        self._deaths: list[float] = []

    def run(self) -> None:
        """Run the cluster until it has shut down. If this fails, the error is written to the status, for the clients,
        and raised."""
        # SIG_SETMASK also unblocks the other signals, which a client may have blocked before it started the owner.
        signal.pthread_sigmask(signal.SIG_SETMASK, _SIGNALS)
        try:
            self._write_status()
            self._cluster.prepare()
            end_old_processes(self._cluster)
            self._cluster.start()
            self._supervise()
        except errors.MarketError as error:
            locks.write_status(self._lock, error=type(error).__name__, code=error.code, detail=error.detail)
            raise
        except OSError as error:
            detail = f"the private database cannot run: {error}"
            locks.write_status(self._lock, error="StateError", code="state", detail=detail)
            raise errors.StateError(detail) from error
        finally:
            self._cluster.stop()

    def _supervise(self) -> None:
        """Restart PostgreSQL when it dies or its programs were replaced. Returns on a signal, or some time after the
        last client has gone."""
        ready, idle_since = False, None
        while True:
            received = signal.sigtimedwait(_SIGNALS, _CHECK_SECONDS if ready else _START_CHECK_SECONDS)
            if received is not None and received.si_signo != signal.SIGCHLD:
                break
            if (status := self._cluster.postmaster.poll()) is not None:
                self._write_status()
                self._restart(status, was_ready=ready)
                ready = False
            elif not ready and self._cluster.is_ready():
                ready = True
                self._write_status(postgres=self._cluster.postmaster.pid)
                if self._on_ready is not None:
                    self._on_ready()
            elif ready and self._cluster.is_replaced():
                self._restart_replaced()
                ready = False
            if self._on_ready is not None or self._has_clients():
                idle_since = None
            elif idle_since is None:
                idle_since = monotonic()
            elif monotonic() - idle_since >= LINGER_SECONDS and locks.acquire(self._clients_lock, locks.EXCLUSIVE):
                break
        locks.write_status(self._lock)

    def _write_status(self, **more: int) -> None:
        locks.write_status(self._lock, pid=os.getpid(), stays=self._on_ready is not None, **more)

    def _has_clients(self) -> bool:
        """Whether a client holds its lock. The lock is released again, so that a client that starts now need not
        wait."""
        if not locks.acquire(self._clients_lock, locks.EXCLUSIVE):
            return True
        locks.release(self._clients_lock)
        return False

    def _restart(self, status: int, *, was_ready: bool) -> None:
        """Start PostgreSQL again. Raises StateError when it failed during its start, or died too often."""
        now = monotonic()
        self._deaths = [at for at in self._deaths if now - at < RESTARTS_PERIOD] + [now]
        if (status > 0 and not was_ready) or len(self._deaths) > MAX_RESTARTS:
            raise errors.StateError(
                f"PostgreSQL ended with status {status}; the end of {self._cluster.log}:\n{self._cluster.recent_log()}",
                code="database_failed",
            )
        sys.stderr.write(f"marketdata-db: PostgreSQL ended with status {status}; starting it again\n")
        end_old_processes(self._cluster)
        self._cluster.start()

    def _restart_replaced(self) -> None:
        """Restart PostgreSQL with the new programs, because backends of the old ones cannot load the new libraries."""
        sys.stderr.write("marketdata-db: PostgreSQL's programs were replaced; starting it again\n")
        self._write_status()
        self._cluster.stop()
        self._cluster.start()


def end_old_processes(cluster: Cluster) -> None:
    """End all processes of an earlier PostgreSQL that use the data directory. After this, postmaster.pid is stale.

    The postmaster of a killed owner is already shutting down, and backends of a killed postmaster exit within moments.
    """
    for number, timeout in ((signal.SIGINT, OLD_CLUSTER_TIMEOUT), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
        deadline = monotonic() + timeout
        while (running := cluster.processes()) and monotonic() < deadline:
            continue_stopped(running)
            signal_and_wait(running, number, deadline - monotonic())
        if not running:
            return
    raise errors.StateError(f"processes {running} of an earlier PostgreSQL did not end; kill them, then try again")


def serve(
    state_dir: Path, socket_dir: Path | None = None, *, on_ready: Callable[[], None], takes_over: bool = False
) -> None:
    """Own the cluster in this process until SIGTERM, SIGINT or SIGHUP.

    ``on_ready`` is called each time PostgreSQL begins to accept connections. Raises StateError (``owned``) if another
    process owns the cluster. With ``takes_over``, an owner in the background is ended instead.
    """
    make_private(state_dir)
    lock, foreground = locks.open_owner_lock(state_dir), locks.open_foreground_lock(state_dir)
    try:
        _lock_foreground(foreground, lock, state_dir)
        while not locks.acquire(lock, locks.EXCLUSIVE):
            refuse_while_converted(state_dir)
            status = locks.read_status(lock)
            if status.get("stays") or not takes_over:
                raise _owned(lock, state_dir)
            if "pid" in status:  # an owner that was started just now writes its status within moments
                signal_and_wait([status["pid"]], signal.SIGTERM, OLD_CLUSTER_TIMEOUT)
            wait_readable([], _START_CHECK_SECONDS)
        locks.write_status(lock)
        Owner(state_dir, socket_dir, lock, on_ready=on_ready).run()
    finally:
        os.close(lock)
        os.close(foreground)


def _lock_foreground(foreground: int, lock: int, state_dir: Path) -> None:
    """Lock ``foreground.lock``. This may need several attempts, because a client that checks the lock holds it for a
    moment."""
    deadline = monotonic() + _LOOK_SECONDS
    while not locks.acquire(foreground, locks.EXCLUSIVE):
        if monotonic() > deadline:
            raise _owned(lock, state_dir)
        wait_readable([], _START_CHECK_SECONDS)


def _owned(lock: int, state_dir: Path) -> errors.StateError:
    pid = locks.read_status(lock).get("pid", "(starting)")
    return errors.StateError(f"process {pid} already owns the database of {state_dir}", code="owned")


def _main(lock: str, state_dir: str, socket_dir: str | None = None) -> None:
    if os.fork() == 0:
        try:
            Owner(Path(state_dir), Path(socket_dir) if socket_dir else None, int(lock)).run()
        except errors.MarketError as error:
            sys.exit(f"marketdata-db: {error.detail}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
