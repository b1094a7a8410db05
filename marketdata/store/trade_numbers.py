"""Numbers the ticks of a symbol, for clients that identify a trade by an integer.

The number of a tick is its ``seq`` if the symbol's seqs identify its ticks, as those of the ingestor do: they grow from
tick to tick. Otherwise the ticks are counted from 0, in their order. Whether the seqs grow is decided by the stored
days of the first and the last tick, because reading all ticks would take too long. All numbers fit into a JavaScript
number.
"""

from __future__ import annotations

from typing import LiteralString

from marketdata.interval import LEVELS

MAX_NUMBER = (1 << 53) - 1
"""The greatest integer that JavaScript can tell apart from its neighbours."""


def _day(order: LiteralString) -> LiteralString:
    return f"""(
        SELECT bucket, n, first_seq, last_seq, last_seq::numeric - first_seq >= n - 1 AS grows FROM {{rollups_1d}}
        WHERE symbol = s.symbol AND res = 86400 ORDER BY bucket {order} LIMIT 1)"""


NUMBERING: LiteralString = f"""
    CROSS JOIN LATERAL (
        SELECT coalesce(min((f.first_seq > 0 AND f.grows AND l.grows AND l.last_seq <= {MAX_NUMBER}
                             AND (l.bucket = f.bucket OR l.first_seq > f.last_seq))::integer), 0) = 1 AS by_seq
        FROM {_day("ASC")} f CROSS JOIN {_day("DESC")} l
    ) numbering"""
"""Joins ``numbering.by_seq`` to the row ``s`` of a symbol: whether its ticks are numbered by their seqs."""


def _sum(level: LiteralString, bounds: LiteralString) -> LiteralString:
    return f"""
        (SELECT coalesce(sum(n), 0) FROM {{rollups_{level}}}
         WHERE symbol = s.symbol AND res = {LEVELS[level]} AND {bounds})"""


def count_before(instant: LiteralString) -> LiteralString:
    """The number of the symbol's ticks before ``instant``, as SQL."""
    return f"""(
        SELECT ({_sum("1d", "bucket < day")} + {_sum("1h", "bucket >= day AND bucket < hour")}
                + {_sum("1m", "bucket >= hour AND bucket < minute")}
                + (SELECT count(*) FROM {{ticks}} WHERE symbol = s.symbol AND ts >= minute AND ts < bound))::bigint
        FROM (SELECT bound, date_bin('1 day', bound, '1969-01-06Z') AS day,
                     date_bin('1 hour', bound, '1969-01-06Z') AS hour,
                     date_bin('1 min', bound, '1969-01-06Z') AS minute FROM (SELECT {instant} AS bound) b) b)"""


def _first_bucket(
    level: LiteralString, bounds: LiteralString, base: LiteralString, name: LiteralString
) -> LiteralString:
    """The first bucket of a level that contains a tick with the wanted number or a greater one. ``base`` is the count
    of the ticks before the first bucket within ``bounds``."""
    return f"""LATERAL (
        SELECT bucket, base FROM (
            SELECT bucket, n, last_seq, {base} + (sum(n) OVER (ORDER BY bucket) - n)::bigint AS base
            FROM {{rollups_{level}}} WHERE symbol = s.symbol AND res = {LEVELS[level]} AND {bounds}
        ) r WHERE CASE WHEN numbering.by_seq THEN last_seq ELSE base + n - 1 END >= %(number)s::bigint
        ORDER BY bucket LIMIT 1
    ) {name}"""


MINUTE_OF_NUMBER: LiteralString = " CROSS JOIN ".join(
    (
        _first_bucket("1d", "true", "0", "day"),
        _first_bucket("1h", "bucket >= day.bucket AND bucket < day.bucket + interval '1 day'", "day.base", "hour"),
        _first_bucket(
            "1m", "bucket >= hour.bucket AND bucket < hour.bucket + interval '1 hour'", "hour.base", "minute"
        ),
    )
)
"""Tables of which ``minute`` has the bucket of the first tick with the number ``number`` or a greater one, and as
``base`` the count of ticks before this bucket. They have no row if there is no such tick."""
