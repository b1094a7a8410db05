"""The nodes of the Citus cluster that may hold shards of the served version: a check and a listener for each.

Nodes are added and removed while the service runs. A plain version has none.
"""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic

from marketdata.api.database_health import HealthCheck
from marketdata.api.database_listener import DatabaseListener
from marketdata.api.live.server import Live
from marketdata.api.revocation_listener import REFRESH_SECONDS, UNWATCHED_SECONDS
from marketdata.api.served_version import ServedVersion
from marketdata.errors import DatabaseExhausted, DatabaseUnavailable, MarketError
from marketdata.store import candles, shards
from marketdata.store.conninfo import node_conninfo
from marketdata.store.notifications import CHANGED, Notifications
from marketdata.store.placement import Placement
from marketdata.store.pool import CHECK, Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.shards import Node, Shard
from marketdata.store.version import Version

STALL_SECONDS = 2.5
"""A check of a node that takes longer than this counts as failed. With this limit, a stopped node is noticed before any
request has waited five seconds for it."""


class NodeListener(DatabaseListener):
    """Receives the notifications of the changes on one node."""

    def __init__(self, node: Node, conninfo: str, served: ServedVersion, placement: Placement, live: Live) -> None:
        super().__init__("node {}:{}".format(*node), conninfo, "marketdata-api-changes", (CHANGED,))
        self._node = node
        self._served = served
        self._placement = placement
        self._live = live

    def _receive(self, _connection: Connection, notifications: Notifications) -> None:
        self._live.resync()
        self._begun()
        while not self._stopping.is_set():
            _, changes = notifications.wait(REFRESH_SECONDS)
            if self._live.connections:
                version = self._served.version()
                names = {change.symbol for change in changes if change.is_of(version.ticks_table)}
                self._placement.expect(version, names, self._node)
            self._live.changed(changes)
            if changes and not self._live.connections:
                self._stopping.wait(UNWATCHED_SECONDS)


class ClusterNode:
    """A node: the shards that it holds, its check and its listener."""

    def __init__(self, node: Node, conninfo: str, served: ServedVersion, placement: Placement, live: Live) -> None:
        self.node = node
        self.name = "{}:{}".format(*node)
        self.shards: Collection[Shard] = ()
        """The shards that it had when the placement was read last."""
        self._served = served
        self.check = HealthCheck(
            f"node {self.name}", conninfo, self._call_candles, stall_seconds=STALL_SECONDS,
            remedy=f"{CHECK}: pg_dist_node and pg_hba.conf",
        )  # fmt: skip
        self.listener = NodeListener(node, conninfo, served, placement, live)

    @property
    def state(self) -> str:
        """``usable``, or the code of the check's error."""
        error = self.check.error()
        return "usable" if error is None else error.code

    @property
    def reason(self) -> str | None:
        """Why it is not usable, or None."""
        error = self.check.error()
        return None if error is None else error.detail

    def refusal(self) -> MarketError | None:
        """The error for a request that needs this node, if it does not answer. None before the first check."""
        failure = self.check.failure()
        if not isinstance(failure, DatabaseUnavailable) or isinstance(failure, DatabaseExhausted):
            return None
        return DatabaseUnavailable("the node that holds the symbol does not answer; send the request again later")

    def _call_candles(self, connection: Connection) -> Version:
        # A shard may have moved away since the placement was read. Then its functions on this node no longer work.
        here = next((shard for shard in self.shards if shards.is_here(connection, shard, ())), None)
        if here is not None:
            candles.check(connection, here)
        return self._served.version()


class Cluster:
    """``refresh`` looks for the nodes; call it repeatedly, in one thread at a time. The other methods never wait for a
    database."""

    def __init__(self, url: str, served: ServedVersion, placement: Placement, live: Live) -> None:
        """``url`` is the connection string of the coordinator."""
        self._url = url
        self._served = served
        self._placement = placement
        self._live = live
        self._nodes: dict[Node, ClusterNode] = {}

    @property
    def nodes(self) -> list[ClusterNode]:
        return [self._nodes[node] for node in sorted(self._nodes)]

    def error(self) -> MarketError | None:
        """Why no node with shards is usable, or None if one is."""
        errors = [each.check.error() for each in self.nodes if each.shards]
        return errors[0] if errors and None not in errors else None

    def answers(self, node: Node) -> bool:
        """Whether a node accepts new connections."""
        return self.refusal(node) is None

    def refusal(self, node: Node) -> MarketError | None:
        """The error for a request that needs a node, if it does not answer."""
        found = self._nodes.get(node)
        return None if found is None else found.refusal()

    def refresh(self, connection: Connection) -> None:
        """Read the placement of the served version again. ``connection`` is to the coordinator."""
        try:
            found = self._read(connection)
        except MarketError:  # the version or its shards are missing, which requests and /ready report
            return
        gone = [self._nodes[node] for node in self._nodes.keys() - found.keys()]
        made = {node: self._made(node) for node in found.keys() - self._nodes.keys()}
        self._nodes = {node: each for node, each in {**self._nodes, **made}.items() if node in found}
        for node, held in found.items():
            self._nodes[node].shards = held
        for each in made.values():
            each.check.start()
            each.listener.start()
        if gone:
            self._stop(gone, 0.0)
            self._live.resync()  # the last changes of a removed node may not have arrived

    def wait_for_first(self) -> None:
        """Wait a moment for the first check of each node."""
        for each in self.nodes:
            each.check.wait_for_first()

    def stop(self, timeout: float = 5.0) -> None:
        self._stop(self.nodes, timeout)

    def _read(self, connection: Connection) -> dict[Node, list[Shard]]:
        """The nodes, and the shards that each holds."""
        version = self._served.version()
        if version.shards is None:
            self._placement.close_all()
            return {}
        with translated():
            found: dict[Node, list[Shard]] = {node: [] for node in shards.nodes(connection)}
        for shard, node in self._placement.refresh(version):
            found.setdefault(node, []).append(shard)
        return found

    def _made(self, node: Node) -> ClusterNode:
        conninfo = node_conninfo(self._url, *node)
        return ClusterNode(node, conninfo, self._served, self._placement, self._live)

    def _stop(self, nodes: Collection[ClusterNode], timeout: float) -> None:
        deadline = monotonic() + timeout
        for each in nodes:
            for part in (each.listener, each.check):
                part.stop(max(deadline - monotonic(), 0.0))
