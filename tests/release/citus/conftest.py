"""A database of the run's Citus for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.release.citus.cluster import CitusCluster, Database
from tests.release.citus.commands import prepare, prepared

__all__ = ["prepare", "prepared"]


@pytest.fixture(scope="module")
def citus_database(citus: CitusCluster) -> Iterator[Database]:
    """A database that the tests of one module share."""
    database = citus.fresh_database()
    yield database
    database.drop()
