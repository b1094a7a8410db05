"""The times that commands take as arguments."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta

from marketdata.tick import sent_time

TIMES = "a date like 2026-01-01 (00:00 UTC), a time like 2026-01-01T12:00:00Z, or milliseconds since 1970"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def microseconds_argument(text: str) -> int:
    """The time in microseconds since 1970. Raises ArgumentTypeError if ``text`` is not a time."""
    try:
        return sent_time(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error


def time_argument(text: str) -> datetime:
    """The time. Raises ArgumentTypeError if ``text`` is not a time."""
    return EPOCH + timedelta(microseconds=microseconds_argument(text))
