"""Runs work on the nodes of a Citus cluster that hold the shards of a distributed version.

The coordinator knows on which node each shard is (:mod:`marketdata.store.shards`). This is read once and kept. It may
change at any time: Citus moves shards when a node is added or drained. So each write checks in its transaction that the
shard is on the node, and each read checks it afterwards, before its result is used. If the shard has moved, the
placement is read again and the work is repeated on the other node.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from time import monotonic
from typing import Any, TypeVar, cast

from marketdata.errors import (
    Contended,
    DatabaseDefect,
    DatabaseUnavailable,
    InvalidValue,
    MarketError,
    NotFound,
    Pruned,
    VersionMissing,
)
from marketdata.store import shards
from marketdata.store.pool import Connection, Pool
from marketdata.store.shards import Moved, Node, Placed
from marketdata.store.version import Version

ResultT = TypeVar("ResultT")
Work = Callable[[Connection, Version], ResultT]
"""Work on a connection to the node of a shard, with the names of the shard."""
ReadNamed = Callable[[Connection, Version, Any], ResultT]
"""A read of several symbols, which is called with those that the shard has, or with None for all symbols."""
IsCurrent = Callable[[Connection, Version], bool]
"""Whether a shard's data are recent enough. It is asked after the work, on the same connection."""

PARALLEL = 8
"""The number of threads for requests about several shards. The threads of the requests themselves help them."""
WRITERS = 8
"""Writes that one process runs on a node at the same time. The writes of many shards would otherwise take all
connections to the node, so that reads and further writes would get none in time."""
PATIENCE_SECONDS = 3.0
_PAUSE_SECONDS = 0.02
_MAX_HASHES = 100_000
"""Names whose hash is kept. When there are more, all are forgotten."""


class Divided(Contended):
    """The names belong to several shards now: an alias was changed, or a shard was split."""


