"""The outbox: the ingestor's file on the disk. It holds items to deliver, dead letters, and the chain's cursor.

It is an SQLite database in WAL mode with ``synchronous=FULL``. A step of the ingestor writes its items and the cursor's
new position in one transaction, so a kill leaves the step either done or not done. Each thread has its own connection.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from marketdata import file_system
from marketdata.errors import Pruned, StateError, UsageError
from marketdata.settings import Settings

FOLDER = "ingestor"
"""The folder of the outboxes in the state directory. The demo has another folder."""

Item = dict[str, Any]
Transaction = sqlite3.Connection
"""A connection with an open transaction, from :meth:`Outbox.transaction`."""

OUTBOX_UNUSABLE = "outbox"
"""The code of the error when the file cannot be read or written, for example because the disk is full."""
_BUSY_MS = 30_000
_KEPT = ("dead_letters", "backfilled", "old_marks")
"""The tables that a rebuilt outbox takes over. All others follow from the chain."""
_JSON = json.JSONEncoder(separators=(",", ":"))
MIGRATIONS = (
    """
    -- One row. The items belong to ticks_table, which is NULL until the API has named the table.
    CREATE TABLE identity (id TEXT NOT NULL, ticks_table TEXT);
    -- The ingestor began with the pool at first_block. The next block to read is next_block. The times
    -- [covered_from, covered_to) were read without a gap up to next_block. All times are in seconds since 1970.
    CREATE TABLE pools (symbol TEXT PRIMARY KEY, address TEXT NOT NULL, next_block INTEGER NOT NULL,
                        first_block INTEGER NOT NULL, covered_from INTEGER, covered_to INTEGER) WITHOUT ROWID;
    -- Known blocks, which were read and not replaced: the newest ones without a gap, older ones if they have ticks.
    -- symbols is a JSON list of the symbols with ticks in the block.
    CREATE TABLE blocks (number INTEGER PRIMARY KEY, hash TEXT NOT NULL, symbols TEXT NOT NULL, time INTEGER NOT NULL);
    -- Blocks that were read and then replaced by a reorganisation.
    CREATE TABLE retracted (hash TEXT NOT NULL, symbol TEXT NOT NULL, number INTEGER NOT NULL,
                            PRIMARY KEY (hash, symbol)) WITHOUT ROWID;
    -- The last block that was reported as final.
    CREATE TABLE finalized (symbol TEXT PRIMARY KEY, block INTEGER NOT NULL) WITHOUT ROWID;
    -- Items to send to the API, in this order.
    CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL);
    CREATE TABLE dead_letters (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL, code TEXT NOT NULL,
                               detail TEXT NOT NULL, at REAL NOT NULL);
    -- Coverage to send to the API, in this order, each after the item with the id after_item. A symbol without a colon
    -- is a chain.
    CREATE TABLE coverage (id INTEGER PRIMARY KEY, symbol TEXT NOT NULL, since INTEGER NOT NULL,
                           until INTEGER NOT NULL, state TEXT NOT NULL, after_item INTEGER NOT NULL);
    -- The blocks of a pool that the backfill stored. Adjacent ranges are merged.
    CREATE TABLE backfilled (ticks_table TEXT NOT NULL, symbol TEXT NOT NULL, address TEXT NOT NULL,
                             first INTEGER NOT NULL, last INTEGER NOT NULL,
                             PRIMARY KEY (ticks_table, symbol, address, first)) WITHOUT ROWID;
    """,
    """
    -- How far each chain was read: the next block of its members, and the times [covered_from, covered_to) that were
    -- read without a gap. finalized_block is the last block that was reported as final.
    CREATE TABLE chains (chain TEXT PRIMARY KEY, next_block INTEGER NOT NULL, covered_from INTEGER,
                         covered_to INTEGER, finalized_block INTEGER) WITHOUT ROWID;
    INSERT INTO chains (chain, next_block)
        SELECT substr(symbol, 1, instr(symbol, ':') - 1), max(next_block) FROM pools GROUP BY 1;
    -- next_block is NULL for a member of the chain. The pool's own coverage was reported for the times [covered_from,
    -- covered_to). If joined is 1, it touches the chain's coverage, which extends it. trades are the ticks that were
    -- read.
    CREATE TABLE pools_of_chains (
        symbol TEXT PRIMARY KEY, chain TEXT NOT NULL, address TEXT NOT NULL, kind TEXT NOT NULL DEFAULT '',
        token0 TEXT NOT NULL DEFAULT '', token1 TEXT NOT NULL DEFAULT '', first_block INTEGER NOT NULL,
        next_block INTEGER, covered_from INTEGER, covered_to INTEGER, joined INTEGER NOT NULL DEFAULT 0,
        trades INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    INSERT INTO pools_of_chains (symbol, chain, address, first_block, next_block, covered_from, covered_to)
        SELECT p.symbol, c.chain, p.address, p.first_block, nullif(p.next_block, c.next_block), p.covered_from,
               p.covered_to FROM pools p JOIN chains c ON c.chain = substr(p.symbol, 1, instr(p.symbol, ':') - 1);
    DROP TABLE pools;
    ALTER TABLE pools_of_chains RENAME TO pools;
    CREATE TABLE blocks_of_chains (chain TEXT NOT NULL, number INTEGER NOT NULL, hash TEXT NOT NULL,
                                   symbols TEXT NOT NULL, time INTEGER NOT NULL,
                                   PRIMARY KEY (chain, number)) WITHOUT ROWID;
    INSERT INTO blocks_of_chains SELECT c.chain, b.* FROM blocks b, (SELECT chain FROM chains LIMIT 1) c;
    DROP TABLE blocks;
    ALTER TABLE blocks_of_chains RENAME TO blocks;
    CREATE TABLE retracted_of_chains (chain TEXT NOT NULL, hash TEXT NOT NULL, symbol TEXT NOT NULL,
                                      number INTEGER NOT NULL, PRIMARY KEY (hash, symbol)) WITHOUT ROWID;
    INSERT INTO retracted_of_chains SELECT substr(symbol, 1, instr(symbol, ':') - 1), * FROM retracted;
    DROP TABLE retracted;
    ALTER TABLE retracted_of_chains RENAME TO retracted;
    DROP TABLE finalized;
    -- The pools that the factories of rpc.json announced. symbol is NULL while the pool is not read: fault says why, or
    -- the pool has too few trades yet.
    CREATE TABLE discovered (
        chain TEXT NOT NULL, address TEXT NOT NULL, kind TEXT NOT NULL, factory TEXT NOT NULL, token0 TEXT NOT NULL,
        token1 TEXT NOT NULL, block INTEGER NOT NULL, time INTEGER NOT NULL, symbol TEXT UNIQUE, decimals0 INTEGER,
        decimals1 INTEGER, invert INTEGER, trades INTEGER NOT NULL DEFAULT 0, fault TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (chain, address)) WITHOUT ROWID;
    -- What the tokens say of themselves. decimals is NULL if a token does not say them.
    CREATE TABLE tokens (chain TEXT NOT NULL, address TEXT NOT NULL, symbol TEXT NOT NULL, decimals INTEGER,
                         PRIMARY KEY (chain, address)) WITHOUT ROWID;
    -- The events of a factory were read from its start up to next_block, which is NULL once the members were read that
    -- far, too. selection is a JSON list of the kind, the start and the selected tokens.
    CREATE TABLE factories (chain TEXT NOT NULL, address TEXT NOT NULL, selection TEXT NOT NULL, next_block INTEGER,
                            PRIMARY KEY (chain, address)) WITHOUT ROWID;
    -- Each step looks for these pools, which are few.
    CREATE INDEX late ON pools (chain) WHERE next_block IS NOT NULL;
    CREATE INDEX joining ON pools (chain) WHERE joined = 0;
    """,
    """
    -- What earlier releases recorded in backfilled. They stored nothing below the start_block of rpc.json, but recorded
    -- these blocks, too. A row stays until a start_block was compared with it.
    CREATE TABLE old_marks AS SELECT symbol, address, first, last FROM backfilled;
    """,
    """
    -- Blocks of which logs of the pools with these symbols (a JSON list) are missing. They were read again tries times,
    -- and are read again at the time due, in seconds since 1970.
    CREATE TABLE doubted (chain TEXT NOT NULL, number INTEGER NOT NULL, hash TEXT NOT NULL, time INTEGER NOT NULL,
                          symbols TEXT NOT NULL, tries INTEGER NOT NULL, due REAL NOT NULL,
                          PRIMARY KEY (chain, number)) WITHOUT ROWID;
    """,
)
"""The steps that build the tables. ``user_version`` is the number of steps that a file has. A step is never changed
after a release; a change of the tables is a further step."""


class OutboxItem(NamedTuple):
    """An item of the outbox. ``body`` is its JSON."""

    id: int
    body: str


class DeadLetter(NamedTuple):
    """An item that the API refused. ``at`` is the time of the refusal, in seconds since 1970."""

    id: int
    body: str
    code: str
    detail: str
    at: float


class Coverage(NamedTuple):
    """The times [since, until) of a symbol, or of a chain, in seconds since 1970. ``state`` is ``indexed`` if these
    times were read, ``joined`` if in addition the chain's coverage continues that of the symbol, and ``failed`` if they
    must be read again."""

    id: int
    symbol: str
    since: int
    until: int
    state: str


class Rejection(NamedTuple):
    """An item that the API refused, with the API's reason."""

    item: OutboxItem
    code: str
    detail: str


class Outbox:
    """A connection to the file. A missing file is created. With ``only_reads``, a missing file is an error, and no
    method that writes may be called.

    Raises StateError if the file cannot be used, for example because the disk is full. The file is then unchanged.
    """

    def __init__(self, path: Path, *, only_reads: bool = False) -> None:
        self.path = path
        with self._translated():
            # With any other isolation_level, sqlite3 opens transactions itself.
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={'ro' if only_reads else 'rwc'}",
                uri=True, isolation_level=None, check_same_thread=False,
            )  # fmt: skip
            try:
                self.identity = self._prepare(only_reads)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, only_reads: bool) -> str:
        """Set up the connection and the tables; return the outbox's id."""
        self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        if not only_reads:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._migrate()
        return str(self._connection.execute("SELECT id FROM identity").fetchone()[0])

    def close(self) -> None:
        self._connection.close()

    def copy_to(self, target: Path) -> None:
        """Write a snapshot to a new file that only its owner may read. Other processes may work meanwhile."""
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with self._translated(target), closing(sqlite3.connect(target)) as copy:
            self._connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # so that the snapshot is a single file

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled the transaction back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._connection.execute(statement, values).fetchall()

    def bind(self, ticks_table: str) -> None:
        """Bind the outbox to a table permanently. Raises UsageError if the outbox is bound to another table."""
        known = self.rows("SELECT ticks_table FROM identity")[0][0]
        if known is None:
            # A full disk must not prevent delivery. The next call tries again.
            with suppress(StateError), self.transaction() as connection:
                connection.execute("UPDATE identity SET ticks_table = ?", (ticks_table,))
        elif known != ticks_table:
            raise UsageError(
                f"{self.path} belongs to the table {known}, but the API writes to {ticks_table}: set API_UPSTREAM "
                f"to the API of {known}, or TICKS_TABLE to {ticks_table}, which has another outbox"
            )

    # -- items -------------------------------------------------------------------------------------------------------

    def count(self) -> int:
        return int(self.rows("SELECT count(*) FROM items")[0][0])

    def first(self, limit: int, after: int = 0) -> list[OutboxItem]:
        """The oldest items with an id above ``after``, in their order."""
        rows = self.rows("SELECT id, body FROM items WHERE id > ? ORDER BY id LIMIT ?", after, limit)
        return [OutboxItem(*row) for row in rows]

    def acknowledged(self, items: Sequence[OutboxItem], rejections: Iterable[Rejection]) -> tuple[int, int]:
        """Remove items that the API stored or refused. Returns how many became dead letters, and how many are sent
        again.

        The API refuses a tick as ``retracted`` in two cases. If the block is no longer in the chain, this ingestor
        retracted the block and then sent the tick a second time, because a response was lost. Such a tick is dropped,
        also if the block came back while the pool was not read. If the block is still in the chain, another program
        retracted it. Then the block is restored, and its tick is sent again.

        What the API refuses as ``pruned`` is dropped, because it will never be stored.
        """
        dead = again = 0
        with self.transaction() as connection:
            for item, code, detail in rejections:
                fate = _fate(connection, item, code)
                if fate == "again":
                    put_encoded(connection, after_restore(item.body))
                    again += 1
                elif fate == "dead":
                    dead += 1
                    add_dead_letter(connection, item.body, code, detail)
            connection.execute("DELETE FROM items WHERE id BETWEEN ? AND ?", (items[0].id, items[-1].id))
        return dead, again

    # -- coverage ----------------------------------------------------------------------------------------------------

    def coverage(self, limit: int) -> list[Coverage]:
        """The oldest coverage whose ticks were all delivered, oldest first."""
        rows = self.rows(
            "SELECT id, symbol, since, until, state FROM coverage "
            "WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.id <= after_item) ORDER BY id LIMIT ?",
            limit,
        )
        return [Coverage(*row) for row in rows]

    def recorded(self, coverage: Sequence[Coverage]) -> None:
        """Remove coverage that the API has recorded."""
        with self.transaction() as connection:
            connection.executemany("DELETE FROM coverage WHERE id = ?", [(each.id,) for each in coverage])

    # -- dead letters ------------------------------------------------------------------------------------------------

    def dead_letters(self) -> list[DeadLetter]:
        rows = self.rows("SELECT id, body, code, detail, at FROM dead_letters ORDER BY id")
        return [DeadLetter(*row) for row in rows]

    def count_dead_letters(self) -> int:
        return int(self.rows("SELECT count(*) FROM dead_letters")[0][0])

    def retry_dead_letters(self) -> int:
        """Append every dead letter to the items again; returns how many."""
        with self.transaction() as connection:
            connection.execute("INSERT INTO items (body) SELECT body FROM dead_letters ORDER BY id")
            return connection.execute("DELETE FROM dead_letters").rowcount

    # ----------------------------------------------------------------------------------------------------------------

    def _migrate(self) -> None:
        with self.transaction() as connection:
            done = connection.execute("PRAGMA user_version").fetchone()[0]
            if done > len(MIGRATIONS):
                raise StateError(f"{self.path} was written by a later release: use that release")
            for number, script in enumerate(MIGRATIONS[done:], start=done + 1):
                for statement in script.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            if not done:
                connection.execute("INSERT INTO identity (id) VALUES (?)", (str(uuid.uuid4()),))

    @contextmanager
    def _translated(self, written: Path | None = None) -> Iterator[None]:
        """``written`` is the file that is written, if it is not the outbox."""
        try:
            yield
        except sqlite3.Error as error:
            raise StateError(_described(written or self.path, self.path, error), code=OUTBOX_UNUSABLE) from error


