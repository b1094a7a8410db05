"""``bin/marketdata-alias``: what may be an alias, and that every version knows it."""

from __future__ import annotations

import pytest

from marketdata.interval import SECOND
from marketdata.store import symbols, ticks
from marketdata.store.pool import Connection
from marketdata.store.version import registered
from tests.marketdata.conftest import Command
from tests.marketdata.store.conftest import START, tick


@pytest.fixture
def conn(two_versions: Connection, command: Command) -> Connection:
    """Versions 1 and 2 with a tick of the symbols A and B each; B has the alias OTHER."""
    for each in registered(two_versions, "md"):
        ticks.ingest(two_versions, each.version, [tick(name, "1", START + SECOND, "5") for name in "AB"])
    assert command("alias", "add", "OTHER", "B").stdout == "OTHER now stands for B\n"
    return two_versions


def test_ticks_with_the_alias_are_those_of_the_symbol_in_every_version(conn: Connection, command: Command) -> None:
    assert command("alias", "add", "X:A/1", "A").stdout == "X:A/1 now stands for A\n"
    assert command("alias", "add", "X:A/1", "A").stdout == "X:A/1 already stands for A\n"
    assert command("alias", "list").stdout.splitlines() == ["OTHER  B", "X:A/1  A"]
    for each in registered(conn, "md"):
        ticks.ingest(conn, each.version, [tick("X:A/1", "2", START + 2 * SECOND, "6")])
        listed = symbols.list_all(conn, each.version)
        assert [(found.symbol, found.aliases) for found in listed] == [("A", ["X:A/1"]), ("B", ["OTHER"])]
        assert conn.execute(f"SELECT count(*) FROM {each.ticks_table} WHERE symbol = 'A'").fetchone() == (2,)  # type: ignore[arg-type]
    assert command("alias", "remove", "X:A/1").stdout == "X:A/1 no longer stands for A\n"
    assert command("alias", "list").stdout == "OTHER  B\n"
    assert not symbols.is_known(conn, registered(conn, "md")[0].version, "X:A/1")


WRONG = {
    ("add", "A", "B"): "ALIAS A is already a symbol in md_symbols_v1; the alias would hide its data",
    ("add", "ONLY2", "A"): "ALIAS ONLY2 is already a symbol in md_symbols_v2",
    ("add", "OTHER", "A"): "ALIAS OTHER stands for B: remove it first with bin/marketdata-alias remove OTHER",
    ("add", "B", "A"): "ALIAS B is a symbol with aliases",
    ("add", "MORE", "OTHER"): "SYMBOL OTHER is itself an alias: name its symbol, B",
    ("add", "A", "A"): "ALIAS and SYMBOL are both A",
    ("add", "a b", "A"): "ALIAS 'a b': a name has 1 to 64 of the characters",
    ("remove", "NONE"): "ALIAS 'NONE': there is no such alias; bin/marketdata-alias list shows all",
}


def test_wrong_use_names_the_field_and_changes_nothing(conn: Connection, command: Command) -> None:
    ticks.ingest(conn, registered(conn, "md")[1].version, [tick("ONLY2", "1", START, "5")])
    for arguments, words in WRONG.items():
        done = command("alias", *arguments)
        assert (done.returncode, done.stdout, words in done.stderr) == (2, "", True), (arguments, done)
        assert conn.execute("SELECT alias, symbol FROM market_aliases").fetchall() == [("OTHER", "B")]
