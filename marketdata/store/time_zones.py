"""Reads PostgreSQL's data of named time zones, so that this process has the same buckets as the candles function."""

from __future__ import annotations

from marketdata.errors import InvalidValue
from marketdata.interval import TIME_ZONE_FORMS, Zone, is_zone_name
from marketdata.store.pool import Connection, Pool
from marketdata.store.postgres_errors import translated

# Left out are second copies of the database, and names whose meaning depends on the machine.
_NAMES = "SELECT name FROM pg_timezone_names WHERE name !~ '^(posix|right)/|^(localtime|posixrules|Factory)$'"

# The offset is read every five days, and each difference is narrowed down to a minute. No offset of any zone since 1970
# was in force for less than six days. An offset with seconds (Liberia, until 1972) is cut off to the minute.
_CHANGES = """
    WITH RECURSIVE sample AS (
        SELECT s.at, date_trunc('minute', s.at AT TIME ZONE %(name)s - s.at AT TIME ZONE 'UTC') AS ahead
        FROM generate_series('1969-11-01Z'::timestamptz, '3000-03-01Z', interval '120 hours') AS s (at)
    ), part (start, "end", before, later) AS (
        SELECT * FROM (
            SELECT at, lead(at) OVER w, ahead, lead(ahead) OVER w FROM sample WINDOW w AS (ORDER BY at)
        ) s (start, "end", before, later) WHERE before <> later
        UNION ALL
        SELECT h.* FROM part CROSS JOIN LATERAL (
            SELECT m.at, date_trunc('minute', m.at AT TIME ZONE %(name)s - m.at AT TIME ZONE 'UTC') AS ahead
            FROM (SELECT date_bin('1 min', part.start + (part."end" - part.start) / 2, '1970-01-01Z') AS at) m
        ) m CROSS JOIN LATERAL (
            VALUES (part.start, m.at, part.before, m.ahead), (m.at, part."end", m.ahead, part.later)
        ) h (start, "end", before, later)
        WHERE part."end" - part.start > interval '1 min' AND h.before <> h.later
    )
    SELECT NULL, date_part('epoch', ahead)::integer / 60 FROM (SELECT ahead FROM sample ORDER BY at LIMIT 1) first
    UNION ALL
    (SELECT date_part('epoch', "end")::bigint * 1000000, date_part('epoch', later)::integer / 60
     FROM part WHERE "end" - start <= interval '1 min' ORDER BY "end")"""


class TimeZones:
    """Finds time zones. A named one is read on a connection of ``pool`` when it is first used, which takes about a
    tenth of a second, and then kept until the process ends. Thread-safe."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._names: dict[str, str] = {}
        self._zones: dict[str, Zone] = {}

    def find(self, text: str) -> Zone:
        """The zone of a text that is valid by the schema ``TimeZone``. A name may be written in any case. Raises
        InvalidValue (``/timeZone``) for an unknown name."""
        if not is_zone_name(text):
            return Zone.of_offset(text)
        key = zone_key(text)
        zone = self._zones.get(key)
        if zone is None:
            with self._pool.connection() as connection, translated():
                zone = self._zones[key] = self._read(connection, key, text)
        return zone

    def _read(self, connection: Connection, key: str, text: str) -> Zone:
        if not self._names:
            names = connection.execute(_NAMES, prepare=False).fetchall()
            self._names = {zone_key(name): name for (name,) in names}
        if key not in self._names:
            raise InvalidValue.of(
                "/timeZone", f"{text} is not a time zone that PostgreSQL knows: send {TIME_ZONE_FORMS}"
            )
        name = self._names[key]
        (_, first), *changes = connection.execute(_CHANGES, {"name": name}, prepare=False).fetchall()
        return Zone(name, (first, *(offset for _, offset in changes)), tuple(at for at, _ in changes))


def zone_key(text: str) -> str:
    """A text that is equal for all spellings of an offset or of a name. Case does not count. A space counts as ``+``,
    because ``+`` in a URL decodes to a space."""
    return text.replace(" ", "+").lower() if is_zone_name(text) else Zone.of_offset(text).name
