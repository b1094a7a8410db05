"""Reads ticks from CSV in blocks of lines, and from other tables in blocks of rows.

A block is checked by column: each check is one pass in C over the whole column. If a value is in doubt, every line of
the block goes through :class:`marketdata.tick_csv.TickTable`. A test asserts that both ways give the same ticks.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import compress, islice, starmap
from typing import Any, BinaryIO, TextIO

from marketdata.errors import InvalidValue
from marketdata.tick import EARLIEST, LATEST, NAME, SIDES, SYMBOL, Tick, decimal, sent_time
from marketdata.tick_csv import LINE, MAX_LINE_BYTES, TickTable, tick_of

Column = Sequence[Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SURROGATES = "surrogateescape"
_DOUBTFUL = MAX_LINE_BYTES // 4
"""A line of more characters may be too long, because a character has up to four bytes."""
_BLOCK_CHARACTERS = 4 << 20
"""A block ends after this many characters: 10 000 lines of usual ticks have fewer."""

# Each matches a whole column: its values, each with a comma after it.
_DECIMALS = re.compile(r"(?:(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{0,29}[1-9])?,)*")
_INTEGERS = re.compile(r"(?:-?[0-9]{1,18},)*")
_NATURALS = re.compile(r"(?:[0-9]{0,18},)*")
_MILLISECONDS = re.compile(r"(?:[1-9][0-9]{11,14},)*")
_INSTANTS = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{6})?Z,)*")


@dataclass(frozen=True, slots=True)
class Block:
    """The valid ticks of some lines, and the lines that are not valid. ``indexes`` has the number of each tick's
    line."""

    ticks: list[Tick]
    indexes: Sequence[int]
    rejected: list[tuple[int, InvalidValue]]


class Reader:
    """Reads the first line and then the others. The other lines are counted from 0. Blank lines are counted, too, but
    are not read as ticks."""

    def __init__(self, text: TextIO) -> None:
        """Raises :class:`InvalidValue` if the first line does not name the columns."""
        self._lines = _lines(text)
        self._table = LineTable(next(self._lines, "").encode(errors=_SURROGATES))

    def blocks(self, size: int) -> Iterator[Block]:
        """Returns the lines in blocks of at most ``size``, or fewer if they are long."""
        first = 0
        while lines := self._next(size):
            yield self._table.block(first, lines)
            first += len(lines)

    def _next(self, size: int) -> list[str]:
        lines = []
        left = _BLOCK_CHARACTERS
        for line in islice(self._lines, size):
            lines.append(line)
            left -= len(line)
            if left < 0:
                break
        return lines


class LineTable:
    """The lines of a table whose columns are named by ``header``, its first line. Raises :class:`InvalidValue` if it
    does not name them."""

    def __init__(self, header: bytes) -> None:
        self._table = TickTable(header)

    def block(self, first: int, lines: Sequence[str]) -> Block:
        """The block of these lines. ``first`` is the number of the first one."""
        return self._by_column(first, lines) or self._line_by_line(first, lines)

    def _by_column(self, first: int, lines: Sequence[str]) -> Block | None:
        """The block if all its lines are ticks, or None if a value is in doubt."""
        if max(map(len, lines)) > _DOUBTFUL:
            return None
        header = self._table.columns
        try:
            columns = _split(lines, len(header)) or _read(lines, len(header))
            ticks = list(starmap(Tick, _ticks(dict(zip(header, columns, strict=True)))))
        except (csv.Error, ValueError):
            return None
        return Block(ticks, range(first, first + len(lines)), [])

    def _line_by_line(self, first: int, lines: Sequence[str]) -> Block:
        ticks: list[Tick] = []
        indexes: list[int] = []
        rejected: list[tuple[int, InvalidValue]] = []
        for index, line in enumerate(lines, first):
            if not line.strip("\r\n"):
                continue
            try:
                ticks.append(self._table.tick(line.encode(errors=_SURROGATES)))
            except InvalidValue as error:
                rejected.append((index, _bare(error)))
            else:
                indexes.append(index)
        return Block(ticks, indexes, rejected)


def _split(lines: Sequence[str], width: int) -> list[Column] | None:
    """The columns of lines without quotes, in half the time of a reader of CSV; None if there are quotes."""
    text = "".join(lines)
    if '"' in text or "\r" in text or {line.count(",") for line in lines} != {width - 1}:
        return None
    values = text.removesuffix("\n").replace("\n", ",").split(",")
    return [values[place::width] for place in range(width)]


def _read(lines: Sequence[str], width: int) -> list[Column]:
    if not all(map(LINE.fullmatch, lines)):
        raise ValueError("not a line of CSV")
    rows = list(csv.reader(lines, strict=True))
    if len(rows) != len(lines) or {len(row) for row in rows} != {width}:
        raise ValueError("not a row of values on each line")
    return list(zip(*rows, strict=True))


def block_of(first: int, columns: Mapping[str, Sequence[str | None]]) -> Block:
    """The block of rows that are given by column, empty or None without a value. ``first`` is the number of the first
    row."""
    columns = {name: [text or "" for text in column] for name, column in columns.items()}
    with suppress(ValueError):
        ticks = list(starmap(Tick, _ticks(columns)))
        return Block(ticks, range(first, first + len(ticks)), [])
    parsed: list[Tick] = []
    indexes: list[int] = []
    rejected: list[tuple[int, InvalidValue]] = []
    for index, row in enumerate(zip(*columns.values(), strict=True), first):
        try:
            parsed.append(tick_of(dict(zip(columns, row, strict=True))))
        except InvalidValue as error:
            rejected.append((index, _bare(error)))
        else:
            indexes.append(index)
    return Block(parsed, indexes, rejected)


def _bare(error: InvalidValue) -> InvalidValue:
    """The same error without its traceback, which would keep the lines of its block in memory."""
    return InvalidValue(error.detail, errors=error.errors)


@contextmanager
def reading(file: BinaryIO) -> Iterator[Reader]:
    """Gives a reader of ``file``, which stays open. Raises :class:`InvalidValue` like the reader."""
    # A byte that is not UTF-8 becomes a surrogate, which no value of a tick contains.
    text = io.TextIOWrapper(file, errors=_SURROGATES, encoding="utf-8", newline="\n")
    try:
        yield Reader(text)
    finally:
        text.detach()  # otherwise its end would close the file


def _lines(text: TextIO) -> Iterator[str]:
    """Yields the lines. A line that is too long is cut, but to a length that is still too long."""
    while line := text.readline(MAX_LINE_BYTES + 1):
        yield line
        while line and line[-1] != "\n":
            line = text.readline(MAX_LINE_BYTES)


# -- columns ----------------------------------------------------------------------------------------------------------
# Each function returns the values of a valid column and raises ValueError if a value may be invalid.


def _ticks(given: dict[str, Column]) -> Iterator[tuple[Any, ...]]:
    """The fields of the ticks, whose texts are given by column."""
    rows = len(given["symbol"])
    absent = ("",) * rows
    numbers, hashes = given.get("block_number", absent), given.get("block_hash", absent)
    if list(map(bool, numbers)) != list(map(bool, hashes)):
        raise ValueError("a block without number or hash")
    prices = _decimals(given["price"])
    if "0" in prices:
        raise ValueError("a price of 0")
    return zip(
        _symbols(given["symbol"]),
        _names(given["id"]),
        _times(given["ts"]),
        _integers(given.get("seq", absent)),
        prices,
        _decimals(given["size"]),
        _sides(given.get("side", absent)),
        _naturals(numbers),
        _optional(hashes, _names),
        _optional(given.get("tx", absent), _names),
        strict=True,
    )


def _matches(pattern: re.Pattern[str], column: Column) -> bool:
    joined = ",".join(column) + ","
    # The number of commas shows that no value contains one.
    return pattern.fullmatch(joined) is not None and joined.count(",") == len(column)


def _symbols(column: Column) -> Column:
    if not all(map(SYMBOL.fullmatch, set(column))):
        raise ValueError("an invalid symbol")
    return column


def _names(column: Column) -> Column:
    joined = "".join(column)
    lengths = set(map(len, column))
    is_plain = joined.isascii() and joined.isprintable() and " " not in joined
    if min(lengths) < 1 or max(lengths) > 128 or not (is_plain or all(map(NAME.fullmatch, column))):
        raise ValueError("an invalid name")
    return column


def _decimals(column: Column) -> Column:
    return column if _matches(_DECIMALS, column) else [decimal(each) for each in column]


def _integers(column: Column) -> Column:
    if not any(column):
        return (0,) * len(column)
    filled = [each or "0" for each in column]
    if not _matches(_INTEGERS, filled):
        raise ValueError("an invalid integer")
    return list(map(int, filled))


def _naturals(column: Column) -> Column:
    if not _matches(_NATURALS, column):
        raise ValueError("an invalid integer")
    return [int(each) if each else None for each in column]


def _sides(column: Column) -> Column:
    if not set(column) <= {*SIDES, ""}:
        raise ValueError("an invalid side")
    return [each or None for each in column]


def _optional(column: Column, check: Callable[[Column], Column]) -> Column:
    """Check the values that are not empty, and return None for those that are."""
    if not any(column):
        return (None,) * len(column)
    check(list(compress(column, column)))
    return [each or None for each in column]


def _times(column: Column) -> Column:
    if _matches(_INSTANTS, column):
        times = [(each - _EPOCH) // _MICROSECOND for each in map(datetime.fromisoformat, column)]
    elif _matches(_MILLISECONDS, column):
        times = [1000 * each for each in map(int, column)]
    else:
        return [sent_time(each) for each in column]
    if min(times) < EARLIEST or max(times) >= LATEST:
        raise ValueError("a time out of range")
    return times
