"""A Citus for the whole run, and a database of it for each module. Only with --full."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.marketdata.citus.cluster import CitusCluster, Database, citus_cluster


@pytest.fixture(scope="session")
def citus(pytestconfig: pytest.Config) -> Iterator[CitusCluster]:
    if not pytestconfig.getoption("full"):
        pytest.skip("only with --full: it starts a Citus of four nodes")
    with citus_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def citus_database(citus: CitusCluster) -> Iterator[Database]:
    """A database that the tests of one module share."""
    database = citus.fresh_database()
    yield database
    database.drop()
