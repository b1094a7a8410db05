"""The reads of live connections: from the primary, or from the nodes that hold the symbols of a distributed version.

Replicas are not read, because a replica may lag behind the notification of a change.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from marketdata.errors import DatabaseUnavailable
from marketdata.store.placement import Placement, ReadNamed, ResultT, Work
from marketdata.store.pool import Connection
from marketdata.store.version import Version


@dataclass(frozen=True, slots=True)
class Reads:
    """Reads of ``version`` during one turn of the reader. ``connection`` is to the primary or the coordinator."""

    connection: Connection
    version: Version
    placement: Placement

    @property
    def is_distributed(self) -> bool:
        """Whether reads use several nodes, of which one may be unavailable while the others answer."""
        return self.version.shards is not None

    def read(self, name: str, work: Work[ResultT]) -> ResultT:
        """Run ``work`` on the database that holds this symbol or alias. ``work`` may be repeated, so it must change
        nothing."""
        if self.version.shards is None:
            return work(self.connection, self.version)
        return self.placement.read(self.version, [name], work)

    def read_each(self, names: Collection[str] | None, work: ReadNamed[ResultT]) -> list[ResultT]:
        """Run ``work`` on each shard that has some of these symbols or aliases. None means all symbols."""
        if self.version.shards is None:
            return [work(self.connection, self.version, names)]
        return self.placement.read_each(self.version, names, work)

    def read_available(self, names: Collection[str], work: ReadNamed[ResultT]) -> tuple[list[ResultT], set[str]]:
        """Like :meth:`read_each`. If the version is distributed, returns also the names on nodes that are
        unavailable."""
        if self.version.shards is None:
            return [work(self.connection, self.version, names)], set()
        missing: set[str] = set()

        def attempt(group: Collection[str]) -> list[ResultT]:
            try:
                return [self.placement.read(self.version, group, lambda conn, shard: work(conn, shard, group))]
            except DatabaseUnavailable:
                missing.update(group)
                return []

        found = self.placement.each_group(self.version, names, attempt)
        return [result for results in found for result in results], missing
