"""The one process that owns the private cluster of a state directory.

A client that finds no owner starts one (``client.py``); the owner ends shortly after its last client.
``bin/marketdata-db`` runs an owner in the foreground, which stays. PostgreSQL is started from the main thread: the
kernel ends PostgreSQL when that thread dies. Signals are waited for, not handled, so nothing interrupts the owner half-way.
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
from marketdata.postgres.client import make_private
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import end

LINGER_SECONDS = 2.0
"""How long the cluster stays after its last client, so that one-shot commands in a row share one start."""
RESTARTS, RESTART_SECONDS = 5, 60.0
"""A PostgreSQL that dies more often than this is given up."""
LEFTOVER_SECONDS = 60.0
"""How long the cluster of a killed owner may take to end before it is told to at once."""

_WATCH_SECONDS = 0.5
_START_POLL_SECONDS = 0.02
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Owner:
    """Runs the cluster until nobody uses it any more. Main thread only.

    One with ``announce`` runs in the foreground and stays until it is told to end.
    """

    def __init__(self, state_dir: Path, lock: int, *, announce: Callable[[], None] | None = None) -> None:
        self._cluster = Cluster(state_dir)
        self._lock = lock
        self._clients = locks.open_clients(state_dir)
        self._announce = announce
        self._deaths: list[float] = []

    def run(self) -> None:
        """Returns when all is shut down; raises our error, which the clients are told too, when it cannot go on."""
        # These and no others: a client that waits for its signals starts the owner with all of them blocked.
        signal.pthread_sigmask(signal.SIG_SETMASK, _SIGNALS)
        try:
            self._say()
            self._cluster.prepare()
            self._clear()
            self._cluster.launch()
            self._watch()
        except errors.MarketError as error:
            locks.say(self._lock, error=type(error).__name__, code=error.code, detail=error.detail)
            raise
        except OSError as error:
            detail = f"the private database could not be run: {error}"
            locks.say(self._lock, error="StateError", code="state", detail=detail)
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
                self._say()
                self._revive(status, was_ready=ready)
                ready = False
            elif not ready and self._cluster.ready():
                ready = True
                self._say(postgres=self._cluster.process.pid)
                if self._announce is not None:
                    self._announce()
            if self._announce is not None or not self._unused():
                idle_since = None
            elif idle_since is None:
                idle_since = monotonic()
            elif monotonic() - idle_since >= LINGER_SECONDS and locks.take(self._clients, locks.EXCLUSIVE):
                break
        locks.say(self._lock)

    def _say(self, **more: int) -> None:
        locks.say(self._lock, pid=os.getpid(), stays=self._announce is not None, **more)

    def _unused(self) -> bool:
        """True when no client holds its lock. It is not kept: whoever comes now finds the cluster running."""
        if not locks.take(self._clients, locks.EXCLUSIVE):
            return False
        locks.release(self._clients)
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


def serve(state_dir: Path, *, announce: Callable[[], None]) -> None:
    """Own the cluster in this process until SIGTERM, and ``announce`` it each time it has come up.

    Raises StateError when another process owns it already.
    """
    make_private(state_dir)
    lock = locks.open_owner(state_dir)
    try:
        if not locks.take(lock, locks.EXCLUSIVE):
            pid = locks.said(lock).get("pid", "(starting)")
            raise errors.StateError(f"process {pid} owns the database of {state_dir} already", code="owned")
        locks.say(lock)
        Owner(state_dir, lock, announce=announce).run()
    finally:
        os.close(lock)


def _main(state_dir: str, lock: str) -> None:
    if os.fork() == 0:
        try:
            Owner(Path(state_dir), int(lock)).run()
        except errors.MarketError as error:
            sys.exit(f"marketdata-db: {error.detail}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
