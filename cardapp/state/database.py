"""Opens and migrates the SQLite database. One connection is for writes, and a pool of connections is for reads.

The database uses WAL with ``synchronous=FULL``: a committed change is on the disk, and readers do not wait for the
writer.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from cardapp import private_directories
from cardapp.errors import StateError
from cardapp.state.migrations import migrate
from cardapp.state.sqlite_errors import translating
from cardapp.state.writer import Writer

Connection = sqlite3.Connection
"""The type of the connections from ``write()`` and ``read()``, for callers that may not import sqlite3."""

CURRENT_LEARNER = "(SELECT learner FROM current_learner)"
"""SQL: the id of the learner whose record is shown and continued. Everything that belongs to a learner is read and
written with it, in the transaction of the caller."""

_BUSY_SECONDS = 5.0
_IDLE_READERS = 8
"""At most this many idle connections for reads stay open. Further connections are opened when needed and closed after
use."""


def now() -> str:
    """The current time as RFC 3339 text, in UTC, with milliseconds, as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Database:
    """Create it with ``open``. Any thread may use ``write()`` and ``read()``; ``close()`` is idempotent."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self.path = path
        self._writer = writer
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open or create the file (mode 0600, its directory 0700) and migrate its schema.

        :raises StateError: the file or its directory is a symbolic link or belongs to another user; or the file belongs
            to another application, has a newer schema, or cannot be opened.
        """
        _make_private(path)
        with translating(path):
            connection = _connect(path, "rw")
            try:
                migrate(connection, path=str(path))
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
            except BaseException:
                connection.close()
                raise
        return cls(path, Writer(connection, path))

    @property
    def on_commit(self) -> Callable[[], None]:
        """This function is called after each commit, in one of the threads whose changes were committed."""
        return self._writer.on_commit

    @on_commit.setter
    def on_commit(self, called: Callable[[], None]) -> None:
        self._writer.on_commit = called

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """A context manager that gives the connection for writes, in a transaction (BEGIN IMMEDIATE). Only one thread
        at a time has this connection.

        After the block the change is on the disk. An exception in the block rolls the change back. Keep the block
        short, because all other writers wait for it. A nested call in the same thread raises RuntimeError.
        """
        return self._writer.transaction()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A context manager that gives a read-only connection. It sees one snapshot of the database. Keep the block
        short, because SQLite cannot shorten the WAL meanwhile."""
        with translating(self.path):
            connection = self._take()
            usable = True
            try:
                connection.execute("BEGIN")
                yield connection
            except sqlite3.Error:
                usable = False
                raise
            finally:
                self._give_back(connection, usable=usable)

    def close(self) -> None:
        """Close the idle connections now. A connection in use is closed after its use."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._writer.close()

    def _take(self) -> sqlite3.Connection:
        with self._guard:
            if self._closed:
                raise StateError(
                    "the database is closed, because the program is stopping; repeat the request after its next start"
                )
            if self._idle:
                return self._idle.pop()
        connection = _connect(self.path, "rw")
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _give_back(self, connection: sqlite3.Connection, *, usable: bool) -> None:
        if usable:
            connection.execute("ROLLBACK")
            with self._guard:
                if not self._closed and len(self._idle) < _IDLE_READERS:
                    self._idle.append(connection)
                    return
        connection.close()


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection to a database that a running server may be using. It sees one snapshot of the database.

    :raises StateError: the file does not exist, or is no database of this application.
    """
    if not path.is_file():
        raise StateError(f"there is no database {path}; set CARD_STATE_DIR or CARD_STATE_DATABASE to its location")
    with translating(path):
        connection = _connect(path, "ro")
        try:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'event'").fetchone() is None:
                raise StateError(f"{path} is not a database of the card application; set CARD_STATE_DATABASE to one")
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _make_private(path: Path) -> None:
    """Refuse symbolic links and other users' files; create the directory and an empty file if missing."""
    private_directories.make_directory_of_file(path.parent, "CARD_STATE_DATABASE")
    try:
        for place in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            private_directories.refuse_foreign(place, "CARD_STATE_DATABASE")
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        # Do not open an existing file here: closing it would release all POSIX locks that this process has on it.
        elif not path.is_file():
            raise StateError(f"{path} is not a regular file; set CARD_STATE_DATABASE to another path")
    except OSError as error:
        raise StateError(
            f"the database {path} cannot be opened: {error.strerror}; give this user access to it, or set "
            "CARD_STATE_DIR to a directory that this user owns",
            code="state_cannot_open",
        ) from error
