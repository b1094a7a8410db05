"""Group commit: all threads share one writing connection, and queued writes share one COMMIT.

Each COMMIT needs an fsync, which takes nearly all of a write's time. So a thread leaves the transaction open if another
thread is already waiting. The waiting thread adds its changes, and the last thread commits for all. Each thread returns
only after this COMMIT. The changes of each thread are in a savepoint. If a thread fails, only its own changes are
rolled back.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cardapp.errors import StateError
from cardapp.state.sqlite_errors import translated, translating

MAX_GROUP = 64
"""Maximum number of writes per COMMIT. The limit also bounds the time that the first write of a group waits."""


class _Group:
    """Writes that share one COMMIT."""

    def __init__(self) -> None:
        self.size = 0
        self.done = threading.Event()
        self.error: sqlite3.Error | None = None


class Writer:
    """Owns the connection for writes (``isolation_level=None``, ``check_same_thread=False``) and closes it."""

    def __init__(self, connection: sqlite3.Connection, path: Path, recheck: float = 1.0) -> None:
        """``recheck`` is the number of seconds after which a thread looks whether it must commit for another one."""
        self._connection = connection
        self._path = path
        self._recheck = recheck
        self._turn = threading.Lock()
        self._owner: int | None = None
        self._queue = threading.Lock()
        self.queued = 0
        """The number of threads that wait for their turn."""
        self._group: _Group | None = None
        self._closed = False
        self.on_commit: Callable[[], None] = lambda: None
        """This function is called after each commit, in one of the threads whose changes were committed."""
        self.commits = 0
        """Number of commits. It is counted before the threads whose changes were committed continue."""

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A context manager that gives the connection, in a transaction. After the block its changes are durable. If
        the block raises an exception, they are rolled back."""
        if self._owner == threading.get_ident():
            raise RuntimeError(
                "this thread is already in a write: pass its connection on instead of starting another write"
            )
        self._take_turn()
        group = None
        try:
            with translating(self._path):
                group = self._join()
                self._connection.execute("SAVEPOINT member")
                try:
                    yield self._connection
                    self._connection.execute("RELEASE member")
                except BaseException as error:
                    self._undo(error)
                    raise
        finally:
            self._end_turn()
        self._await(group)

    def close(self) -> None:
        with self._turn:
            if not self._closed:
                self._closed = True
                self._commit()
                self._connection.close()

    def _take_turn(self) -> None:
        with self._queue:
            self.queued += 1
        try:
            self._turn.acquire()
        finally:
            with self._queue:
                self.queued -= 1
        self._owner = threading.get_ident()

    def _end_turn(self) -> None:
        """Commit, unless another thread waits for its turn. Each thread calls this, so the last thread commits."""
        self._owner = None
        try:
            if self._group is not None and (self.queued == 0 or self._group.size >= MAX_GROUP):
                self._commit()
        finally:
            self._turn.release()

    def _join(self) -> _Group:
        if self._closed:
            raise StateError(
                "the database is closed, because the program is stopping; repeat the request after its next start"
            )
        if self._group is None:
            self._connection.execute("BEGIN IMMEDIATE")
            self._group = _Group()
        self._group.size += 1
        return self._group

    def _undo(self, error: BaseException) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK TO member")
            self._connection.execute("RELEASE member")
        elif isinstance(error, sqlite3.Error):
            # After an error like a full disk SQLite rolls back the whole transaction, with the other threads' changes.
            self._finish(error)

    def _commit(self) -> None:
        if self._group is None:
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._finish(error)
        else:
            self._finish(None)

    def _finish(self, error: sqlite3.Error | None) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.error = error
            self.commits += 1
            group.done.set()
            self.on_commit()

    def _await(self, group: _Group) -> None:
        while not group.done.wait(self._recheck):
            # The thread that should commit may have been interrupted before its turn. Commit in its place.
            with self._turn:
                if self._group is group:
                    self._commit()
        if group.error is not None:
            raise translated(group.error, self._path) or group.error
