"""SQLite's errors in our words: what happened, whether anything was stored, and the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cardapp.errors import CardAppError, InvalidValue, StateError

_UNUSABLE = "Stop the program, keep a copy of the file, and restore a backup or set CARD_STATE_DATABASE to a new file."

_WORDS: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (
        "state_disk_full",
        "the disk is full, and the change was not stored. Free some space and repeat it.",
    ),
    sqlite3.SQLITE_BUSY: (
        "state_locked",
        "another process holds its lock, and the change was not stored. End that process (a second server, or an open "
        "sqlite3 shell) and repeat it.",
    ),
    sqlite3.SQLITE_LOCKED: ("state_locked", "a table is locked, and the change was not stored. Repeat it."),
    sqlite3.SQLITE_CORRUPT: ("state_corrupt", f"the file is damaged. {_UNUSABLE}"),
    sqlite3.SQLITE_NOTADB: ("state_corrupt", f"the file is no SQLite database. {_UNUSABLE}"),
    sqlite3.SQLITE_READONLY: (
        "state_read_only",
        "the file, its directory or its file system is read-only. Make them writable for this user, or set "
        "CARD_STATE_DIR.",
    ),
    sqlite3.SQLITE_PERM: (
        "state_read_only",
        "access is not permitted. Give this user access, or set CARD_STATE_DIR.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "state_cannot_open",
        "the file cannot be opened. Check that its directory exists and is this user's, or set CARD_STATE_DIR.",
    ),
    sqlite3.SQLITE_IOERR: (
        "state_io_error",
        "reading or writing the disk failed, and the change was not stored. Look at the system's log for the cause.",
    ),
}


def translated(error: sqlite3.Error, path: Path) -> CardAppError | None:
    """The StateError for what can happen to a file in the field; None for what only a mistake of ours can cause."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if primary not in _WORDS:
        return None
    code, words = _WORDS[primary]
    return StateError(f"The database {path}: {words} (SQLite: {error})", code=code)


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Raise our errors in place of SQLite's, and name values that SQLite cannot hold."""
    try:
        yield
    except sqlite3.Error as error:
        ours = translated(error, path)
        if ours is None:
            raise
        raise ours from error
    except UnicodeEncodeError as error:
        raise InvalidValue(
            "A text holds half of a surrogate pair, which is no Unicode character. Send the whole character."
        ) from error
    except OverflowError as error:
        raise InvalidValue("An integer is outside the 64 bits that can be stored. Send a smaller one.") from error
