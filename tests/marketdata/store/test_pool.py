"""The connection pool: its sessions, and how it behaves during and after outages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from psycopg.conninfo import make_conninfo

from marketdata import errors as e
from marketdata.store import candles, migrations, ticks
from marketdata.store.pool import Pool, connect
from marketdata.store.version import Version
from tests.functional.serving import until

from .conftest import START, tick

SECRET = "postgresql://me:secret@host/"


@pytest.fixture
def pool(database: str) -> Iterator[Pool]:
    pool = Pool(database, application_name="test", size=2)
    yield pool
    pool.close()
    pool.close()


def ask(pool: Pool, fresh_seconds: float | None = None) -> int:
    """The backend that answered."""
    with pool.connection(fresh_seconds=fresh_seconds) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0])


VANISHING = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


def set_for(conninfo: str) -> list[dict[str, str]]:
    """The parameters of a connection of a pool, and of a connection for a single task."""
    with (
        closing(Pool(conninfo, application_name="test", size=1)) as pool,
        pool.connection() as kept,
        connect(conninfo) as single,
    ):
        return [each.info.get_parameters() for each in (kept, single)]


def test_connections_have_the_timeouts_for_a_vanished_server(database: str) -> None:
    for found in set_for(database):
        assert VANISHING.items() <= found.items()


def test_parameters_of_the_url_override_the_defaults(database: str) -> None:
    own = {name: str(int(value) + 1) for name, value in VANISHING.items()} | {"application_name": "mine"}
    for found in set_for(make_conninfo(database, **own)):
        assert own.items() <= found.items()


def test_a_malformed_url_is_refused_without_quoting_it() -> None:
    for attempt in (lambda: Pool("postgresql://me:secret@[host/", application_name="test"),
                    lambda: connect("host=h nonsense=secret").__enter__()):  # fmt: skip
        with pytest.raises(e.UsageError, match="DATABASE_URL") as refused:
            attempt()
        assert "secret" not in refused.value.detail


def test_statements_are_prepared_once_and_planned_once_for_all_values(database: str, version: Version) -> None:
    with closing(Pool(database, application_name="test", size=1)) as pool:
        with pool.connection() as connection:
            ticks.ingest(connection, version, [tick("PREPARED:A", "a", START)])
        for limit in range(1, 9):
            with pool.connection() as connection:
                candles.read(connection, version, "PREPARED:A", "1m", limit=limit)
                ticks.read(connection, version, "PREPARED:A", limit=limit)
        with pool.connection() as connection:
            rows = connection.execute(
                "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements", prepare=False
            ).fetchall()
    for part in (version.name("rollups_1m"), version.ticks_table):
        assert [(generic, custom) for text, generic, custom in rows if f'FROM "{part}"' in text] == [(8, 0)]


def test_the_message_of_our_function_about_an_argument_is_passed_on(pool: Pool) -> None:
    statement = "DO $$ BEGIN RAISE EXCEPTION 'no such interval' USING ERRCODE = '22023'; END $$"
    with pytest.raises(e.InvalidValue, match=r"^no such interval$"), pool.connection() as connection:
        connection.execute(statement)


def test_a_session_has_the_settings_that_the_statements_rely_on(pool: Pool) -> None:
    names = ("TimeZone", "DateStyle", "synchronous_commit", "jit", "statement_timeout", "application_name")
    with pool.connection() as connection:
        found = [connection.execute("SELECT current_setting(%s)", (name,)).fetchone() for name in names]
    assert found == [("UTC",), ("ISO, MDY",), ("on",), ("off",), ("30s",), ("test",)]


def test_a_database_in_another_encoding_is_read_as_utf_8(new_database: Callable[..., str]) -> None:
    url = new_database("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    version, symbol = Version.of("t", 1), "latin:1"
    with connect(url) as connection:
        migrations.migrate(connection)
        version.create(connection)
    with closing(Pool(url, application_name="test", size=1)) as pool:
        with pool.connection() as connection:
            ticks.ingest(connection, version, [tick(symbol, "grün", START)])
            assert '"id":"grün"' in ticks.read(connection, version, symbol).body.decode()
            assert connection.execute("SELECT octet_length(id) FROM t_ticks_v1").fetchone() == (4,)
        with pytest.raises(e.InvalidValue), pool.connection() as connection:
            ticks.ingest(connection, version, [tick(symbol, "5€", START)])


def cluster(pool: Pool) -> object:
    with pool.connection() as connection:
        return connection.execute("SELECT current_setting('marketdata.cluster', true)").fetchone()


def test_a_session_knows_its_cluster(pool: Pool, database: str) -> None:
    with connect(database) as connection:
        wanted = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
    assert cluster(pool) == wanted


def test_a_statement_that_takes_too_long_is_cut(pool: Pool) -> None:
    with pytest.raises(e.TooSlow), pool.transaction() as connection:  # noqa: PT012 (the first has to work)
        connection.execute("SET LOCAL statement_timeout = 50")
        connection.execute("SELECT pg_sleep(60)")


def test_an_exhausted_pool_has_its_own_error(database: str) -> None:
    with closing(Pool(database, application_name="test", size=2, wait_seconds=0.1)) as pool:
        with pool.connection(), pool.connection(), pytest.raises(e.DatabaseExhausted):
            ask(pool)
        until(lambda: pool.stats().get("pool_available"))
        assert ask(pool)


def cut_all(database: str) -> None:
    with connect(database) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE application_name = 'test' AND datname = current_database()"
        )


def test_a_connection_that_was_cut_meanwhile_is_not_handed_out(pool: Pool, database: str) -> None:
    cut = {ask(pool) for _ in range(8)}
    cut_all(database)
    assert ask(pool, fresh_seconds=0.0) not in cut


def test_a_connection_that_was_cut_right_after_its_return_fails_once(pool: Pool, database: str) -> None:
    cut = {ask(pool) for _ in range(8)}
    cut_all(database)
    for _ in cut:
        with pytest.raises(e.DatabaseUnavailable):
            ask(pool, fresh_seconds=600.0)
    assert ask(pool, fresh_seconds=600.0) not in cut