def _described(written: Path, outbox: Path, error: sqlite3.Error) -> str:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return f"disk_full: {file_system.named(written.parent)} is full, so {written} cannot be written"
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"{outbox} is damaged ({error}): stop the ingestor, run bin/marketdata-ingestor outbox rebuild, start it"
    return f"{outbox} cannot be used: {error}"


def put(connection: Transaction, items: Iterable[Item]) -> None:
    """Append items, within a transaction."""
    put_encoded(connection, [encoded(item) for item in items])


def put_encoded(connection: Transaction, bodies: Iterable[str]) -> None:
    """Append items that are already JSON, within a transaction."""
    connection.executemany("INSERT INTO items (body) VALUES (?)", [(body,) for body in bodies])


def put_coverage(connection: Transaction, symbol: str, since: int, until: int, state: str) -> None:
    """Append coverage, within a transaction. The coverage is sent after all items that are already in the outbox."""
    connection.execute(
        "INSERT INTO coverage (symbol, since, until, state, after_item) "
        "VALUES (?, ?, ?, ?, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'items'), 0))",
        (symbol, since, until, state),
    )


def add_dead_letter(connection: Transaction, body: str, code: str, detail: str) -> None:
    """Add a dead letter, within a transaction."""
    connection.execute(
        "INSERT INTO dead_letters (body, code, detail, at) VALUES (?, ?, ?, ?)", (body, code, detail, time.time())
    )


