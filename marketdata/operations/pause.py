"""The pause in which the version that was the current one refuses writes.

An API that names no version learns within seconds that the current one is another. What it would store meanwhile in the
former one, a copy would have to carry over behind what the same client stores in the new one next: a retraction could
overtake the restoration that followed it. In the pause the client gets 503 instead, sends it again, and it is stored in
the new version. After the pause the former version accepts writes of APIs that name it.
"""

from __future__ import annotations

from psycopg import sql

from marketdata.operations.version_pair import Pair
from marketdata.store.pool import Connection

SECONDS = 10
"""Twice the time in which an API looks which version is the current one."""

_FUNCTION = """
    CREATE OR REPLACE FUNCTION {source_pause}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF clock_timestamp() < TG_ARGV[0]::timestamptz
           AND current_setting('marketdata.pause', true) IS DISTINCT FROM 'passed' THEN
            RAISE EXCEPTION 'another version has become the current one' USING ERRCODE = 'lock_not_available';
        END IF;
        RETURN NULL;
    END $$"""
_BEGIN = """
    CREATE OR REPLACE TRIGGER {source_pause} BEFORE INSERT OR UPDATE ON {source_symbols}
    FOR EACH STATEMENT EXECUTE FUNCTION {source_pause}(UNTIL)"""
_IS_THERE = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname = %s)"
_END = "DROP TRIGGER {target_pause} ON {target_symbols}"


def begin(connection: Connection, pair: Pair) -> None:
    """Pause the writers of the source when the caller's transaction ends; it holds a lock that keeps them waiting."""
    row = connection.execute("SELECT (clock_timestamp() + make_interval(secs => %s))::text", (SECONDS,)).fetchone()
    assert row is not None
    connection.execute(pair.query(_FUNCTION))
    until = sql.Literal(row[0]).as_bytes(connection)
    connection.execute(pair.query(_BEGIN).replace(b"UNTIL", until))


def end(connection: Connection, pair: Pair) -> None:
    """End the pause of the target, from when it was the current version, or remove what is left of it."""
    symbols, name = pair.target.name("symbols"), pair.target.name("pause")
    row = connection.execute(_IS_THERE, (symbols, name)).fetchone()
    if row is not None and row[0]:
        connection.execute(pair.query(_END))
