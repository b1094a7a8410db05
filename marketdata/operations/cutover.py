"""``bin/marketdata-cutover N``: compares version N with the current one, then makes it the current one.

The first comparison covers everything, takes long and locks nothing. Then the writers of the current version wait for
some seconds. In this time a running copy can catch up, and the changed days are compared again. So no candle differs at
the moment of the switch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import NamedTuple

import psycopg
from psycopg import sql

from marketdata.errors import StateError, VersionMissing
from marketdata.interval import LEVELS
from marketdata.operations import Say, comparison
from marketdata.operations.comparison import EVERYTHING, Bounds, Difference, Line, Orphan
from marketdata.operations.copy import is_copying
from marketdata.operations.day_states import DAY_ROWS, DayStates, changed_days, read_days
from marketdata.operations.pair_access import PairAccess, snapshot
from marketdata.operations.version_pair import Pair, find
from marketdata.store import migrations, shards
from marketdata.store.pool import Connection
from marketdata.store.version import registered

SHOWN = 20
"""Maximum differences in the report."""
_HOLD_S = 4.0
"""How long the writers of the current version wait for a running copy. Their statements are cancelled after 30 s."""
_LOOK_S = 0.1
_LOCK_S = 10
_ATTEMPTS = 3
_RETRY_S = 2.0
PAUSE_SECONDS = 10
"""The former version refuses writes for this time after a switch: twice the time in which an API notices the switch.