def finality(symbol: str, block: int, time: int | None) -> Item:
    """The item that reports a symbol as final up to a block. ``time`` is the block's time in seconds since 1970, or
    None if unknown."""
    ts = {} if time is None else {"ts": time * 1000}
    return {"finalize": {"symbol": symbol, "block": block, **ts}}


def chain_finality(chain: str, block: int, time: int) -> Item:
    """The item that reports a chain as final up to a block, with the block's time in seconds since 1970."""
    return {"finalize": {"chain": chain, "block": block, "ts": time * 1000}}


def chain_of(symbol: str) -> str:
    """The chain of a symbol ``CHAIN:NAME``."""
    return symbol.partition(":")[0]


def encoded(item: Item) -> str:
    return _JSON.encode(item)


def _fate(connection: Transaction, item: OutboxItem, code: str) -> str:
    """Decides what to do with a refused item. ``dead``: make it a dead letter. ``done``: drop it. ``again``: send it
    again."""
    if code == Pruned.code:
        return "done"
    tick = json.loads(item.body)
    if code != "retracted" or "block" not in tick:
        return "dead"
    block = tick["block"]
    row = connection.execute(
        "SELECT symbols FROM blocks WHERE chain = ? AND number = ? AND hash = ?",
        (chain_of(tick["symbol"]), block["number"], block["hash"]),
    ).fetchone()
    if row is not None and tick["symbol"] in json.loads(row[0]):
        return "again"
    retracted_here = connection.execute(
        "SELECT 1 FROM retracted WHERE hash = ? AND symbol = ?", (block["hash"], tick["symbol"])
    ).fetchone()
    return "done" if retracted_here else "dead"


