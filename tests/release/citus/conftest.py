"""Databases of the run's Citus, for a module or a test, with two versions, or with an API beside a plain one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from marketdata.settings import Settings
from marketdata.store.pool import Connection, connect
from tests.marketdata.conftest import Command
from tests.marketdata.operations.accessed import end_access
from tests.release.citus.citus_market import CitusMarket
from tests.release.citus.cluster import CitusCluster, Database
from tests.release.citus.commands import prepare, prepared

__all__ = ["prepare", "prepared"]


@pytest.fixture(scope="module")
def citus_database(citus: CitusCluster) -> Iterator[Database]:
    """A database that the tests of one module share."""
    database = citus.fresh_database()
    yield database
    database.drop()


@pytest.fixture
def market(coordinator: Database, state_dir: Path) -> Iterator[CitusMarket]:
    """A distributed version in a database of its own."""
    found = CitusMarket(coordinator, state_dir)
    yield found
    found.close()


class Layout(NamedTuple):
    """The shards of versions 1 and 2. A plain version has none."""

    first: int | None
    second: int | None


LAYOUTS = {"to-citus": Layout(None, 4), "from-citus": Layout(4, None), "citus": Layout(4, 6)}


@pytest.fixture
def layout(request: pytest.FixtureRequest) -> Layout:
    return LAYOUTS[request.param]


@pytest.fixture
def coordinator(citus: CitusCluster) -> Iterator[Database]:
    """An empty database of the coordinator."""
    database = citus.fresh_database()
    yield database
    database.drop()


@pytest.fixture
def fresh(settings: Settings, coordinator: Database) -> Settings:
    return replace(settings, database_url=coordinator.url)


@pytest.fixture
def two_versions(fresh: Settings, layout: Layout, command: Command) -> Iterator[Connection]:
    """A connection to a database with the versions 1, the current one, and 2, both without ticks."""
    assert fresh.database_url is not None
    for n, shards in enumerate(layout, 1):
        assert command("version", str(n), *(["--shards", str(shards)] if shards else [])).returncode == 0
    with connect(fresh.database_url) as connection:
        yield connection
        end_access(connection)
