"""Translates SQLite's errors into errors of the application. Each message gives the cause and the remedy, and says so
if the change was not stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cardapp.errors import InvalidValue, StateError

DAMAGED = "state_damaged"

_RECOVERY = (
    "nothing is stored any more; stop the service, move the file away, with the files -wal and -shm beside it, and "
    "restore a backup with bin/cardapp restore FOLDER; without a backup the next start begins a new record"
)

_CODES: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (
        "state_disk_full",
        "the disk is full, and the change was not stored; free disk space and repeat the change",
    ),
    sqlite3.SQLITE_BUSY: (
        "state_locked",
        "another process has locked it, and the change was not stored; end that process (a second server, or a "
        "sqlite3 shell) and repeat the change",
    ),
    sqlite3.SQLITE_LOCKED: ("state_locked", "a table is locked, and the change was not stored; repeat the change"),
    sqlite3.SQLITE_CORRUPT: (DAMAGED, f"the file is damaged, and {_RECOVERY}"),
    sqlite3.SQLITE_NOTADB: (DAMAGED, f"the file is not a SQLite database, and {_RECOVERY}"),
    sqlite3.SQLITE_READONLY: (
        "state_read_only",
        "the file, its directory or its file system is read-only; make them writable for this user, or set "
        "CARD_STATE_DIR to another directory",
    ),
    sqlite3.SQLITE_PERM: (
        "state_read_only",
        "this user has no access; give it access, or set CARD_STATE_DIR to another directory",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "state_cannot_open",
        "the file cannot be opened; make sure that its directory exists and belongs to this user, or set "
        "CARD_STATE_DIR to another directory",
    ),
    sqlite3.SQLITE_IOERR: (
        "state_io_error",
        "a disk read or write failed, and the change was not stored; the system log has the cause",
    ),
}


def translated(error: sqlite3.Error, path: Path) -> StateError | None:
    """The StateError for an error that the disk, the file or a lock causes. None for other errors, because only a bug
    causes them."""
    primary = _primary(error)
    return _state_error(primary, path, str(error)) if primary in _CODES else None


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is damaged, or no database."""
    return _primary(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damaged(path: Path, said: str) -> StateError:
    """The StateError for a damaged file, about which SQLite has ``said`` this."""
    return _state_error(sqlite3.SQLITE_CORRUPT, path, said)


def _primary(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _state_error(primary: int, path: Path, said: str) -> StateError:
    code, message = _CODES[primary]
    return StateError(f"the database {path} cannot be used: {message} (SQLite: {said})", code=code)


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Raise errors of ``cardapp.errors`` in place of SQLite's errors, and for values that SQLite cannot store."""
    try:
        yield
    except sqlite3.Error as error:
        state_error = translated(error, path)
        if state_error is None:
            raise
        raise state_error from error
    except UnicodeEncodeError as error:
        raise InvalidValue(
            "a text contains an unpaired surrogate, which is not a Unicode character; send the whole character"
        ) from error
    except OverflowError as error:
        raise InvalidValue("an integer does not fit 64 bits and cannot be stored; send a smaller one") from error
