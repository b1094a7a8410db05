"""Two versions, each plain or distributed by Citus, and access to their symbols."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from marketdata.settings import Settings
from marketdata.store.pool import Connection, connect
from tests.marketdata.citus.cluster import CitusCluster, Database
from tests.marketdata.conftest import Command
from tests.marketdata.operations.accessed import end_access


class Layout(NamedTuple):
    """The shards of versions 1 and 2. A plain version has none."""

    first: int | None = None
    second: int | None = None


LAYOUTS = {"plain": Layout(), "to-citus": Layout(None, 4), "from-citus": Layout(4, None), "citus": Layout(4, 6)}


@pytest.fixture
def layout(request: pytest.FixtureRequest) -> Layout:
    return LAYOUTS[getattr(request, "param", "plain")]


@pytest.fixture
def coordinator(citus: CitusCluster) -> Iterator[Database]:
    """An empty database of the coordinator."""
    database = citus.fresh_database()
    yield database
    database.drop()


@pytest.fixture
def fresh(settings: Settings, layout: Layout, request: pytest.FixtureRequest) -> Settings:
    """Settings with an empty database: that of a coordinator, if a version is to be distributed."""
    if layout == LAYOUTS["plain"]:
        return replace(settings, database_url=request.getfixturevalue("new_database")())
    return replace(settings, database_url=request.getfixturevalue("coordinator").url)


@pytest.fixture
def two_versions(fresh: Settings, layout: Layout, command: Command) -> Iterator[Connection]:
    """A connection to a database with the versions 1, the current one, and 2, both without ticks."""
    assert fresh.database_url is not None
    for n, shards in enumerate(layout, 1):
        assert command("version", str(n), *(["--shards", str(shards)] if shards else [])).returncode == 0
    with connect(fresh.database_url) as connection:
        yield connection
        end_access(connection)
