"""An outbox file of the previous release, with rows in every table."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from marketdata.errors import StateError
from marketdata.ingest import outbox as module
from marketdata.ingest.chain_cursor import ChainCursor, KnownPool, ReadBlock
from marketdata.ingest.outbox import Coverage, Outbox, OutboxItem
from marketdata.source.evm import Block

TICK = json.dumps({"symbol": "ETH:A-B", "id": "0xab:1", "block": {"number": 90, "hash": "0xab"}})
ROWS = f"""
    INSERT INTO identity VALUES ('the-id', 'md_ticks_v1');
    INSERT INTO pools VALUES ('ETH:A-B', '0xaa', 101, 5, 1000, 2001), ('ETH:C-D', '0xcc', 40, 7, NULL, NULL);
    INSERT INTO blocks VALUES (90, '0xab', '["ETH:A-B"]', 1900), (100, '0xcd', '[]', 2000);
    INSERT INTO retracted VALUES ('0xdead', 'ETH:A-B', 95);
    INSERT INTO finalized VALUES ('ETH:A-B', 88), ('ETH:C-D', 30);
    INSERT INTO items (body) VALUES ('{TICK}');
    INSERT INTO dead_letters (body, code, detail, at) VALUES ('{TICK}', 'code', 'detail', 12.5);
    INSERT INTO coverage VALUES (1, 'ETH:A-B', 1000, 2001, 'indexed', 1);
    INSERT INTO backfilled VALUES ('md_ticks_v1', 'ETH:A-B', '0xaa', 0, 4);
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "md_ticks_v1.sqlite"
    with closing(sqlite3.connect(found)) as old:
        old.executescript(module.MIGRATIONS[0] + ROWS + "PRAGMA user_version = 1;")
        tables = {row[0] for row in old.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE%'")}
        counts = {table: old.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
        assert all(counts.values()), counts
    return found


def test_everything_is_kept(path: Path) -> None:
    with closing(Outbox(path)) as outbox:
        assert outbox.identity == "the-id"
        outbox.bind("md_ticks_v1")
        assert outbox.first(9) == [OutboxItem(1, TICK)]
        assert [letter.at for letter in outbox.dead_letters()] == [12.5]
        assert outbox.rows("SELECT * FROM backfilled") == [("md_ticks_v1", "ETH:A-B", "0xaa", 0, 4)]
        assert outbox.coverage(9) == []  # the tick of this block waits
        outbox.acknowledged(outbox.first(9), [])
        assert outbox.coverage(9) == [Coverage(1, "ETH:A-B", 1000, 2001, "indexed")]
        cursor = ChainCursor(outbox, "ETH")
        assert cursor.pools() == [KnownPool("ETH:A-B", "0xaa", 5, None, 0), KnownPool("ETH:C-D", "0xcc", 7, 40, 0)]
        assert (cursor.next_block(), cursor.late()) == (101, {"ETH:C-D": 40})
        assert cursor.blocks() == [ReadBlock(100, "0xcd", "[]", 2000), ReadBlock(90, "0xab", '["ETH:A-B"]', 1900)]
        with outbox.transaction() as transaction:
            assert cursor.restores(transaction, Block(95, "0xdead", 1950), ["ETH:A-B"]) != []
    with closing(Outbox(path)) as outbox:  # the upgrade is made once
        assert outbox.rows("PRAGMA user_version") == [(len(module.MIGRATIONS),)]


def test_the_file_of_a_later_release_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as later:
        later.execute(f"PRAGMA user_version = {len(module.MIGRATIONS) + 1}")
    with pytest.raises(StateError, match="written by a later release"):
        Outbox(path)
