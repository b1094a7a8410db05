"""The tests of the store, on the only shard of a version that Citus distributes. Everything is the same there, with the
names of the shard, on a connection to its node."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest

from marketdata.store.version import Version
from tests.marketdata.store import (
    test_candles,
    test_chains,
    test_coverage,
    test_ingest,
    test_notifications,
    test_prune,
    test_prune_reads,
    test_summary,
    test_tick_pages,
    test_time_zones,
    test_trades,
    test_writers,
)
from tests.marketdata.store.conftest import clock, conn, database, store, version  # noqa: F401
from tests.marketdata.store.test_chains import chain  # noqa: F401
from tests.marketdata.store.test_prune_reads import some_zones  # noqa: F401
from tests.marketdata.store.test_time_zones import zones  # noqa: F401
from tests.release.citus.cluster import CitusCluster
from tests.release.citus.versions import only_shard

for module in (
    test_candles, test_chains, test_coverage, test_ingest, test_notifications, test_prune, test_prune_reads,
    test_summary, test_tick_pages, test_time_zones, test_trades, test_writers,
):  # fmt: skip
    for name, each in list(vars(module).items()):
        is_plain_only = any(mark.name == "plain_only" for mark in getattr(each, "pytestmark", ()))
        if name.startswith("test_") and callable(each) and not is_plain_only:
            assert globals().setdefault(name, each) is each, f"two tests are called {name}"


@pytest.fixture(scope="module")
def new_store(citus: CitusCluster) -> Callable[[], AbstractContextManager[tuple[str, Version]]]:
    return partial(only_shard, citus, Version.of("t", 1))
