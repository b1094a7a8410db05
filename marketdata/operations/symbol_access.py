"""How commands read and write symbols: on their own connection, or on the nodes of a distributed version.

Work is a function of a connection and of a version whose names it uses: that of one shard, if the version is
distributed. It is repeated if its shard has moved (:mod:`marketdata.store.placement`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

from psycopg.conninfo import make_conninfo

from marketdata.store.placement import Placement, ReadNamed, ResultT, Work
from marketdata.store.pool import Connection, Pool, node_conninfo
from marketdata.store.shards import Node
from marketdata.store.version import Version

_CONNECTIONS = 4
"""Connections of a command to each node."""


class SymbolAccess:
    """A context manager. ``connection`` is that of the command, to the coordinator of a distributed version. No further
    connection is opened while all versions are plain."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._placement: Placement | None = None
        self._coordinator: Pool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for each in (self._placement, self._coordinator):
            if each is not None:
                each.close()

    def read(self, version: Version, names: Collection[str], work: Work[ResultT]) -> ResultT:
        """Returns what ``work`` returns for these names of one symbol."""
        if version.shards is None:
            return work(self._connection, version)
        return self._placed().read(version, names, work)

    def write(self, version: Version, names: Collection[str], work: Work[ResultT]) -> ResultT:
        """Like :meth:`read`, for work that writes. It must be idempotent, and call ``{lock}`` first in each
        transaction."""
        if version.shards is None:
            return work(self._connection, version)
        return self._placed().write(version, names, work)

    def read_each(self, version: Version, names: Collection[str] | None, work: ReadNamed[ResultT]) -> list[ResultT]:
        """Returns what ``work`` returns for these symbols or aliases, or for all symbols with None: one result, or one
        for each shard. ``work`` is called with those of the names that belong to the shard."""
        if version.shards is None:
            return [work(self._connection, version, names)]
        return self._placed().read_each(version, names, work)

    def _placed(self) -> Placement:
        if self._placement is None:
            info = self._connection.info
            conninfo = make_conninfo("", **info.get_parameters(), password=info.password)
            self._coordinator = Pool(conninfo, application_name="marketdata", size=_CONNECTIONS)

            def node_pool(node: Node) -> Pool:
                return Pool(node_conninfo(conninfo, *node), application_name="marketdata", size=_CONNECTIONS)

            self._placement = Placement(self._coordinator, node_pool)
        return self._placement
