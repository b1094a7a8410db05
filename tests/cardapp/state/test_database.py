from __future__ import annotations

import hashlib
import sqlite3
import stat
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from cardapp.card.navigation import FRESH
from cardapp.errors import InvalidValue, StateError
from cardapp.state import card_state, events, migrations
from cardapp.state.database import Database, read_only
from cardapp.state.sqlite_errors import translated

AT = "2025-03-01T10:00:00.000Z"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- opening -------------------------------------------------------------------------------------------------------


def test_a_new_file_is_private_and_durable(state_dir: Path) -> None:
    database = Database.open(state_dir / "inner" / "card-state")
    with database.write() as conn:
        card_state.save_position(conn, "u", FRESH, AT)
        settings = {name: conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
        assert conn.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    assert settings == {"journal_mode": "wal", "synchronous": 2}
    assert mode(state_dir / "inner") == 0o700
    assert {mode(file) for file in (state_dir / "inner").iterdir()} == {0o600}
    database.close()
    with closing(Database.open(database.path)) as again, again.read() as conn:
        assert card_state.load_position(conn, "u").revision == 1


def test_a_symlink_is_refused_and_its_target_unchanged(state_dir: Path) -> None:
    goal = state_dir / "goal"
    goal.write_bytes(b"")
    for name in ("card-state", "card-state-wal", "card-state-shm"):
        linked = state_dir / name
        linked.symlink_to(goal)
        with pytest.raises(StateError) as refused:
            Database.open(state_dir / "card-state")
        assert (refused.value.code, str(linked) in refused.value.detail) == ("state_symlink", True)
        linked.unlink()
        (state_dir / "card-state").unlink(missing_ok=True)
    assert goal.read_bytes() == b""
    (state_dir / "real").mkdir()
    (state_dir / "link").symlink_to(state_dir / "real")
    with pytest.raises(StateError) as refused:
        Database.open(state_dir / "link" / "card-state")
    assert refused.value.code == "state_symlink"
    assert list((state_dir / "real").iterdir()) == []


def test_a_file_of_another_kind_or_of_a_newer_program_is_refused_unchanged(state_dir: Path) -> None:
    foreign, newer = state_dir / "foreign", state_dir / "newer"
    Database.open(newer).close()
    newest = f"PRAGMA user_version = {len(migrations.STEPS) + 1}"
    for file, statement in ((foreign, "CREATE TABLE recipe (name)"), (newer, newest)):
        with closing(sqlite3.connect(file, isolation_level=None)) as conn:
            conn.execute(statement)
    for file, code in ((foreign, "state_foreign_database"), (newer, "state_newer_schema")):
        before = file.read_bytes()
        with pytest.raises(StateError) as refused:
            Database.open(file)
        assert (refused.value.code, file.read_bytes()) == (code, before)


def test_a_file_that_is_no_database_is_neither_read_nor_written(state_dir: Path) -> None:
    thesis = state_dir / "thesis"
    thesis.write_bytes(b"my thesis, the only copy" * 100)
    before = thesis.read_bytes()
    with closing(Database.open(thesis)) as opened:
        for access in (opened.read, opened.write):
            with pytest.raises(StateError) as refused, access() as conn:
                events.head(conn)
            assert (refused.value.code, "bin/cardapp restore" in refused.value.detail) == ("state_damaged", True)
    assert thesis.read_bytes() == before


# -- migrations ----------------------------------------------------------------------------------------------------

SECOND = "ALTER TABLE navigation ADD COLUMN colour TEXT;\nCREATE TABLE second (x INTEGER);"


def test_a_file_of_version_1_gets_the_missing_steps(state_dir: Path) -> None:
    path = str(state_dir / "old")
    conn = sqlite3.connect(path, isolation_level=None)
    assert migrations.migrate(conn, path=path, steps=migrations.STEPS[:1]) == 1
    conn.execute("INSERT INTO navigation VALUES (1, 'u', 't1', NULL, NULL, NULL, NULL, 'task', 0, 'api', '', 7)")
    steps = (*migrations.STEPS, SECOND)
    assert migrations.migrate(conn, path=path, steps=steps) == len(steps) - 1
    assert conn.execute("SELECT task_id, revision, colour FROM navigation").fetchall() == [("t1", 7, None)]
    assert conn.execute("PRAGMA user_version").fetchone() == (len(steps),)
    assert migrations.migrate(conn, path=path, steps=steps) == 0
    conn.close()


def test_a_failed_migration_step_changes_nothing(state_dir: Path) -> None:
    path = str(state_dir / "old")
    conn = sqlite3.connect(path, isolation_level=None)
    migrations.migrate(conn, path=path)
    broken = "CREATE TABLE half (x);\nINSERT INTO nowhere VALUES (1);"
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrations.migrate(conn, path=path, steps=(*migrations.STEPS, broken))
    assert conn.execute("PRAGMA user_version").fetchone() == (len(migrations.STEPS),)
    assert conn.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchone() is None
    assert not conn.in_transaction
    conn.close()


def test_released_migration_steps_are_unchanged() -> None:
    """The steps were applied to existing files. To change the schema, add a step, and its digest here."""
    digests = [hashlib.sha256(step.encode()).hexdigest()[:16] for step in migrations.STEPS]
    assert digests == ["11b0eeaf62922b23"]


# -- reading and writing -------------------------------------------------------------------------------------------


def test_an_exception_rolls_the_write_back(db: Database) -> None:
    def change_my_mind() -> None:
        with db.write() as conn:
            card_state.save_position(conn, "u", FRESH, AT)
            raise ValueError("changed my mind")

    with pytest.raises(ValueError, match="changed my mind"):
        change_my_mind()
    with db.read() as conn:
        assert card_state.load_position(conn, "u").revision == 0


def test_a_nested_write_raises_and_rolls_back(db: Database) -> None:
    def twice() -> None:
        with db.write() as conn:
            card_state.save_position(conn, "u", FRESH, AT)
            with db.write():
                pass

    with pytest.raises(RuntimeError, match="already in a write"):
        twice()
    with db.write() as conn:
        assert card_state.save_position(conn, "u", FRESH, AT).revision == 1


def test_a_read_sees_one_snapshot(db: Database) -> None:
    with db.read() as conn:
        assert card_state.load_position(conn, "u").revision == 0
        with db.write() as writing:
            card_state.save_position(writing, "u", FRESH, AT)
        assert card_state.load_position(conn, "u").revision == 0
    with db.read() as conn:
        assert card_state.load_position(conn, "u").revision == 1


def test_a_read_cannot_write(db: Database) -> None:
    with pytest.raises(StateError) as refused, db.read() as conn:
        card_state.save_position(conn, "u", FRESH, AT)
    assert refused.value.code == "state_read_only"


def test_close_is_idempotent_and_later_use_is_refused(state_dir: Path) -> None:
    database = Database.open(state_dir / "card-state")
    with database.read() as conn:
        database.close()
        database.close()
        assert card_state.load_position(conn, "u").revision == 0
    for use in (database.read, database.write):
        with pytest.raises(StateError, match="closed"), use():
            pass
    assert [file.name for file in state_dir.iterdir()] == ["card-state"]


def test_ended_threads_leave_no_open_connection(db: Database) -> None:
    def use() -> None:
        with db.read() as conn:
            card_state.load_position(conn, "u")

    use()
    before = descriptors()
    for _ in range(30):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert descriptors() == before


def descriptors() -> int:
    return len([link for link in Path("/proc/self/fd").iterdir() if "card-state" in _goal(link)])


def _goal(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


# -- failures ------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_reported_and_survived(db: Database) -> None:
    with db.write() as conn:
        pages = conn.execute("PRAGMA page_count").fetchone()[0]
        conn.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StateError) as full, db.write() as conn:
        conn.executemany("INSERT INTO operation VALUES (?, ?)", ((str(number), "x" * 500) for number in range(1000)))
    assert full.value.code == "state_disk_full"
    with db.write() as conn:
        conn.execute("PRAGMA max_page_count = 100000")
        assert conn.execute("SELECT count(*) FROM operation").fetchone()[0] == 0
        assert card_state.save_position(conn, "u", FRESH, AT).revision == 1


def test_a_lock_held_by_another_process_is_reported_and_survived(db: Database) -> None:
    with db.write() as conn:
        conn.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(db.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateError) as locked, db.write():
        pass
    assert locked.value.code == "state_locked"
    other.execute("ROLLBACK")
    other.close()
    with db.write() as conn:
        assert card_state.save_position(conn, "u", FRESH, AT).revision == 1


def test_errors_of_sqlite_become_state_errors_with_a_remedy() -> None:
    for errorcode, code in (
        (sqlite3.SQLITE_FULL, "state_disk_full"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "state_locked"),
        (sqlite3.SQLITE_LOCKED, "state_locked"),
        (sqlite3.SQLITE_CORRUPT_INDEX, "state_damaged"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "state_read_only"),
        (sqlite3.SQLITE_IOERR_FSYNC, "state_io_error"),
        (sqlite3.SQLITE_CANTOPEN, "state_cannot_open"),
    ):
        error = sqlite3.OperationalError("words of SQLite")
        error.sqlite_errorcode = errorcode
        ours = translated(error, Path("/x/card-state"))
        assert ours is not None
        assert ours.code == code
        assert "/x/card-state" in ours.detail
        assert "words of SQLite" in ours.detail


# -- reading from another process ----------------------------------------------------------------------------------


def test_a_database_in_use_can_be_read_without_changing_it(db: Database) -> None:
    with db.write() as conn:
        card_state.save_position(conn, "u", FRESH, AT)
    with read_only(db.path) as conn:
        assert card_state.load_position(conn, "u").revision == 1
    with pytest.raises(StateError) as refused, read_only(db.path) as conn:
        card_state.save_position(conn, "u", FRESH, AT)
    assert refused.value.code == "state_read_only"


def test_read_only_refuses_a_missing_or_foreign_file(state_dir: Path) -> None:
    with pytest.raises(StateError, match="no database"), read_only(state_dir / "none"):
        pass
    assert list(state_dir.iterdir()) == []
    sqlite3.connect(state_dir / "other").executescript("CREATE TABLE recipe (name)").connection.close()
    with pytest.raises(StateError, match="not a database of the card application"), read_only(state_dir / "other"):
        pass


def test_a_value_that_sqlite_cannot_store_is_named(db: Database) -> None:
    with pytest.raises(InvalidValue, match="surrogate"), db.write() as conn:
        card_state.save_position(conn, "\ud800", FRESH, AT)
    with pytest.raises(InvalidValue, match="64 bits"), db.read() as conn:
        conn.execute("SELECT ?", (2**64,))


def test_programming_errors_are_not_translated(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"), db.write() as conn:
        conn.execute("INSERT INTO nowhere VALUES (1)")


def test_repeated_bursts_of_readers_leave_no_further_connections(db: Database) -> None:
    def burst() -> int:
        with ExitStack() as stack:
            for _ in range(20):
                card_state.load_position(stack.enter_context(db.read()), "u")
        return descriptors()

    # As long as one connection is open, SQLite keeps the descriptors of closed ones and uses them again.
    first = burst()
    assert max(burst() for _ in range(3)) <= first
