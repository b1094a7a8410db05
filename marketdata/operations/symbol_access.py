"""How commands read and write symbols: on their own connection, or on the nodes of a distributed version.

Work is a function of a connection and of a version whose names it uses: that of one shard, if the version is
distributed. It is repeated if its shard has moved (:mod:`marketdata.store.placement`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self

from psycopg.conninfo import make_conninfo

from marketdata.store import ticks as store
from marketdata.store.conninfo import node_conninfo
from marketdata.store.placement import Placement, ReadNamed, ResultT, Work
from marketdata.store.pool import Connection, Pool
from marketdata.store.shard_ingest import ShardIngest
from marketdata.store.ticks import Outcome
from marketdata.store.version import Version
from marketdata.tick import Tick

_CONNECTIONS = 4
"""Connections of a command to each node."""


class SymbolAccess:
    """A context manager. ``connection`` is that of the command, to the coordinator of a distributed version. No further
    connection is opened while all versions are plain."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
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
            return work(self.connection, version)
        return self._placed().read(version, names, work)

    def write(self, version: Version, names: Collection[str], work: Work[ResultT]) -> ResultT:
        """Like :meth:`read`, for work that writes. It must be idempotent, and call ``{lock}`` or ``{keep_here}`` first
        in each transaction."""
        if version.shards is None:
            return work(self.connection, version)
        return self._placed().write(version, names, work)

    def read_each(self, version: Version, names: Collection[str] | None, work: ReadNamed[ResultT]) -> list[ResultT]:
        """Returns what ``work`` returns for these symbols or aliases, or for all symbols with None: one result, or one
        for each shard. ``work`` is called with those of the names that belong to the shard."""
        if version.shards is None:
            return [work(self.connection, version, names)]
        return self._placed().read_each(version, names, work)

    def ingest(self, version: Version, ticks: Sequence[Tick]) -> Sequence[Outcome]:
        """Store the ticks, in one transaction, or in one for each shard. Returns the outcome of each."""
        if version.shards is None:
            return store.ingest(self.connection, version, ticks).outcomes
        placement = self._placed()
        assert self._coordinator is not None
        return ShardIngest(placement, self._coordinator).ingest(version, ticks).outcomes

    def _placed(self) -> Placement:
        if self._placement is None:
            info = self.connection.info
            conninfo = make_conninfo("", **info.get_parameters(), password=info.password)
            self._coordinator = _pool(conninfo)
            self._placement = Placement(self._coordinator, lambda node: _pool(node_conninfo(conninfo, *node)))
        return self._placement


def _pool(conninfo: str) -> Pool:
    return Pool(conninfo, application_name="marketdata-operation", size=_CONNECTIONS, has_limits=False)
