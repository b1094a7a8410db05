"""Ticks in Parquet files, by pyarrow. Only the commands that write or read such files import this module.

Prices and sizes are decimals of 60 digits, 30 of them after the point, so that no digit is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from marketdata.errors import InvalidValue, MissingRequirement, StateError
from marketdata.tick import plain
from marketdata.tick_csv import COLUMNS, check_columns

try:
    import pyarrow as pa
    from pyarrow import csv, parquet
except ModuleNotFoundError as error:
    raise MissingRequirement(
        "pyarrow is not installed; bin/marketdata-export --format parquet and bin/marketdata-import install it"
    ) from error

ROW_GROUP = 10_000
"""Ticks of a row group. The writer keeps a row group in memory, several times over."""

_AMOUNT = pa.decimal256(60, 30)
_TYPES = {
    "symbol": pa.string(),
    "id": pa.string(),
    "ts": pa.timestamp("us", "UTC"),
    "seq": pa.int64(),
    "price": _AMOUNT,
    "size": _AMOUNT,
    "side": pa.string(),
    "block_number": pa.int64(),
    "block_hash": pa.string(),
    "tx": pa.string(),
}
_NULLABLE = ("side", "block_number", "block_hash", "tx")
SCHEMA = pa.schema([pa.field(name, _TYPES[name], nullable=name in _NULLABLE) for name in COLUMNS])
_REPEATED = ["symbol", "side", "block_number", "block_hash"]
"""Columns in which a few values occur often."""


_SEARCHED = ["symbol", "ts"]
"""Columns by which row groups are chosen, so their least and greatest values are kept. For other columns these would
only take memory, some kilobytes for each row group."""


class _Output:
    """Passes on what pyarrow writes, until it is given up. pyarrow completes a file also when its writer is deleted, so
    an incomplete file would look like a whole one."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.is_given_up = False

    def write(self, data: bytes) -> int:
        return len(data) if self.is_given_up else self._file.write(data)

    def flush(self) -> None:
        if not self.is_given_up:
            self._file.flush()


class ParquetSink:
    """Writes lines of CSV as a Parquet file."""

    # pyarrow's reader of CSV does not know decimal256, its cast of text does.
    _CONVERT = csv.ConvertOptions(
        column_types={name: pa.string() if kind == _AMOUNT else kind for name, kind in _TYPES.items()},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    _READ = csv.ReadOptions(column_names=list(COLUMNS), use_threads=False)
    _PARSE = csv.ParseOptions(newlines_in_values=True)

    def __init__(self, file: BinaryIO) -> None:
        self._output = _Output(file)
        self._writer = parquet.ParquetWriter(
            self._output, SCHEMA, compression="zstd", use_dictionary=_REPEATED, write_statistics=_SEARCHED
        )
        self._tables: list[Any] = []

    def write(self, lines: bytes) -> int:
        """Write the ticks of these lines, and return their number."""
        try:
            table = csv.read_csv(pa.BufferReader(lines), self._READ, self._PARSE, self._CONVERT).cast(SCHEMA)
        except pa.ArrowInvalid as error:
            raise StateError(f"a stored tick does not fit into Parquet: {error}") from error
        self._tables.append(table)
        if sum(each.num_rows for each in self._tables) >= ROW_GROUP:
            self._write_group()
        return int(table.num_rows)

    def finish(self, about: Mapping[str, str]) -> None:
        """Complete the file, with ``about`` as its metadata."""
        if self._tables:
            self._write_group()
        self._writer.add_key_value_metadata(about)
        self._writer.close()

    def give_up(self) -> None:
        """Write nothing more."""
        self._output.is_given_up = True

    def _write_group(self) -> None:
        group, self._tables = pa.concat_tables(self._tables), []
        self._writer.write_table(group, row_group_size=group.num_rows)
        del group
        _release_memory()


class ParquetRows:
    """The rows of a Parquet file with ticks, as text. Raises InvalidValue if the file has another format."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            # Without these options, the reader loads whole columns of a row group into memory.
            self._file = parquet.ParquetFile(file, buffer_size=_READ_BYTES, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise InvalidValue(f"it is not a Parquet file: {error}") from error
        kinds = {field.name: field.type for field in self._file.schema_arrow}
        check_columns(list(kinds))
        self._columns = [name for name in COLUMNS if name in kinds]
        if faults := [fault for name in self._columns if (fault := _fault(name, kinds[name]))]:
            raise InvalidValue("; ".join(faults))
        self.count = int(self._file.metadata.num_rows)

    def batches(self, skipped: int, size: int) -> Iterator[dict[str, list[str | None]]]:
        """The rows by column, in batches of at most ``size``, without the first ``skipped`` ones."""
        try:
            for group in range(self._file.num_row_groups):
                rows = self._file.metadata.row_group(group).num_rows
                if skipped < rows:
                    yield from self._group(group, skipped, size)
                skipped = max(skipped - rows, 0)
        except (pa.ArrowException, OSError) as error:
            raise StateError(f"it cannot be read to its end: {error}") from error

    def _group(self, group: int, skipped: int, size: int) -> Iterator[dict[str, list[str | None]]]:
        for batch in self._file.iter_batches(size, [group], self._columns, use_threads=False):
            if skipped < batch.num_rows:
                yield {name: _texts(batch.column(name).slice(skipped)) for name in self._columns}
                _release_memory()
            skipped = max(skipped - batch.num_rows, 0)


def _release_memory() -> None:
    """pyarrow would keep some dozens of MB for later."""
    pa.default_memory_pool().release_unused()


_READ_BYTES = 1 << 16
_WHOLE = ("seq", "block_number")
"""Columns of integers. pandas makes an integer column with missing values one of doubles."""
_EXACT = 1 << 53
"""Each integer below it has a double of its own."""


def _fault(name: str, kind: Any) -> str | None:
    """What is wrong with the type of a column, if anything."""
    kinds = pa.types
    if kinds.is_floating(kind) and not (name in _WHOLE and kinds.is_float64(kind)):
        exact = "an integer" if name in _WHOLE else "decimal or text"
        return f"{name} is {kind}, and floating-point numbers are not exact: make it {exact}"
    if kinds.is_timestamp(kind) and kind.tz is None:
        return f"{name} is {kind} without a time zone: make it a timestamp of UTC, or text"
    if kinds.is_dictionary(kind):
        return _fault(name, kind.value_type)
    known = (
        kinds.is_float64,
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_string_view,
        kinds.is_decimal,
        kinds.is_integer,
    )
    if kinds.is_timestamp(kind) or kinds.is_null(kind) or any(each(kind) for each in known):
        return None
    return f"{name} is {kind}: make it text"


def _texts(column: Any) -> list[str | None]:
    kind = column.type
    if pa.types.is_floating(kind):
        return [None if each is None else _integer(each) for each in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", "UTC"), safe=False)
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    if pa.types.is_timestamp(kind):
        return [text and text.replace(" ", "T") for text in texts]
    if pa.types.is_decimal(kind):  # pyarrow writes small numbers with an exponent
        return [text and plain(text) for text in texts]
    return texts


def _integer(value: float) -> str | None:
    """The text of a whole number, and None for NaN. Any other number becomes a text that is not an integer."""
    if math.isnan(value):
        return None
    return str(int(value)) if abs(value) < _EXACT and value.is_integer() else repr(value)
