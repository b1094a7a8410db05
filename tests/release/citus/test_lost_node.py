"""Commands while a node of the cluster is down: each says in one line which node it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from marketdata.operations.symbol_access import SymbolAccess
from marketdata.store.pool import connect
from marketdata.store.version import registered
from tests.marketdata.store.conftest import START, tick
from tests.release.citus.cluster import Node
from tests.release.citus.commands import Prepared

SYMBOLS = [f"X{n}:A-USD" for n in range(6)]


@pytest.fixture
def down(prepared: Prepared) -> Iterator[Node]:
    """A node that is down. The plain version 1 is the current one, and version 2 is distributed."""
    command, database = prepared.command, prepared.database
    assert command("version", "1").returncode == 0
    assert command("version", "2", "--shards", "6").returncode == 0
    with connect(database.url) as connection, SymbolAccess(connection) as access:
        version = registered(connection, "md")[1].version
        access.ingest(version, [tick(symbol, "1", START) for symbol in SYMBOLS])
    node = database.node_of("md_ticks_v2", SYMBOLS[0])
    node.kill()
    yield node
    node.start()


def test_a_command_names_the_node_that_is_down(down: Node) -> None:
    commands = (
        ("export", "--format", "csv"),
        ("cutover", "2", "--compare"),
        ("copy", "1", "2"),
        ("alias", "add", "NICK", SYMBOLS[0]),
        ("version", "3", "--shards", "2"),
    )
    for arguments in commands:
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from marketdata.cli import main; sys.exit(main())", *arguments],
            env=os.environ | {"TICKS_TABLE": "md_ticks_v2"} if arguments[0] == "export" else os.environ,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 1, arguments
        said = done.stderr.splitlines()
        assert said[-1].startswith(
            f"bin/marketdata-{arguments[0]}: node 127.0.0.1:{down.port} of the Citus cluster does not answer; "
            "run this command again when it is back ("
        ), arguments
        assert len(said) == 1, arguments