class Placement:
    """The nodes of a cluster, and a pool for each. Thread-safe. ``close`` may be called repeatedly."""

    def __init__(
        self, coordinator: Pool, made_pool: Callable[[Node], Pool], patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """``coordinator`` is lent for questions about the placement. ``made_pool`` opens a pool for a node. Failed work
        is repeated for ``patience_seconds`` while shards move or their locks are contended."""
        self._patience_seconds = patience_seconds
        self._coordinator = coordinator
        self._made_pool = made_pool
        self._placed: dict[Version, tuple[int, tuple[Placed, ...]]] = {}
        """The placement, and how often it had been forgotten before it was read."""
        self._forgotten: dict[Version, int] = {}
        self._hashes: dict[str, int] = {}
        self._pools: dict[Node, Pool] = {}
        self._writers: dict[Node, threading.Semaphore] = {}
        self._closing: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._threads = ThreadPoolExecutor(PARALLEL, "shards")

    def read(
        self,
        version: Version,
        names: Collection[str],
        work: Work[ResultT],
        is_current: IsCurrent | None = None,
        *,
        checks: bool = False,
    ) -> ResultT:
        """Run ``work`` on the node of these symbols or aliases, which must belong to one shard. With ``checks``, the
        statement of ``work`` itself checks ``{is_placed}`` and finds rows only of these names, which saves a round
        trip."""

        def attempt(placed: Placed) -> ResultT:
            with self.pool(placed.node).connection() as connection:
                return _checked(connection, placed, names, work, is_current, checks=checks)

        return self._repeated(version, names, attempt)

    def write(self, version: Version, names: Collection[str], work: Work[ResultT]) -> ResultT:
        """Run ``work`` on the node of these symbols or aliases, which must belong to one shard. ``work`` must call
        ``{lock}`` first in each transaction. It is repeated if the connection to the node fails and the shard is on
        another one by then, so it must be idempotent."""

        def attempt(placed: Placed) -> ResultT:
            # A failed statement may have been a write, so the connection is checked first.
            with self._turn(placed.node), self.pool(placed.node).connection(fresh_seconds=0.0) as connection:
                return work(connection, placed.shard)

        return self._repeated(version, names, attempt)

    def grouped(self, version: Version, names: Iterable[str]) -> list[list[str]]:
        """These symbols or aliases, in groups that belong to one shard each."""
        found: dict[Placed, list[str]] = {}
        for name, number in self._hashes_of(names).items():
            found.setdefault(self._of_hash(version, number), []).append(name)
        return list(found.values())

    def number(self, version: Version, name: str) -> int:
        """The number of the shard of a symbol or alias. The version's shards are numbered from 0."""
        (number,) = self._hashes_of([name]).values()
        return _place_of(self.placed(version), number)

    def read_each(self, version: Version, names: Collection[str] | None, work: ReadNamed[ResultT]) -> list[ResultT]:
        """Run ``work`` on each shard of these names, with the names that belong to it, or on each shard of the version
        with None."""
        if names is not None:
            return self.each_group(
                version, names, lambda group: self.read(version, group, lambda conn, shard: work(conn, shard, group))
            )
        return self.each(self.placed(version), lambda placed: self._read_shard(version, placed, work))

    def each_group(
        self, version: Version, names: Collection[str], work: Callable[[Collection[str]], ResultT]
    ) -> list[ResultT]:
        """Run ``work`` on the names of each shard. If it raises :class:`Divided`, they are grouped again."""

        def on_group(group: Collection[str]) -> list[ResultT]:
            try:
                return [work(group)]
            except Divided:
                return [each for part in self.grouped(version, group) for each in on_group(part)]

        return list(chain.from_iterable(self.each(self.grouped(version, names), on_group)))

    def _read_shard(self, version: Version, placed: Placed, work: ReadNamed[ResultT]) -> ResultT:
        def attempt(now: Placed) -> ResultT:
            with self.pool(now.node).connection() as connection:
                return _checked(connection, now, (), lambda conn, shard: work(conn, shard, None))

        return self._repeated(version, (), attempt, lambda: self._of_hash(version, placed.shard.first))

    def each(self, items: Sequence[Any], work: Callable[[Any], ResultT]) -> list[ResultT]:
        """Run ``work`` on each item, several at the same time. All have ended when this returns or raises."""
        if len(items) <= 1:
            return [work(item) for item in items]
        results: list[ResultT] = []
        errors: list[Exception] = []
        for wait in [self.begin(partial(work, item)) for item in items]:
            try:
                results.append(wait())
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def begin(self, work: Callable[[], ResultT]) -> Callable[[], ResultT]:
        """Begin work in another thread. Returns a function that waits for its result, or raises its error. If no thread
        is free by then, this function does the work itself, because the threads may all wait for a node."""
        running = self._threads.submit(work)
        return lambda: work() if running.cancel() else running.result()

    def placed(self, version: Version) -> tuple[Placed, ...]:
        """The shards of a version, in the order of their hashes."""
        forgotten = self._forgotten.get(version, 0)
        before, found = self._placed.get(version, (-1, ()))
        if before < forgotten:
            found = self._read_placement(version)
            with self._lock:
                self._placed[version] = forgotten, found
            self._close_unused()
        return found

    def refresh(self, served: Version) -> tuple[Placed, ...]:
        """Read the placement of the served version again. Meanwhile requests use the known one. The placements of other
        versions are forgotten, so that connections to nodes that only they use are closed."""
        forgotten = self._forgotten.get(served, 0)
        found = self._read_placement(served)
        with self._lock:
            self._placed = {served: (forgotten, found)}
        self._close_unused()
        return found

    def close_all(self) -> None:
        """Close the connections to all nodes: no distributed version is served any more."""
        with self._lock:
            self._placed = {}
        self._close_unused()

    def _read_placement(self, version: Version) -> tuple[Placed, ...]:
        with self._coordinator.connection() as connection:
            found = tuple(shards.placed(connection, version))
        if not found:
            raise VersionMissing(f"Citus has no shards of {version.ticks_table}: run bin/marketdata-version N")
        return found

    def _close_unused(self) -> None:
        """Close the connections to nodes that hold no shard any more. They may have been removed from the cluster."""
        with self._lock:
            used = {each.node for _, placed in self._placed.values() for each in placed}
            unused = [self._pools.pop(node) for node in self._pools.keys() - used]
            self._closing = [each for each in self._closing if each.is_alive()]
            for pool in unused:  # this takes seconds if the node has ended
                self._closing.append(threading.Thread(target=pool.close, name="shards-close", daemon=True))
                self._closing[-1].start()

    def pool(self, node: Node) -> Pool:
        """The pool of connections to a node; opened at its first use."""
        with self._lock:
            found = self._pools.get(node)
            if found is None:
                found = self._pools[node] = self._made_pool(node)
        return found

    def _turn(self, node: Node) -> threading.Semaphore:
        with self._lock:
            return self._writers.setdefault(node, threading.Semaphore(WRITERS))

    def pools(self) -> dict[Node, Pool]:
        """The pools that are open."""
        with self._lock:
            return dict(self._pools)

    def expect(self, version: Version, names: Iterable[str], node: Node) -> None:
        """Read the placement again at its next use, unless all these symbols are on ``node`` according to it. Call this
        for changes of which the node has sent a notification. The coordinator knows of a move before the other nodes
        do, so the next read then sees the change."""
        before, placed = self._placed.get(version, (-1, ()))
        is_known = before == self._forgotten.get(version, 0)
        try:
            if is_known and all(_holder(placed, number).node == node for number in self._hashes_of(names).values()):
                return
        except MarketError:  # the coordinator does not answer for names that are new
            pass
        self.forget(version)

    def forget(self, version: Version, names: Iterable[str] = ()) -> None:
        """Read the placement again at its next use, and the symbols that these names stand for."""
        with self._lock:
            self._forgotten[version] = self._forgotten.get(version, 0) + 1
        for name in names:
            self._hashes.pop(name, None)

    def close(self, timeout: float = 5.0) -> None:
        """Close the connections to all nodes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pool in self.pools().values():
            pool.close(timeout)
        for thread in self._closing:
            thread.join(timeout)

    def _repeated(
        self,
        version: Version,
        names: Collection[str],
        attempt: Callable[[Placed], ResultT],
        find: Callable[[], Placed] | None = None,
    ) -> ResultT:
        """Run ``attempt`` on the node of the shard. If the shard has moved meanwhile, run it again on the new node."""
        find = find or (lambda: self._place(version, names))
        deadline: float | None = None
        while True:
            placed = find()
            error: MarketError
            try:
                return attempt(placed)
            except Contended as again:
                error, is_other = again, True
                self.forget(version, names)
            except (VersionMissing, DatabaseUnavailable, DatabaseDefect) as failed:
                # A table that is dropped during a statement is an internal error of PostgreSQL.
                error = failed
                self.forget(version, names)
                is_other = self._is_elsewhere(find, placed)
            # The first attempt may have waited for a move to end. So the time counts from its end.
            deadline = deadline or monotonic() + self._patience_seconds
            if not is_other or monotonic() > deadline:
                raise error
            self._waiting.wait(_PAUSE_SECONDS)

    def _is_elsewhere(self, find: Callable[[], Placed], placed: Placed) -> bool:
        try:
            return find() != placed
        except MarketError:
            return False

    def _place(self, version: Version, names: Collection[str]) -> Placed:
        found = {self._of_hash(version, number) for number in self._hashes_of(names).values()}
        if len(found) != 1:  # they belonged to one shard a moment ago, but an alias stands for another symbol now
            raise Divided("an alias was changed; send the request again")
        return found.pop()

    def _of_hash(self, version: Version, number: int) -> Placed:
        return _holder(self.placed(version), number)

    def _hashes_of(self, names: Iterable[str]) -> dict[str, int]:
        """The hash of each name's symbol. Unknown hashes are read from the coordinator."""
        found = {name: self._hashes.get(name) for name in names}
        missing = [name for name, number in found.items() if number is None]
        if missing:
            with self._coordinator.connection() as connection:
                asked = shards.hashes(connection, missing)
            if len(self._hashes) > _MAX_HASHES:
                self._hashes = {}
            self._hashes |= asked
            found |= asked
        return cast("dict[str, int]", found)


def _holder(placed: Sequence[Placed], number: int) -> Placed:
    """The shard that has the symbols with this hash."""
    return placed[_place_of(placed, number)]


def _place_of(placed: Sequence[Placed], number: int) -> int:
    return bisect_right(placed, number, key=lambda each: each.shard.first) - 1


def _checked(
    connection: Connection,
    placed: Placed,
    names: Collection[str],
    work: Work[ResultT],
    is_current: IsCurrent | None = None,
    *,
    checks: bool = False,
) -> ResultT:
    """What ``work`` returns or raises. Raises :class:`Moved` if the data that it has read are not current."""
    try:
        result = work(connection, placed.shard)
    except (NotFound, InvalidValue, Pruned):
        if not shards.is_here(connection, placed.shard, names):
            raise Moved() from None
        raise
    if not checks and not shards.is_here(connection, placed.shard, names):
        raise Moved()
    if is_current is not None and not is_current(connection, placed.shard):
        raise Moved()
    return result
