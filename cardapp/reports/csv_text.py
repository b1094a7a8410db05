"""Writes tables as CSV (RFC 4180) that is safe to open in a spreadsheet program.

The text is UTF-8 with a byte order mark, because without it Excel reads the file in another encoding. No cell begins
like a formula, because a spreadsheet program would execute it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

MARK = "\ufeff"
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""A formula begins with one of these characters; the last four are wide forms."""


def lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the byte order mark, then a line for each row."""
    yield MARK
    for row in rows:
        buffer = io.StringIO()
        csv.writer(buffer).writerow([cell(value) for value in row])
        yield buffer.getvalue()


def cell(value: object) -> str:
    """The text of a cell: "" for None, yes or no for a truth value. An apostrophe makes a spreadsheet show a text as it
    is."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value).replace("\0", "\ufffd")
    if text.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