def after_restore(body: str) -> tuple[str, str]:
    """The item that restores the block of a tick, then the tick. Both are JSON."""
    tick = json.loads(body)
    return encoded({"restore": {"symbol": tick["symbol"], "block_hash": tick["block"]["hash"]}}), body


# -- the files --------------------------------------------------------------------------------------------------------


def rebuild(path: Path) -> tuple[Path, list[str]]:
    """Put a new outbox in the place of this one, whose lock the caller holds. The new one takes over what cannot be
    read from the chain again. Returns where the former file is, and the tables of it that could not be read."""
    former = path.with_name(f"{path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S}.damaged")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(former.with_name(former.name + suffix))
    unread = []
    with closing(Outbox(path)) as outbox:
        for table in _KEPT:
            try:
                _carry(former, outbox, table)
            except (sqlite3.Error, StateError):
                unread.append(table)
    return former, unread


def _carry(former: Path, outbox: Outbox, table: str) -> None:
    with closing(sqlite3.connect(former)) as source, outbox.transaction() as target:
        rows = source.execute(f"SELECT * FROM {table}").fetchall()
        if rows:
            target.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)


def outbox_path(settings: Settings, table: str, folder: str = FOLDER) -> Path:
    """The path of a table's outbox. The file may not exist yet."""
    return settings.state_dir / folder / f"{table}.sqlite"


def outboxes(settings: Settings) -> list[Path]:
    """The existing outboxes of the table that the settings name; if they name none, of all tables with the prefix.
    Raises PermissionError if the state directory belongs to another account."""
    pattern = f"{settings.ticks_table or f'{settings.prefix}_ticks_v*'}.sqlite"
    try:
        # glob would find nothing in a folder that this account may not read.
        return sorted(path for path in (settings.state_dir / FOLDER).iterdir() if path.match(pattern))
    except FileNotFoundError:
        return []
