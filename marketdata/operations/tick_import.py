"""``bin/marketdata-import``: stores the ticks of CSV and Parquet files, by the rules of the API.

A batch of ticks, their candles and the place in the file where the next batch begins are stored in one transaction. So
an import may be killed at any moment, and the next one of the same file goes on from there. A distributed version takes
a transaction for each shard, and the last one stores the place. After a kill, the ticks of that batch are sent again,
and count as known.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import BinaryIO, NamedTuple, Protocol

from marketdata.errors import InvalidValue, StateError
from marketdata.operations.advisory_lock import exclusive
from marketdata.operations.symbol_access import SymbolAccess
from marketdata.store.ticks import REFUSALS, Outcome
from marketdata.store.version import Version
from marketdata.tick_columns import Block, LineTable, block_of
from marketdata.tick_csv import MAX_LINE_BYTES

BATCH = 2500
"""Rows of a transaction. With twice as many, an import of Parquet needs 12 MiB more."""
_DIGESTED_BYTES = 1 << 20
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
"""The first bytes of files."""


class Place(NamedTuple):
    """A place in a file: the number of rows before it, and its position in the (unpacked) bytes of CSV."""

    rows: int = 0
    position: int = 0


class Rejection(NamedTuple):
    """A row that was not stored. Rows are counted from 1; the first line of CSV is not counted."""

    row: int
    code: str
    detail: str


class Source(Protocol):
    """A file with ticks."""

    def blocks(self, start: Place) -> Iterator[tuple[Block, Place]]:
        """The rows from ``start`` on, in blocks, each with the place after it."""

    @property
    def share(self) -> float:
        """Which share of the file was read."""


class CsvSource:
    """CSV, also compressed by gzip. ``size`` is the size of the file, or 0 if it is not known."""

    def __init__(self, file: io.BufferedReader, size: int) -> None:
        self._raw, self._size = file, size
        begin = file.peek(len(_PARQUET))
        if begin.startswith(_PARQUET):
            raise InvalidValue("the name of a Parquet file must end in .parquet")
        is_packed = begin.startswith(_GZIP)
        self._file = io.BufferedReader(gzip.GzipFile(fileobj=file), 1 << 16) if is_packed else file

    @property
    def share(self) -> float:
        return self._raw.tell() / self._size if self._size else 0.0

    def blocks(self, start: Place) -> Iterator[tuple[Block, Place]]:
        try:
            table = LineTable(self._line())
            if start.position:
                self._file.seek(start.position)
            rows = start.rows
            while lines := [line.decode(errors="surrogateescape") for line in islice(iter(self._line, b""), BATCH)]:
                yield table.block(rows, lines), Place(rows + len(lines), self._file.tell() if self._size else 0)
                rows += len(lines)
        except (EOFError, zlib.error, OSError) as error:
            raise StateError(f"it cannot be read to its end: {error}") from error

    def _line(self) -> bytes:
        """The next line, empty at the end of the file. Of a line that is too long, only the beginning is kept."""
        line = rest = self._file.readline(MAX_LINE_BYTES + 1)
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = self._file.readline(MAX_LINE_BYTES + 1)
        return line


class ParquetSource:
    """A Parquet file."""

    def __init__(self, file: BinaryIO) -> None:
        from marketdata.operations.parquet import ParquetRows

        self._rows = ParquetRows(file)
        self._read = 0

    @property
    def share(self) -> float:
        return self._read / max(self._rows.count, 1)

    def blocks(self, start: Place) -> Iterator[tuple[Block, Place]]:
        self._read = start.rows
        for columns in self._rows.batches(start.rows, BATCH):
            first, self._read = self._read, self._read + len(columns["id"])
            yield block_of(first, columns), Place(self._read)


class Progress(NamedTuple):
    """How far a file was imported: the place of the next batch, and the numbers of new, known and rejected ticks."""

    place: Place = Place()
    created: int = 0
    duplicates: int = 0
    rejected: int = 0
    is_complete: bool = False


class Import:
    """Imports one file into a version. ``file`` identifies the file where progress is kept; without it, none is
    kept."""

    def __init__(self, access: SymbolAccess, version: Version, file: str | None) -> None:
        self._access = access
        self._connection = access.connection
        self._version = version
        self._file = file

    def alone(self) -> AbstractContextManager[None]:
        """A context in which no other process imports the file into the version."""
        if self._file is None:
            return nullcontext()
        name = f"marketdata import {self._version.ticks_table} {self._file}"
        return exclusive(self._connection, name, lambda: "another process imports this file: wait for it, or stop it")

    def progress(self) -> Progress:
        """How far the file was imported before."""
        row = self._connection.execute(self._version.query(_PROGRESS), (self._file,)).fetchone()
        return Progress() if row is None else Progress(Place(*row[:2]), *row[2:])

    def run(self, source: Source, begun: Progress, tell: Callable[[Progress, list[Rejection]], None]) -> Progress:
        """Store what follows after ``begun``. ``tell`` is called after each batch, with its rejected rows."""
        done = begun
        for block, after in source.blocks(begun.place):
            done, rejected = self._store(block, after, done)
            tell(done, rejected)
        done = done._replace(is_complete=True)
        self._keep(done)
        return done

    def _store(self, block: Block, after: Place, done: Progress) -> tuple[Progress, list[Rejection]]:
        rejected = [Rejection(index + 1, error.code, error.detail) for index, error in block.rejected]
        with self._connection.transaction():
            outcomes = self._access.ingest(self._version, block.ticks)
            rejected += [
                Rejection(index + 1, *REFUSALS[outcome])
                for index, outcome in zip(block.indexes, outcomes, strict=True)
                if outcome in REFUSALS
            ]
            created, duplicates = outcomes.count(Outcome.CREATED), outcomes.count(Outcome.DUPLICATE)
            done = Progress(after, done.created + created, done.duplicates + duplicates, done.rejected + len(rejected))
            self._keep(done)
        return done, sorted(rejected)

    def _keep(self, done: Progress) -> None:
        if self._file is not None:
            self._connection.execute(self._version.query(_KEEP), (self._file, *done.place, *done[1:]))


def identity(file: BinaryIO) -> str:
    """Identifies a file by its size, its time of change and its first bytes. Its name may change."""
    status = os.fstat(file.fileno())
    first = os.pread(file.fileno(), _DIGESTED_BYTES, 0)
    return hashlib.sha256(b"%d %d " % (status.st_size, status.st_mtime_ns) + first).hexdigest()


_PROGRESS = "SELECT rows, position, created, duplicates, rejected, is_complete FROM {imports} WHERE file = %s"
_KEEP = """
    INSERT INTO {imports} (file, rows, position, created, duplicates, rejected, is_complete)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (file) DO UPDATE SET
        rows = excluded.rows, position = excluded.position, created = excluded.created,
        duplicates = excluded.duplicates, rejected = excluded.rejected, is_complete = excluded.is_complete"""
