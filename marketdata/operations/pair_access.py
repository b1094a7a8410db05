"""Runs statements about two versions where they can use both.

The tables of two plain versions are in one database, so one statement reads the source and writes to the target. If
Citus distributes one of them, the data of a symbol are on the node of its shard. Then the rows of the source that a
statement needs (:class:`Rows`) are copied into a temporary table on the target's connection. The statement is the same
in both cases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, NamedTuple, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from marketdata.operations.symbol_access import SymbolAccess
from marketdata.operations.version_pair import Pair, Rows
from marketdata.store.pool import Connection
from marketdata.store.version import Version

ResultT = TypeVar("ResultT")
Values = Mapping[str, Any]

SESSION: LiteralString = (
    "SELECT set_config('marketdata.writer', 'locked', true), set_config('marketdata.pause', 'passed', true)"
)
"""Begins a transaction that locks what it writes, and writes during the pause after a switch, too."""
_LOCK: LiteralString = "SELECT {target_lock}(ARRAY[%(symbol)s::text])"


class Both(NamedTuple):
    """A connection on which statements can use the tables of the target, and the ``inline`` and ``staged`` rows. If
    there are inline rows, they can use the tables of the source, too."""

    connection: Connection
    pair: Pair
    inline: tuple[Rows, ...] = ()
    staged: tuple[Rows, ...] = ()

    def execute(self, statement: LiteralString, values: Values | None = None) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.connection.execute(self.pair.query(statement, self.inline, self.staged), values)


Work = Callable[[Both], ResultT]
_Copied = dict[Rows, list[bytes]]
"""Rows in the format of COPY."""


class PairAccess:
    """``connection`` is that of the command: to the coordinator, if a version is distributed."""

    def __init__(self, connection: Connection, pair: Pair, access: SymbolAccess) -> None:
        self.connection = connection
        self.pair = pair
        self._access = access

    def overview(self, rows: Sequence[Rows], work: Work[ResultT]) -> ResultT:
        """Run ``work`` on the connection of the command, with these rows of all symbols. Plain versions are read in one
        snapshot, a distributed version in one for each shard."""
        copied: _Copied = {}
        for version, is_of_target in ((self.pair.source, False), (self.pair.target, True)):
            of_version = [each for each in rows if each.is_of_target == is_of_target]
            if version.shards is not None and of_version:
                shards = self._copied_of_all(version, of_version)
                copied |= {each: [block for shard in shards for block in shard[each]] for each in of_version}
        with snapshot(self.connection):
            _stage(self.connection, self.pair, copied, {})
            inline = tuple(each for each in rows if each not in copied)
            return work(Both(self.connection, self.pair, inline, tuple(copied)))

    def read(self, symbol: str, rows: Sequence[Rows], values: Values, work: Work[ResultT]) -> ResultT:
        """Run ``work`` where the target has this symbol, with these rows of the source for these values."""
        return self._access.read(self.pair.target, [symbol], self._on_target(symbol, rows, values, work))

    def write(self, symbol: str, rows: Sequence[Rows], values: Values, work: Work[ResultT]) -> ResultT:
        """Like :meth:`read`, in a transaction that locks the symbol in the target, like the functions of
        ``store/sql/ingest.sql``. ``work`` must be idempotent."""

        def locked(both: Both) -> ResultT:
            both.execute(SESSION)
            both.execute(_LOCK, {"symbol": symbol})
            return work(both)

        return self._access.write(self.pair.target, [symbol], self._on_target(symbol, rows, values, locked))

    def each_target(self, rows: Rows, work: Work[list[ResultT]]) -> list[ResultT]:
        """Run ``work`` about the symbols of which the source has these rows, where the target has them. Returns the
        results together."""
        if not self.pair.is_distributed:
            return work(Both(self.connection, self.pair, (rows,)))
        of_symbol: defaultdict[str, list[bytes]] = defaultdict(list)
        for copied in self._copied_of_all(self.pair.source, [rows]):
            for line in b"".join(copied[rows]).splitlines(keepends=True):
                of_symbol[line.split(b"\t", 1)[0].decode()].append(line)

        def on_shard(connection: Connection, target: Version, names: Collection[str]) -> list[ResultT]:
            pair = Pair(self.pair.source, target)
            with connection.transaction():
                _stage(connection, pair, {rows: [line for name in names for line in of_symbol[name]]}, {})
                return work(Both(connection, pair, (), (rows,)))

        shards = self._access.read_each(self.pair.target, sorted(of_symbol), on_shard)
        return [each for found in shards for each in found]

    def each_source(self, statement: LiteralString, values: Values | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement about the source alone: about all symbols, or about those of each shard."""

        def rows(connection: Connection, source: Version, _names: object) -> list[tuple[Any, ...]]:
            return connection.execute(source.query(statement), values).fetchall()

        return [each for found in self._access.read_each(self.pair.source, None, rows) for each in found]

    def write_target(self, symbol: str, work: Callable[[Connection, Version], ResultT]) -> ResultT:
        """Run ``work``, which writes to the target alone, where the target has this symbol."""
        return self._access.write(self.pair.target, [symbol], work)

    def _on_target(
        self, symbol: str, rows: Sequence[Rows], values: Values, work: Work[ResultT]
    ) -> Callable[[Connection, Version], ResultT]:
        copied: _Copied = {}
        if rows and self.pair.is_distributed:
            copied = self._access.read(
                self.pair.source, [symbol], lambda connection, source: _copy_out(connection, source, rows, values)
            )

        def on_target(connection: Connection, target: Version) -> ResultT:
            pair = Pair(self.pair.source, target)
            with connection.transaction():
                _stage(connection, pair, copied, values)
                return work(Both(connection, pair, () if copied else tuple(rows), tuple(copied)))

        return on_target

    def _copied_of_all(self, version: Version, rows: Sequence[Rows]) -> list[_Copied]:
        return self._access.read_each(
            version, None, lambda connection, shard, _names: _copy_out(connection, shard, rows, {})
        )


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """A transaction that reads one snapshot. Within a transaction of the caller, it reads what that one reads."""
    is_outermost = connection.info.transaction_status == TransactionStatus.IDLE
    with connection.transaction():
        if is_outermost:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _copy_out(connection: Connection, version: Version, rows: Sequence[Rows], values: Values) -> _Copied:
    copied: _Copied = {}
    with snapshot(connection), connection.cursor() as cursor:
        for each in rows:
            with cursor.copy(version.query(_COPY_OUT.replace("{rows}", each.select)), values) as blocks:
                copied[each] = list(map(bytes, blocks))
    return copied


def _stage(connection: Connection, pair: Pair, copied: _Copied, values: Values) -> None:
    """Fill the temporary tables of these rows. The tables of the target tell the types of the columns."""
    with psycopg.ClientCursor(connection) as cursor:  # the server takes no values in such statements
        for rows, blocks in copied.items():
            create = pair.target.query(_CREATE.replace("{name}", rows.name).replace("{rows}", rows.select))
            cursor.execute(create, values)
            cursor.execute(f"TRUNCATE pg_temp.{rows.name}")
            with cursor.copy(f"COPY pg_temp.{rows.name} FROM STDIN") as copy:
                for block in blocks:
                    copy.write(block)


_COPY_OUT: LiteralString = "COPY ({rows}) TO STDOUT"
_CREATE: LiteralString = "CREATE TEMPORARY TABLE IF NOT EXISTS {name} AS {rows} WITH NO DATA"
