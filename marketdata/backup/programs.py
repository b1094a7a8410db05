"""Finds and runs PostgreSQL's client programs, like ``pg_dump`` and ``pg_restore``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from marketdata.errors import MissingRequirement, StateError
from marketdata.postgres import binaries
from marketdata.postgres.processes import ending_with_this_process

_LINES = 5


def find(name: str, server_major: int) -> Path:
    """Find the path of the program ``name`` of the server's major version. If that version is not installed, the
    program of the newest installed version is returned. A newer pg_dump can dump an older server, but its archive may
    need a newer pg_restore and a newer server."""
    try:
        found = binaries.find(data_major=server_major, data=Path(name))
    except StateError:
        found = binaries.find(data_major=None, data=Path(name))
    program = found.folder / name
    if not program.is_file():
        raise MissingRequirement(f"{program} does not exist: install the client programs of PostgreSQL {server_major}")
    return program


def run(program: Path, url: str, *arguments: str | Path) -> None:
    """Run the program on the database of ``url``. Raises StateError with the end of its output when it fails. If this
    process ends, the program is ended, too. So a repeated restore does not collide with the program of a previous
    one."""
    parameters = conninfo_to_dict(url)
    password = parameters.pop("password", None)
    # Every account can read the arguments of a process, but not its environment.
    environment = os.environ | ({"PGPASSWORD": str(password)} if password is not None else {})
    command = [program, "--no-password", f"--dbname={make_conninfo('', **parameters)}", *arguments]
    done = subprocess.run(
        ending_with_this_process(command),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=environment, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = "\n".join(_first_error(done.stdout.strip().splitlines()))
        raise StateError(f"{program.name} ended with status {done.returncode}: {said}")


def _first_error(lines: Sequence[str]) -> Sequence[str]:
    """The lines from the first error on, otherwise the last ones. After its reason a program may show a long
    statement."""
    start = next((number for number, line in enumerate(lines) if " error: " in line or "ERROR: " in line), -_LINES)
    return lines[start:][:_LINES]
