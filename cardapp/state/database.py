"""Opens and migrates the SQLite database. One connection is for writes, and a pool of connections is for reads.

The database uses WAL with ``synchronous=FULL``: a committed change is on the disk, and readers do not wait for the
writer. A database with damaged pages is only read.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from cardapp import private_directories
from cardapp.errors import StateError
from cardapp.state.migrations import migrate
from cardapp.state.page_check import PageCheck
from cardapp.state.sqlite_errors import DAMAGED, damaged, is_damage, translated, translating
from cardapp.state.writer import Writer

Connection = sqlite3.Connection
"""The type of the connections from ``write()`` and ``read()``, for callers that may not import sqlite3."""

CURRENT_LEARNER = "(SELECT learner FROM current_learner)"
"""SQL: the id of the learner whose record is shown and continued. Everything that belongs to a learner is read and
written with it, in the transaction of the caller."""

CHECK_SECONDS = 0.5
"""Opening waits so long for the check of all pages. The check of a larger file continues in the background."""

_BUSY_SECONDS = 5.0
_IDLE_READERS = 8
"""At most this many idle connections for reads stay open. Further connections are opened when needed and closed after
use."""

_log = logging.getLogger(__name__)


def now() -> str:
    """The current time as RFC 3339 text, in UTC, with milliseconds, as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Database:
    """Create it with ``open``. Any thread may use ``write()`` and ``read()``; ``close()`` is idempotent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: StateError | None = None
        """Why nothing is written any more: the file is damaged."""
        self.on_commit: Callable[[], None] = lambda: None
        """This function is called after each commit, in one of the threads whose changes were committed."""
        self._writer: Writer | None = None
        self._check: PageCheck | None = None
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @classmethod
    def open(cls, path: Path, *, check_seconds: float = CHECK_SECONDS) -> Database:
        """Open or create the file (mode 0600, its directory 0700), check its pages and migrate its schema.

        A damaged file is left as it is, and ``damage`` says so. The check delays the opening by at most
        ``check_seconds``; then it continues until ``close()``.

        :raises StateError: the file or its directory is a symbolic link or belongs to another user; or the file belongs
            to another application, has a newer schema, or cannot be opened.
        """
        _make_private(path)
        database = cls(path)
        with translating(path):
            check = PageCheck(_connect(path, "rw"), database._note_damage)
            is_checked = check.wait(check_seconds)
            check.stop()  # its lock would be in the way of a migration
            if database.damage is None:
                database._open_writer()
            if database.damage is None and not is_checked:
                database._check = PageCheck(_connect(path, "rw"), database._note_damage)
        return database

    def _open_writer(self) -> None:
        connection = _connect(self.path, "rw")
        try:
            migrate(connection, path=str(self.path))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException as error:
            connection.close()
            if not isinstance(error, sqlite3.Error) or not is_damage(error):
                raise
            self._note_damage(str(error))
            return
        self._writer = Writer(connection, self.path)
        self._writer.on_commit = self._committed

    @property
    def commits(self) -> int:
        """A number that differs after each write of this process."""
        return self._writer.commits if self._writer is not None else 0

    def _committed(self) -> None:
        self.on_commit()  # it is set later than the writer's

    def _note_damage(self, said: str) -> None:
        if self.damage is None:
            self.damage = damaged(self.path, said)
            _log.error("%s: %s", self.damage.code, self.damage.detail)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A context manager that gives the connection for writes, in a transaction (BEGIN IMMEDIATE). Only one thread
        at a time has this connection.

        After the block the change is on the disk. An exception in the block rolls the change back. Keep the block
        short, because all other writers wait for it. A nested call in the same thread raises RuntimeError.

        :raises StateError: the database is damaged, the disk is full, …; nothing was stored.
        """
        if self.damage is not None or self._writer is None:
            raise self._refusal()
        try:
            with self._writer.transaction() as connection:
                yield connection
        except StateError as error:
            if error.code == DAMAGED and isinstance(error.__cause__, sqlite3.Error):
                self._note_damage(str(error.__cause__))
            raise

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
            except sqlite3.Error as error:
                usable = False
                if is_damage(error):
                    self._note_damage(str(error))
                if self.damage is not None and translated(error, self.path) is None:
                    raise self._refusal() from error  # a table is missing, for example
                raise
            finally:
                self._give_back(connection, usable=usable)

    def close(self) -> None:
        """Close the idle connections now. A connection in use is closed after its use."""
        if self._check is not None:
            self._check.stop()
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._writer is not None:
            self._writer.close()

    def _refusal(self) -> StateError:
        assert self.damage is not None
        return StateError(self.damage.detail, code=self.damage.code)

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
