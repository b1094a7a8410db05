"""Reads ticks from lines of CSV (RFC 4180), for the API and for ``bin/marketdata-import``.

The first line names the columns, in any order. A line is a tick. No value of a tick may contain a line break, so a line
that ends inside quotes is refused by itself, and the next line is read.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping

from marketdata.errors import InvalidValue
from marketdata.tick import Tick, parse_tick

COLUMNS = Tick._fields
MAX_LINE_BYTES = 16_384
"""A longer line is refused. The longest line of a valid tick is shorter, even if every quote in it is doubled."""

_REQUIRED = ("symbol", "id", "ts", "price", "size")
_INTEGER = re.compile(r"-?[0-9]{1,30}")


class TickTable:
    """The lines of a table whose columns are named by ``header``, its first line. Raises InvalidValue for a header with
    unknown, repeated or missing columns."""

    def __init__(self, header: bytes) -> None:
        self.columns = _fields(header.removeprefix(b"\xef\xbb\xbf"))
        check_columns(self.columns)

    def tick(self, line: bytes) -> Tick:
        """Parse a line. Raises InvalidValue, which names every invalid column."""
        fields = _fields(line)
        if len(fields) != len(self.columns):
            raise InvalidValue(f"has {len(fields)} fields, but the first line names {len(self.columns)} columns")
        return tick_of(dict(zip(self.columns, fields, strict=True)))


def check_columns(names: Collection[str]) -> None:
    """Raise InvalidValue if names of columns are unknown, repeated or missing."""
    faults = [f"{name[:80]!r} is unknown" for name in names if name not in COLUMNS]
    faults += [f"{name} is there twice" for name in COLUMNS if list(names).count(name) > 1]
    faults += [f"{name} is missing" for name in _REQUIRED if name not in names]
    if faults:
        raise InvalidValue(f"the columns must be {', '.join(COLUMNS)}: {'; '.join(faults)}")


def tick_of(row: Mapping[str, str | None]) -> Tick:
    """The tick of a row: the text of each column, empty or None without a value. Raises InvalidValue, which names every
    invalid column."""
    item: dict[str, object] = {name: row[name] for name in _REQUIRED if row.get(name)}
    for name in ("side", "tx"):
        item[name] = row.get(name) or None
    if seq := row.get("seq"):
        item["seq"] = _integer(seq)
    number, block_hash = row.get("block_number") or None, row.get("block_hash") or None
    if number is not None or block_hash is not None:
        item["block"] = {"number": _integer(number), "hash": block_hash}
    try:
        return parse_tick(item)
    except InvalidValue as error:
        named = (f"{fault.pointer[1:].replace('/', '_')} {fault.message}" for fault in error.errors)
        raise InvalidValue("; ".join(named), errors=error.errors) from error


def _integer(text: str | None) -> int | str | None:
    """The number, or the text itself if it is none, which parse_tick refuses."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else text


def _fields(line: bytes) -> list[str]:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidValue(f"the line has more than {MAX_LINE_BYTES} bytes")
    try:
        return next(csv.reader((line.decode().rstrip("\r\n"),), strict=True), [])
    except UnicodeDecodeError as error:
        raise InvalidValue("the line is not UTF-8") from error
    except csv.Error as error:
        raise InvalidValue(f"the line is not CSV: {error}") from error
