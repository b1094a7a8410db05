"""``bin/marketdata-export``: writes ticks as CSV or as Parquet, all from one snapshot of the database.

The lines of CSV are those of ``GET /v1/ticks?format=csv``. A Parquet file is made from the same lines.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from marketdata import __version__
from marketdata.errors import AlreadyRunning, UsageError
from marketdata.operations.symbol_access import SymbolAccess
from marketdata.store import prune, symbols, ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version


class Selected(NamedTuple):
    """A symbol of an export. ``expected`` is the approximate number of its ticks. If ticks of the wanted times are
    pruned, ``line`` is the midnight before which they are pruned; otherwise it is None."""

    symbol: str
    expected: int
    line: datetime | None


class Selection(NamedTuple):
    """The ticks of ``symbols`` from ``start`` to ``end``, both included, in microseconds."""

    symbols: list[Selected]
    start: int | None
    end: int | None


class Sink(Protocol):
    """Writes ticks to a file."""

    def write(self, lines: bytes) -> int:
        """Write the ticks of these lines of CSV, and return their number."""

    def finish(self, about: dict[str, str]) -> None:
        """Complete the file. ``about`` are facts to keep with it."""

    def give_up(self) -> None:
        """Write nothing more: the file stays incomplete."""


class CsvSink:
    """Writes CSV."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.write(ticks.CSV_HEADER)

    def write(self, lines: bytes) -> int:
        self._file.write(lines)
        return lines.count(b"\n")

    def finish(self, about: dict[str, str]) -> None:
        """Do nothing, because a CSV file has no place for facts."""
        self._file.flush()

    def give_up(self) -> None:
        """Do nothing, because a CSV file has no closing part."""


@contextlib.contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """A transaction in which all statements see the same data. It changes nothing."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def selected(
    access: SymbolAccess, version: Version, names: Sequence[str], start: int | None, end: int | None
) -> Selection:
    """Find the symbols of these names or aliases, or all symbols if there are no names. Raises NotFound for a name of
    which nothing was ever stored."""

    def read(connection: Connection, version: Version, found: Collection[str] | None) -> list[Selected]:
        values = {"symbols": list(found or ()), "all": found is None, "start": start, "end": end}
        return [Selected(*row) for row in connection.execute(version.query(_SELECTED), values)]

    found = {access.read(version, [name], partial(symbols.resolve, symbol=name)) for name in names}
    return Selection(sorted(chain.from_iterable(access.read_each(version, found or None, read))), start, end)


_SELECTED = """
    SELECT s.symbol, coalesce(sum(r.n), 0)::bigint,
           CASE WHEN s.pruned_until > coalesce({instant}(%(start)s::bigint), '-infinity') THEN s.pruned_until END
    FROM {symbols} s LEFT JOIN {rollups_1d} r
        ON r.symbol = s.symbol AND r.res = 86400 AND r.bucket >= s.pruned_until
        AND (%(start)s::bigint IS NULL OR r.bucket > {instant}(%(start)s) - interval '24 hours')
        AND (%(end)s::bigint IS NULL OR r.bucket <= {instant}(%(end)s))
    WHERE s.symbol = ANY (%(symbols)s::text[]) OR %(all)s
    GROUP BY s.symbol ORDER BY s.symbol"""


def export(
    access: SymbolAccess, version: Version, selection: Selection, sink: Sink, progress: Callable[[int], None]
) -> int:
    """Write the selected ticks: one symbol after the other by name, each in the order of ts, seq and id. Returns their
    number.

    ``progress`` is called with the number of ticks so far.
    """
    count = 0
    try:
        for each in selection.symbols:
            for lines in _lines(access, version, each, selection):
                count += sink.write(lines)
                progress(count)
        sink.finish(
            {
                "symbol": ",".join(each.symbol for each in selection.symbols),
                "version": str(version.n),
                "source": f"{version.ticks_table} of marketdata {__version__}",
                "count": str(count),
            }
        )
    except BaseException:
        sink.give_up()
        raise
    return count


def _lines(access: SymbolAccess, version: Version, of: Selected, selection: Selection) -> Iterator[bytes]:
    """The ticks of a symbol that are not pruned, as lines of CSV without the header."""
    _, start, end = selection
    if of.line is not None:
        start = (of.line - prune.EPOCH) // timedelta(microseconds=1)
        if end is not None and end < start:
            return
    read = partial(access.read, version, [of.symbol])
    yield from islice(ticks.blocks(read, of.symbol, start=start, end=end, format="csv"), 1, None)


@contextlib.contextmanager
def new_file(path: Path, *, replaces: bool) -> Iterator[BinaryIO]:
    """Open a file for writing. It has its name when the block has ended without an error; before, it is a hidden file
    in the same folder. Raises UsageError if the file exists, unless ``replaces``. It also raises UsageError for
    something other than a regular file, like a device, because the new file would replace it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{path} is no regular file: name another one, or write to standard output")
    if path.exists() and not replaces:
        raise UsageError(f"{path} already exists: name another file, or replace it with --force")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist")
    part = path.with_name(f".{path.name}.part")
    try:
        # What a killed export left has the same name.
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise UsageError(f"{path} cannot be created: {error.strerror}") from error
    with open(descriptor, "wb") as file:
        if not _lock(part, descriptor):
            raise AlreadyRunning(f"another export writes {path}: wait for it, or name another file")
        try:
            file.truncate(0)
            yield file
            file.flush()
            os.fsync(descriptor)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _lock(path: Path, descriptor: int) -> bool:
    """Lock the open file, without waiting. Returns False if another process has locked it, or renamed it before."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except (BlockingIOError, FileNotFoundError):
        return False
