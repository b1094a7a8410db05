"""What a failed program of PostgreSQL says."""

from __future__ import annotations

from pathlib import Path

import pytest

from marketdata.backup import programs
from marketdata.errors import StateError

STATEMENT = "".join(f"echo 'ALTER TABLE t ALTER COLUMN c{number} SET (x=1);'\n" for number in range(9))


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("echo 'restoring'\necho 'pg_restore: error: could not execute query: ERROR:  unknown x' >&2\n", "unknown x"),
        ("", "COLUMN c8"),
    ],
)
def test_the_reason_is_shown_also_before_a_long_statement(tmp_path: Path, output: str, shown: str) -> None:
    program = tmp_path / "pg_restore"
    program.write_text(f"#!/bin/sh\n{output}{STATEMENT}exit 1\n")
    program.chmod(0o755)
    with pytest.raises(StateError, match=f"(?s)pg_restore ended with status 1: .*{shown}") as raised:
        programs.run(program, "dbname=none")
    assert len(raised.value.detail.splitlines()) == 5
