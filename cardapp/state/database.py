"""The one SQLite file: opened safely, migrated, one writer, pooled readers, closed by its owner.

WAL with ``synchronous=FULL``: what was acknowledged is on the disk, and readers never wait for the writer.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import quote

from cardapp import private
from cardapp.errors import StateError
from cardapp.state.migrations import migrate
from cardapp.state.sqlite_errors import translating
from cardapp.state.writer import Writer

Connection = sqlite3.Connection
"""What ``write()`` and ``read()`` hand out; callers name the type without the driver."""

_BUSY_SECONDS = 5.0
_IDLE_READERS = 8
"""Readers kept open between requests; more run at the same time when needed and are closed after."""


class Database:
    """Made by ``open``; ``write()`` and ``read()`` may be used from any thread; ``close()`` may be called twice."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self.path = path
        self._writer = writer
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open or make the file (0600, its directory 0700) and bring its schema up to date.

        Raises StateError for a symlinked file or directory, another application's file, a schema newer than ours, and
        for a disk or file that cannot be used.
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

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection inside BEGIN IMMEDIATE, one thread at a time; leaving the block commits, an exception undoes.

        When the block is left without an exception the change is on the disk. A write inside a write of the same thread
        is a RuntimeError. Keep the block short: all writers wait for it.
        """
        return self._writer.transaction()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one moment of the database and cannot write; a long block keeps the log growing."""
        with translating(self.path):
            connection = self._take()
            sound = True
            try:
                connection.execute("BEGIN")
                yield connection
            except sqlite3.Error:
                sound = False
                raise
            finally:
                self._give_back(connection, sound)

    def close(self) -> None:
        """Close the writer after the write under way, the idle readers now, and the busy ones as they come back."""
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
                    "The database is closed: the program is stopping. Repeat the request once it runs again."
                )
            if self._idle:
                return self._idle.pop()
        connection = _connect(self.path, "rw")
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _give_back(self, connection: sqlite3.Connection, sound: bool) -> None:
        if sound:
            connection.execute("ROLLBACK")
            with self._guard:
                if not self._closed and len(self._idle) < _IDLE_READERS:
                    self._idle.append(connection)
                    return
        connection.close()


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """One moment of a database that may be in use by a running server; nothing is made, migrated or changed.

    Raises StateError when there is no file, or it is not one of ours.
    """
    if not path.is_file():
        raise StateError(f"There is no database {path}. Set CARD_STATE_DIR or CARD_STATE_DATABASE to where it lies.")
    with translating(path):
        connection = _connect(path, "ro")
        try:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'event'").fetchone() is None:
                raise StateError(f"The file {path} holds no card state. Name the database of a card application.")
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
    """Refuse symlinks and other users' files, then make the directory and an empty file for this user only."""
    private.make_directory_of_file(path.parent, "CARD_STATE_DATABASE")
    try:
        for place in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            private.refuse_foreign(place, "CARD_STATE_DATABASE")
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        # An existing file is not opened: closing it again would drop this process's locks on it (POSIX).
        elif not path.is_file():
            raise StateError(f"{path} is no regular file. Set CARD_STATE_DATABASE to a file.")
    except OSError as error:
        raise StateError(
            f"The database {path} cannot be opened: {error.strerror}. Give this user access to it, or set "
            "CARD_STATE_DIR to a directory of its own.",
            code="state_cannot_open",
        ) from error
