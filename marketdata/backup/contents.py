"""What a cluster holds, in a form that is compared with what another one holds: its roles, and of each database the
rows of each table, the sequences, and candles that its functions compute.

A checksum of a table is the sum of the hashes of its rows, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from psycopg import sql
from psycopg.conninfo import make_conninfo

from marketdata.errors import StateError
from marketdata.store.pool import Connection, connect

SHOWN = 5
"""Differences that the message names."""
BUCKETS = ("1m", "5m", "1d")
"""Candles that are read from a stored level, computed from one, and the widest that is stored."""

_DATABASES = "SELECT datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"
# Names that begin with pg_ are PostgreSQL's own: each major version has other ones.
_ROLES = """
    SELECT rolname::text, concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
                                    rolbypassrls, rolconnlimit, rolvaliduntil, hashtextextended(rolpassword, 0)),
           ARRAY(SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = r.oid ORDER BY 1)::text
    FROM pg_authid r WHERE rolname !~ '^pg_'"""
# What belongs to an extension is not dumped: the new cluster has that of its own release.
_TABLES = """
    SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND c.relispopulated AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                                                AND d.deptype = 'e')
    ORDER BY 1, 2"""
_ROWS = """
    SELECT count(*) || ' rows with the checksum ' || coalesce(sum(hashtextextended("each row"::text, 0)), 0)
    FROM ONLY {} AS "each row" """
_SEQUENCES = "SELECT format('%I.%I', schemaname, sequencename), coalesce(last_value::text, 'unused') FROM pg_sequences"
_VERSIONS = """
    SELECT ticks_table, candles_function FROM market_versions
    WHERE to_regclass(ticks_table) IS NOT NULL AND to_regclass(replace(ticks_table, '_ticks_', '_symbols_')) IS NOT NULL
      AND EXISTS (SELECT FROM pg_proc WHERE proname = candles_function AND pg_function_is_visible(oid))"""
# Whether a candle is closed and final depends on the time of the query.
_CANDLES = """
    SELECT count(*) || ' candles with the checksum '
           || coalesce(sum(hashtextextended((to_jsonb(c) - 'closed' - 'finalized')::text, 0)), 0)
    FROM {} s CROSS JOIN LATERAL {}(s.symbol, %s, NULL, %s, 500) c"""


def databases(url: str) -> list[str]:
    """The names of the databases of the cluster."""
    with connect(url) as connection:
        return [name for (name,) in connection.execute(_DATABASES)]


def contents(url: str, now: datetime) -> dict[str, str]:
    """What the cluster of ``url`` holds: a name for each part, and a text that is another one when the part is. The
    candles are those up to ``now``."""
    with connect(url) as connection:
        found = {
            f"role {name}": f"{attributes} {member_of}" for name, attributes, member_of in connection.execute(_ROLES)
        }
    for name in databases(url):
        with connect(make_conninfo(url, dbname=name)) as connection:
            found |= {f"{name}: {part}": text for part, text in _database(connection, now)}
    return found


def differences(source: Mapping[str, str], target: Mapping[str, str]) -> list[str]:
    """A line for each part that is not the same in both."""
    return [
        f"{part}: {source.get(part, 'missing')} in the old cluster, {target.get(part, 'missing')} in the new one"
        for part in sorted(source.keys() | target.keys())
        if source.get(part) != target.get(part)
    ]


def compare(source: str, target: str) -> int:
    """How many parts two clusters have, which are the same in both; StateError names those that differ."""
    now = datetime.now(UTC)
    found = contents(source, now)
    different = differences(found, contents(target, now))
    if different:
        shown = "\n".join(different[:SHOWN])
        raise StateError(f"{len(different)} parts of the new cluster differ from the old one, which stays:\n{shown}")
    return len(found)


def _database(connection: Connection, now: datetime) -> Iterator[tuple[str, str]]:
    for schema, table in connection.execute(_TABLES).fetchall():
        yield f"table {schema}.{table}", _one(connection, sql.SQL(_ROWS).format(sql.Identifier(schema, table)))
    yield from ((f"sequence {name}", value) for name, value in connection.execute(_SEQUENCES).fetchall())
    row = connection.execute("SELECT to_regclass('market_versions') IS NOT NULL").fetchone()
    versions = connection.execute(_VERSIONS).fetchall() if row == (True,) else []
    for ticks, candles in versions:
        symbols = sql.Identifier(ticks.replace("_ticks_", "_symbols_"))
        for bucket in BUCKETS:
            query = sql.SQL(_CANDLES).format(symbols, sql.Identifier(candles))
            yield f"{bucket} candles of {candles}", _one(connection, query, bucket, now)


def _one(connection: Connection, query: sql.Composed, *values: object) -> str:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return str(row[0])
