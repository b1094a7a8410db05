"""Reads ticks from lines of CSV (RFC 4180), for the API and for ``bin/marketdata-import``.

The first line names the columns, in any order. A line is a tick. No value of a tick may contain a line break, so a line
that ends inside quotes is refused by itself, and the next line is read.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from marketdata.errors import InvalidValue
from marketdata.tick import Tick, parse_tick

COLUMNS = Tick._fields
MAX_LINE_BYTES = 16_384
"""A longer line is refused. The longest line of a valid tick is shorter, even if every quote in it is doubled."""

_REQUIRED = ("symbol", "id", "ts", "price", "size")
_OPTIONAL = tuple(name for name in COLUMNS if name not in _REQUIRED)
_INTEGER = re.compile(r"-?[0-9]{1,30}")
_FIELD = r'(?:"(?:[^"]|"")*"|[^",]*)'
LINE = re.compile(f"{_FIELD}(?:,{_FIELD})*[\r\n]*")
"""A line of RFC 4180: only a field in quotes contains a quote. ``csv.reader`` takes a quote elsewhere as a character.
The rest of a field with a line break would then be a tick of its own."""


class TickTable:
    """The lines of a table whose columns are named by ``header``, its first line. Raises InvalidValue for a header with
    unknown, repeated or missing columns."""

    def __init__(self, header: bytes) -> None:
        self.columns = _named(header.removeprefix(b"\xef\xbb\xbf"))
        check_columns(self.columns)

    def tick(self, line: bytes) -> Tick:
        """Parse a line. Raises InvalidValue, which names every invalid column."""
        fields = _fields(line)
        if len(fields) != len(self.columns):
            raise InvalidValue(f"has {len(fields)} fields, but the first line names {len(self.columns)} columns")
        return tick_of(dict(zip(self.columns, fields, strict=True)))


def check_columns(names: Sequence[str]) -> None:
    """Raise InvalidValue if names of columns are unknown, repeated or missing."""
    faults = [f"{name[:80]!r} is unknown" for name in names if name not in COLUMNS]
    faults += [f"{name} is there twice" for name in COLUMNS if names.count(name) > 1]
    faults += [f"{name} is missing" for name in _REQUIRED if name not in names]
    if faults:
        hint = "; columns are separated by commas" if any(each in names[0] for each in ";\t|") else ""
        raise InvalidValue(
            f"the columns are {', '.join(_REQUIRED)} and, if you have them, {', '.join(_OPTIONAL)}: "
            f"{'; '.join(faults)}{hint}"
        )


def _named(header: bytes) -> list[str]:
    """The fields of the first line."""
    if not header.strip():
        raise InvalidValue("the first line is empty: it must name the columns")
    if header.startswith(b"\x1f\x8b"):
        raise InvalidValue("this is gzip: say so by Content-Encoding: gzip, or by a name that ends in .gz")
    if header.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidValue("this is UTF-16: save it as UTF-8")
    if len(header) > MAX_LINE_BYTES:
        raise InvalidValue(
            f"the first line has more than {MAX_LINE_BYTES} bytes: the file must have its line ends "
            "(curl keeps them with --data-binary)"
        )
    try:
        return _fields(header)
    except InvalidValue as error:
        raise InvalidValue(f"the first line: {error.detail}") from error


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
    """The number of a text. A text that is not a number is returned unchanged, and parse_tick refuses it."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else text


def _fields(line: bytes) -> list[str]:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidValue(f"the line has more than {MAX_LINE_BYTES} bytes")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue("the line is not UTF-8") from error
    if not LINE.fullmatch(text):
        raise InvalidValue("the line is not CSV: a quote is not closed, or is in a field that does not begin with one")
    return next(csv.reader((text.rstrip("\r\n"),), strict=True), [])
