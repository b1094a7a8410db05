"""The data API on a version that Citus distributes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from marketdata.api.serve import Service
from tests.marketdata.api.conftest import Api, eventually, new_token, prepare
from tests.release.citus.cluster import Database

TABLE = "md_ticks_v1"


@contextmanager
def serving(database: Database, shards: int, processes: int = 1) -> Iterator[list[Api]]:
    """Services of version 1 with this number of shards, which know all nodes."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="market-", dir="/tmp"))
        settings = prepare(Path(folder), database.url, shards)
        services = [Service(settings) for _ in range(processes)]
        for each in services:
            stack.callback(each.stop)
            each.start()
        nodes = [node for each in services for node in each.services.cluster.nodes]
        eventually(lambda: all(node.listener.is_receiving and node.check.is_answering() for node in nodes))
        read, write = (new_token(database.url, scope) for scope in ("read", "write"))
        yield [Api(each, read, write) for each in services]
