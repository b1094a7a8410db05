"""Commands on a database of a Citus cluster, run within the process of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.marketdata.conftest import Command
from tests.release.citus.cluster import CitusCluster, Database


class Prepared(NamedTuple):
    """An empty database of a cluster, and what runs commands on it."""

    database: Database
    command: Command


Prepare = Callable[[Database], Command]


@pytest.fixture
def prepare(state_dir: Path, monkeypatch: pytest.MonkeyPatch, run_command: Command) -> Prepare:
    """Lets commands work on a database, as its owner."""

    def of(database: Database) -> Command:
        monkeypatch.setenv("DATABASE_URL", database.url)
        monkeypatch.setenv("MARKET_STATE_DIR", str(state_dir))
        return run_command

    return of


@pytest.fixture
def prepared(citus: CitusCluster, prepare: Prepare) -> Iterator[Prepared]:
    database = citus.fresh_database()
    yield Prepared(database, prepare(database))
    database.drop()