An API that names no version notices the switch within seconds. Without the pause it would meanwhile store data in the
former version. A copy would bring these data to the new version after later data of the same client. So it could apply
a retraction after the restoration that followed it. During the pause the client gets 503 and sends the data again,
until the API stores them in the new version. After the pause the former version accepts writes of APIs that name it.
"""

_PAUSE_FUNCTION = """
    CREATE OR REPLACE FUNCTION {source_pause}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF clock_timestamp() < TG_ARGV[0]::timestamptz
           AND current_setting('marketdata.pause', true) IS DISTINCT FROM 'passed' THEN
            RAISE EXCEPTION 'another version has become the current one' USING ERRCODE = 'lock_not_available';
        END IF;
        RETURN NULL;
    END $$"""
_PAUSE = """
    CREATE OR REPLACE TRIGGER {source_pause} BEFORE INSERT OR UPDATE ON {source_symbols}
    FOR EACH STATEMENT EXECUTE FUNCTION {source_pause}(UNTIL)"""
_IS_PAUSED = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname = %s)"
_END_PAUSE = "DROP TRIGGER {target_pause} ON {target_symbols}"

Differences = Sequence[Difference | Orphan]


class Numbers(NamedTuple):
    """The numbers of the current version and of the version that shall replace it."""

    current: int
    new: int


class Cutover:
    """Compares two versions and switches from one to the other."""

    def __init__(self, pairs: PairAccess, say: Say, bounds: Bounds = EVERYTHING) -> None:
        self._connection = pairs.connection
        self._pairs = pairs
        self._pair = pairs.pair
        self._prefix = pairs.pair.source.prefix
        self._numbers = Numbers(pairs.pair.source.n, pairs.pair.target.n)
        self._bounds = bounds
        self._say = say
        self._days: DayStates = {}

    def compare(self) -> Differences:
        """Compare everything in one snapshot (one of each shard, if a version is distributed), and print a summary."""
        with snapshot(self._connection):
            symbols, candles = comparison.count(self._pairs, self._bounds)
            lines = comparison.lines(self._pairs)
            found = self._differences(())
        source, target = self._numbers
        if not candles and self._bounds != EVERYTHING:
            raise StateError(
                f"--from, --to: version {source} has no candle in this range, so nothing was compared or switched; "
                "give another range, or none"
            )
        self._say(
            f"compared {candles} candles of {symbols} symbols ({', '.join(LEVELS)}) "
            f"of version {source} with version {target}: {_counted(found)}"
        )
        self._say_lines(lines)
        return found

    def _say_lines(self, lines: Sequence[Line]) -> None:
        """Print the symbols whose ticks begin on different days in the two versions. The switch is not refused, because
        the candles are compared in any case."""
        if lines:
            more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
            self._say(
                f"note: ticks of {len(lines)} symbols are pruned up to different days: "
                f"{lines[0].described(*self._numbers)}{more}"
            )

    def switch(self, *, despite: bool = False) -> Differences:
        """Make the new version the current one, unless something differs. Returns the differences.

        With ``despite`` the new version becomes the current one in any case.
        """
        found = first = self.compare()
        if despite:
            with self._writers_waiting():
                self._name_current()
            return found
        for attempt in range(_ATTEMPTS):
            if len(found) >= comparison.MAX_DIFFERENCES:
                break
            if attempt:
                Event().wait(_RETRY_S)  # meanwhile a copy, or an ingestor of the new version, may catch up
            with self._writers_waiting() as has_copy:
                found = self._settled(found, has_copy)
                if not found:
                    self._name_current()
            if first and not found:
                self._say("while the writers waited, the differences were compared again: now all are equal")
            if not found or not has_copy:
                break
        return found

    def _settled(self, found: Differences, has_copy: bool) -> Differences:
        """Compare until nothing differs or the time is over. Returns the remaining differences."""
        deadline = monotonic() + (_HOLD_S if has_copy else 0.0)
        while True:
            found = self._differences(found)
            if not found or monotonic() >= deadline:
                return found
            Event().wait(_LOOK_S)

    def _differences(self, known: Differences) -> Differences:
        """Compare the days that have changed since the previous call, and the days of the ``known`` differences."""
        now = self._pairs.overview(DAY_ROWS, read_days)
        wanted = {*changed_days(self._days, now), *(each.day for each in known if isinstance(each, Difference))}
        self._days = now
        return [
            *comparison.compare(self._pairs, sorted(wanted), self._bounds),
            *comparison.orphans(self._pairs, self._bounds),
        ]

    @contextmanager
    def _writers_waiting(self) -> Iterator[bool]:
        """A transaction in which nothing is stored in the current version. Yields whether a copy runs.

        Citus takes the lock of a distributed table on every node. Each writer takes a lock there that conflicts with it
        (``store/sql/shard.sql``).
        """
        with self._connection.transaction():
            migrations.lock(self._connection)
            self._connection.execute(f"SET LOCAL statement_timeout = '{_LOCK_S}s'")  # also for locks of other nodes
            try:
                self._connection.execute(self._pair.query("LOCK TABLE {source_symbols} IN SHARE ROW EXCLUSIVE MODE"))
            except psycopg.errors.QueryCanceled as error:
                raise StateError(
                    f"a transaction has written to version {self._numbers.current} for over {_LOCK_S} s; "
                    "nothing was switched: try again when it has ended"
                ) from error
            self._connection.execute("SET LOCAL statement_timeout = 0")
            yield is_copying(self._connection, self._prefix)

    def _name_current(self) -> None:
        if self._pair.is_distributed:
            shards.allow_triggers(self._connection)
        _end_pause(self._connection, self._pair)
        _begin_pause(self._connection, self._pair)
        for n, is_current in zip(self._numbers, (False, True), strict=True):
            self._connection.execute(
                "UPDATE market_versions SET is_current = %s WHERE prefix = %s AND n = %s", (is_current, self._prefix, n)
            )


def numbers(connection: Connection, prefix: str, n: int) -> Numbers:
    """The numbers of the current version and of version ``n``, which may be the same."""
    known = registered(connection, prefix)
    new = find(known, prefix, n)
    current = next((each.n for each in known if each.is_current), None)
    if current is None:
        raise VersionMissing(f"no version with the prefix {prefix} is the current one")
    return Numbers(current, new.n)


def report(found: Differences, numbers: Numbers, say: Say) -> None:
    """Print the first differences."""
    for each in found[:SHOWN]:
        say(f"DIFFERS {each.described(*numbers)}")
    if len(found) > SHOWN:
        say(f"… and {len(found) - SHOWN} more")


def _counted(found: Differences) -> str:
    if not found:
        return "all are equal"
    most = "at least " if len(found) >= comparison.MAX_DIFFERENCES else ""
    return f"{most}{len(found)} differ"


def _begin_pause(connection: Connection, pair: Pair) -> None:
    """Pause the writers of the source from the end of the caller's transaction on. Until then, the lock of the
    transaction keeps them waiting."""
    row = connection.execute(
        "SELECT (clock_timestamp() + make_interval(secs => %s))::text", (PAUSE_SECONDS,)
    ).fetchone()
    assert row is not None
    connection.execute(pair.query(_PAUSE_FUNCTION))
    until = sql.Literal(row[0]).as_bytes(connection)
    connection.execute(pair.query(_PAUSE).replace(b"UNTIL", until))


def _end_pause(connection: Connection, pair: Pair) -> None:
    """Remove the pause of the target. It has one if it was the current version before."""
    symbols, name = pair.target.name("symbols"), pair.target.name("pause")
    row = connection.execute(_IS_PAUSED, (symbols, name)).fetchone()
    if row is not None and row[0]:
        connection.execute(pair.query(_END_PAUSE))
