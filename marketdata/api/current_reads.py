"""Reads that are never older than a write of which the client knows, although a replica may lag behind.

The response to a write has the newest counter of its symbols in the header ``Marketdata-Version``. A client that sends
this header with a read, or an ETag with a counter, gets an answer of at least this counter. If the replica has not
reached it, the read waits a moment, and then asks the primary. A process remembers the counters of its own writes.

A version that Citus distributes is read on the nodes that hold its shards (:mod:`marketdata.store.placement`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from time import monotonic
from typing import Any

from marketdata.api.replicas import Replicas, is_of_replica
from marketdata.errors import InvalidValue, MarketError
from marketdata.http.revalidation import weak_tag
from marketdata.store import symbols
from marketdata.store.placement import IsCurrent, Placement, ReadNamed, ResultT, Work
from marketdata.store.pool import Connection, Pool
from marketdata.store.version import Version

VERSION = "Marketdata-Version"
VERSION_ABOUT = "The newest counter of the symbols that were written. A read with it sees at least that write."
SENT_ABOUT = "The header of the answer to a write. The answer to this request is then never older than that write."
WAIT_SECONDS = 0.1
_POLL_SECONDS = 0.005

MAX_COUNTER = 10**18 - 1
_COUNTER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_COUNTER_IN_TAG = re.compile(r'"([0-9]{1,18})\.', re.ASCII)


def counter_tag(counter: int, *parts: int | str) -> str:
    """Returns an entity tag that begins with a counter. :func:`known_counter` finds it there."""
    return weak_tag(counter, *parts)


def known_counter(environ: Mapping[str, Any]) -> int:
    """Returns the greatest counter that the client sends, in ``Marketdata-Version`` or in the tags of
    ``If-None-Match``, or 0. Raises :class:`InvalidValue` if the header is not a positive integer."""
    sent = environ.get("HTTP_MARKETDATA_VERSION")
    if sent is not None and not _COUNTER.fullmatch(sent):
        raise InvalidValue(f"the header {VERSION} must be a positive integer, as the answer to a write has it")
    tags = environ.get("HTTP_IF_NONE_MATCH")
    in_tags = _COUNTER_IN_TAG.findall(tags) if tags is not None else ()
    return max(int(sent or 0), *map(int, in_tags)) if in_tags else int(sent or 0)


class CurrentReads:
    """Runs reads on connections whose data are recent enough. Without replicas all reads go to the primary, which is
    always current. A read is a function that is called with a connection and with the version whose names it uses: that
    of one shard, if the version is distributed. Thread-safe."""

    def __init__(
        self, primary: Pool, replicas: Replicas, placement: Placement, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._primary = primary
        self._wait_seconds = wait_seconds
        self._replicas = replicas
        self._placement = placement
        self._written: dict[tuple[Version, str], int] = {}
        self._lock = threading.Lock()
        self._waiting = threading.Event()

    def note(self, version: Version, counters: Mapping[str, int]) -> None:
        """Remember the counters of a transaction of this process."""
        if self._replicas or version.shards is not None:
            with self._lock:  # transactions of the same symbol may be noted in another order than they were committed
                for symbol, counter in counters.items():
                    key = (version, symbol)
                    self._written[key] = max(counter, self._written.get(key, 0))

    def is_current(self, version: Version, symbol: str, counter: int, known: int) -> bool:
        """Whether an answer with this counter of ``symbol`` (not an alias) is recent enough for a client that knows of
        the counter ``known``."""
        if not self._replicas and version.shards is None:
            return True
        return counter >= max(known, self._written.get((version, symbol), 0))

    def read(
        self, version: Version, names: Collection[str], known: int, read: Work[ResultT], *, checks: bool = False
    ) -> ResultT:
        """Returns what ``read`` returns for these names of one symbol, for a client that knows of the counter
        ``known``. ``checks`` is that of :meth:`Placement.read`."""
        if version.shards is not None:
            is_current = self._until_current(version, names, known)
            return self._placement.read(version, names, read, is_current, checks=checks)
        result, _, kept = self._begin(version, names, known, lambda connection: read(connection, version))
        kept.close()
        return result

    def read_primary(self, version: Version, names: Collection[str], read: Work[ResultT]) -> ResultT:
        """Like :meth:`read`, at the primary."""
        if version.shards is not None:
            return self._placement.read(version, names, read)
        with self._primary.connection() as connection:
            return read(connection, version)

    def read_each(
        self, version: Version, names: Collection[str] | None, known: int, read: ReadNamed[ResultT]
    ) -> list[ResultT]:
        """Returns what ``read`` returns for these symbols or aliases, or for all symbols with None: one result, or one
        for each shard of a distributed version. ``read`` is called with those of the names that belong to the shard."""
        if version.shards is None:
            result, _, kept = self._begin(version, names, known, lambda connection: read(connection, version, names))
            kept.close()
            return [result]
        if names is None:
            return self._placement.read_each(version, None, read)

        def read_group(group: Collection[str]) -> ResultT:
            return self.read(version, group, known, lambda connection, shard: read(connection, shard, group))

        return self._placement.each_group(version, names, read_group)

    @contextmanager
    def several(self, version: Version, names: Collection[str], known: int) -> Iterator[Callable[[Work[Any]], Any]]:
        """Lend a function that does what :meth:`read` does, for reads of which each continues where the previous one
        ended. They share a connection, unless the version is distributed, because a shard may move between two
        reads."""
        if version.shards is not None:
            first = iter([known])  # the later reads continue from what the first one has read
            yield lambda read: self.read(version, names, next(first, 0), read)
            return
        with ExitStack() as stack:
            kept: list[Connection] = []

            def go_on(read: Work[ResultT]) -> ResultT:
                for connection in kept:
                    self._renew(connection)
                    return read(connection, version)
                result, connection, lent = self._begin(version, names, known, lambda conn: read(conn, version))
                stack.push(lent)
                kept.append(connection)
                return result

            yield go_on

    def _until_current(self, version: Version, names: Collection[str], known: int) -> IsCurrent | None:
        """While a shard moves, its former node may still answer for a few milliseconds, with older data than the new
        one. So the counters are compared, like those of a replica, if some are known. If they are lower, the placement
        is read again, once: the coordinator knows of a move before anything can be stored on the new node. If a counter
        is still lower then, ``known`` belongs to another symbol, or the symbol was removed."""
        if not known and not any((version, name) in self._written for name in names):
            return None
        is_first = True

        def is_current(connection: Connection, shard: Version) -> bool:
            nonlocal is_first
            found = symbols.counters(connection, shard, names)
            if all(self.is_current(version, *each, known) for each in found.values()):
                return True
            if is_first:
                is_first = False
                return False
            self._forget_greater(version, found)
            return True

        return is_current

    def _begin(
        self, version: Version, names: Collection[str] | None, known: int, read: Callable[[Connection], ResultT]
    ) -> tuple[ResultT, Connection, ExitStack]:
        """Read a version that is not distributed: at the replica, or at the primary if there is none, if it is behind,
        or if it fails. ``names`` is None to read all symbols. The counters are of single symbols, so ``known`` then
        does not tell whether the replica is current, and the primary is read."""
        replica = self._replicas.least_lagging()
        if replica is None or (names is None and known):
            return _begun(self._primary.connection(), read)
        if names is None or not (known or self._written):
            lent: AbstractContextManager[Connection] = replica.connection()
        else:
            lent = self._checked(replica, version, names, known)
        try:
            return _begun(lent, read)
        except MarketError as error:
            if not is_of_replica(error):
                raise
        return _begun(self._primary.connection(), read)

    @contextmanager
    def _checked(self, replica: Pool, version: Version, names: Collection[str], known: int) -> Iterator[Connection]:
        """Lend a connection to the replica that has replayed what is known, otherwise one to the primary."""
        deadline = monotonic() + self._wait_seconds
        while monotonic() < deadline:
            with replica.connection() as connection:
                found = symbols.counters(connection, version, names)
                if all(self.is_current(version, *each, known) for each in found.values()):
                    yield connection
                    return
            self._waiting.wait(_POLL_SECONDS)
        with self._primary.connection() as connection:
            self._forget_greater(version, symbols.counters(connection, version, names))
            yield connection

    def _forget_greater(self, version: Version, found: Mapping[str, symbols.StoredCounter]) -> None:
        """The counters of a symbol that was removed begin again, and no replica would ever reach the earlier ones."""
        with self._lock:
            for symbol, counter in found.values():
                if self._written.get((version, symbol), 0) > counter:
                    self._written[version, symbol] = counter

    def _renew(self, connection: Connection) -> None:
        """The holder of the connection may have waited for a slow client, so the watchdog must not count this time."""
        self._primary.renew(connection)
        self._replicas.renew(connection)


def _begun(
    lent: AbstractContextManager[Connection], read: Callable[[Connection], ResultT]
) -> tuple[ResultT, Connection, ExitStack]:
    with ExitStack() as stack:
        connection = stack.enter_context(lent)
        return read(connection), connection, stack.pop_all()
