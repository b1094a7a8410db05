"""Noticing that PostgreSQL's programs were replaced while they run, as a minor upgrade of its package does.

A running PostgreSQL keeps its old program, while each new backend loads the new libraries, which may not fit: then
every function in PL/pgSQL fails until PostgreSQL is started again.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from marketdata.postgres.binaries import Binaries, major_of

SETTLED_SECONDS = 1.0
"""The new files count as complete when none of them has changed for this long. A later change is noticed again."""

_LIBRARY_FOLDERS = ("lib", "lib/postgresql", "lib64/postgresql", "lib64/pgsql")
_UNPACKED = "*.dpkg-*"
"""Files that dpkg has unpacked and not yet renamed, and those that it keeps until then."""

_Identity = tuple[int, int, int] | None


class ReplacementWatch:
    """Compares the installed files with those that the running PostgreSQL was started from."""

    def __init__(self, binaries: Binaries) -> None:
        self._binaries = binaries
        libraries = (binaries.folder.parent / folder for folder in _LIBRARY_FOLDERS)
        self._files = (binaries.folder / "postgres", *(folder / "plpgsql.so" for folder in libraries))
        self._started_from = self._seen = self._identities()
        self._seen_at = monotonic()

    def started(self) -> None:
        """Call it before PostgreSQL is started: a replacement during the start is then noticed afterwards."""
        self._started_from = self._identities()

    def is_replaced(self) -> bool:
        """Whether the files are others than at the start, complete, and of the same major version."""
        found = self._identities()
        if found == self._started_from:
            return False
        now = monotonic()
        if found != self._seen:
            self._seen, self._seen_at = found, now
        if now - self._seen_at < SETTLED_SECONDS:
            return False
        self._seen_at = now  # incomplete files are looked at again after the same time
        return self._is_complete(found)

    def _is_complete(self, found: tuple[_Identity, ...]) -> bool:
        pairs = zip(self._started_from, found, strict=True)
        if any(before is not None and after is None for before, after in pairs):
            return False
        if any(next(folder.glob(_UNPACKED), None) for folder in {file.parent for file in self._files}):
            return False
        return major_of(self._files[0]) == self._binaries.major

    def _identities(self) -> tuple[_Identity, ...]:
        return tuple(map(_identity, self._files))


def _identity(file: Path) -> _Identity:
    """Inode, time of change and size; None when there is no such file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
