"""The names of a version, its parts, and what is refused at the start."""

from __future__ import annotations

import psycopg
import pytest

from marketdata.errors import UsageError, VersionMissing
from marketdata.store import candles, ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version
from marketdata.tick import Retract

from .conftest import START, new_symbol, stored_rollups, tick


def test_the_names_give_the_version_back() -> None:
    version = Version.of("md", 3)
    assert (version.ticks_table, version.candles_function) == ("md_ticks_v3", "md_candles_v3")
    assert Version.from_names("md_ticks_v3", "md_candles_v3") == version
    assert Version.from_names("a_ticks_v1_ticks_v20", "mine").prefix == "a_ticks_v1"


def test_an_impossible_name_is_refused() -> None:
    for name in (
        "", "Md_ticks_v1", "md_ticks_v0", "md_ticks_v01", "md_ticks", "ticks_v1", 'a"_ticks_v1', "a" * 41 + "_ticks_v1",
        "md_ticks_v1\n", "md_ticks_v1; DROP TABLE x",
    ):  # fmt: skip
        with pytest.raises(UsageError, match="TICKS_TABLE"):
            Version.from_names(name, "md_candles_v1")
    for name in ("", "Candles", "a-b", 'x"y', "x()", "9a", "a" * 64, "a\n"):
        with pytest.raises(UsageError, match="CANDLES_FUNCTION"):
            Version.from_names("md_ticks_v1", name)
    with pytest.raises(UsageError, match="must be 1 or greater"):
        Version.of("md", 0)


def test_the_longest_prefix_keeps_every_name_apart(conn: Connection) -> None:
    """PostgreSQL truncates a name that is too long, and raises no error."""
    version = Version.of("p" * 40, 999_999)
    version.create(conn)
    version.check(conn)
    assert ticks.ingest(conn, version, [tick("x:y", "a", START)]).outcomes == ["created"]
    assert candles.read(conn, version, "x:y", "1m").count == 1


def test_a_role_that_is_no_superuser_creates_a_version_and_writes_to_it(conn: Connection) -> None:
    version, symbol = Version.of("own", 1), "x:y"
    block = tick(symbol, "a", START, block_number=1, block_hash="h")
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE ROLE plain_owner")
        conn.execute("GRANT CREATE ON SCHEMA public TO plain_owner")
        conn.execute("GRANT SELECT ON market_aliases TO plain_owner")
        conn.execute("SET LOCAL ROLE plain_owner")
        version.create(conn)
        for sent, outcome in ((block, "created"), (block, "duplicate"), (Retract(symbol, "h"), "done")):
            assert ticks.ingest(conn, version, [sent]).outcomes == [outcome]
        assert stored_rollups(conn, version, symbol) == []


def test_a_created_version_is_found_and_not_created_again(conn: Connection, version: Version) -> None:
    version.check(conn)
    with pytest.raises(psycopg.errors.DuplicateTable):
        version.create(conn)
    version.check(conn)


def test_a_table_and_a_function_of_different_versions_are_refused(conn: Connection) -> None:
    other = Version.of("u", 2)
    with conn.transaction(force_rollback=True):
        other.create(conn)
        other.check(conn)
        for table, function, error, reason in (
            ("t_ticks_v9", "t_candles_v1", VersionMissing, "has no table t_ticks_v9"),
            ("t_ticks_v1", "t_candles_v9", VersionMissing, "has no function t_candles_v9"),
            ("t_ticks_v1", "u_candles_v2", UsageError, "does not belong to TICKS_TABLE=t_ticks_v1"),
            ("t_ticks_v1", "t_vwap_v1", UsageError, "does not belong to TICKS_TABLE=t_ticks_v1"),
            ("t_ticks_v1", "lower", UsageError, "does not belong to TICKS_TABLE=t_ticks_v1"),
        ):
            with pytest.raises(error, match=reason):
                Version.from_names(table, function).check(conn)


def test_another_function_of_the_same_table_may_be_named(conn: Connection, version: Version) -> None:
    """The function belongs to the table because it returns the table's row type."""
    with conn.transaction(force_rollback=True):
        conn.execute(
            """CREATE FUNCTION only_noon(symbol text, bucket text, "from" timestamptz, "to" timestamptz,
                                         max_rows integer, fill text, time_zone text, current text)
               RETURNS SETOF t_candle_v1 LANGUAGE sql
               AS 'SELECT * FROM t_candles_v1($1, $2, $3, $4, $5, $6, $7, $8) c WHERE extract(hour FROM c.t) = 12'"""
        )
        named = Version.from_names("t_ticks_v1", "only_noon")
        named.check(conn)
        symbol = new_symbol()
        ticks.ingest(conn, named, [tick(symbol, "a", START), tick(symbol, "b", START + 12 * 3600 * 10**6)])
        assert candles.read(conn, version, symbol, "1m").count == 2
        assert candles.read(conn, named, symbol, "1m").count == 1
