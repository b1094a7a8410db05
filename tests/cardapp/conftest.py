"""A database file, made once: its migrations take longer than most tests that need a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardapp.state.database import Database


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a database without rows, in the newest schema."""
    path: Path = tmp_path_factory.mktemp("database") / "card-state"
    path.parent.chmod(0o700)
    Database.open(path).close()
    return path.read_bytes()
