"""The notifications that the database sends about stored and removed ticks."""

from __future__ import annotations

from contextlib import closing

from marketdata.interval import SECOND
from marketdata.store import ticks
from marketdata.store.notifications import Change, Notifications
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version
from marketdata.tick import Finalize, Item, Retract
from tests.functional.serving import until

from .conftest import START, new_symbol, tick

TABLE = '"t_ticks_v1"'


def notified(database: str, conn: Connection, version: Version, *items: Item) -> list[Change]:
    """The changes that one request with these items makes."""
    with connect(database) as listening:
        listening.execute("LISTEN market_changes")
        ticks.ingest(conn, version, items)
        return [Change.parsed(each.payload) for each in listening.notifies(timeout=20, stop_after=1)]


def test_changes_are_notified_with_their_times(database: str, conn: Connection, version: Version) -> None:
    symbol, later = new_symbol(), START + 5 * SECOND
    first = tick(symbol, "a", START, block_number=1, block_hash="0x1")
    found = notified(database, conn, version, first, tick(symbol, "b", later))
    assert found == [Change(TABLE, symbol, START, later, "stored")]
    assert found[0].is_of("t_ticks_v1")
    (change,) = notified(database, conn, version, Finalize(symbol, 1))
    assert (change.symbol, change.kind) == (symbol, "final")
    assert notified(database, conn, version, Retract(symbol, "0x1")) == [Change(TABLE, symbol, START, START, "removed")]


def test_what_arrives_during_a_statement_is_kept(database: str, conn: Connection, version: Version) -> None:
    symbol = new_symbol()
    arrived: list[object] = []
    with connect(database) as connection, closing(Notifications(connection)) as listening:
        connection.add_notify_handler(arrived.append)
        ticks.ingest(conn, version, [tick(symbol, "a", START)])
        until(lambda: connection.execute("SELECT 1") and arrived)
        ticks.ingest(conn, version, [tick(symbol, "b", START + SECOND)])
        changes = []
        while len(changes) < 2:
            revoked, found = listening.wait(10)
            changes += found
            assert not revoked
    assert [(each.symbol, each.first) for each in changes] == [(symbol, START), (symbol, START + SECOND)]
