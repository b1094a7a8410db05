from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cardapp.card.navigation import FRESH
from cardapp.state import card_state
from cardapp.state.database import Database
from cardapp.state.writer import Writer
from tests.functional.serving import until

AT = "2025-03-01T10:00:00.000Z"


@contextmanager
def writing(db: Database, recheck: float) -> Iterator[Writer]:
    connection = sqlite3.connect(db.path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    writer = Writer(connection, db.path, recheck)
    yield writer
    writer.close()


@pytest.fixture
def writer(db: Database) -> Iterator[Writer]:
    """Its ``recheck`` is so long that no thread commits in place of another one that a busy machine runs late."""
    with writing(db, recheck=60) as writer:
        yield writer


class Together:
    """Runs writes that share one COMMIT: all other writes queue while the first one runs."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.outcomes: dict[str, BaseException | None] = {}
        self.statements: list[str] = []

    def run(self, bodies: dict[str, Callable[[sqlite3.Connection], object]]) -> None:
        threads = [threading.Thread(target=self._write, args=item) for item in bodies.items()]
        try:
            with self.writer.transaction() as conn:
                for thread in threads:
                    thread.start()
                until(lambda: self.writer.queued == len(threads), 30)
                conn.set_trace_callback(self.statements.append)
        finally:
            for thread in threads:
                thread.join()

    def _write(self, name: str, body: Callable[[sqlite3.Connection], object]) -> None:
        self.outcomes[name] = None
        try:
            with self.writer.transaction() as conn:
                body(conn)
        except BaseException as error:
            self.outcomes[name] = error


def save(uuid: str) -> Callable[[sqlite3.Connection], object]:
    return lambda conn: card_state.save_position(conn, uuid, FRESH, AT)


def saved(db: Database) -> list[str]:
    with db.read() as conn:
        return [row["card_uuid"] for row in conn.execute("SELECT card_uuid FROM navigation ORDER BY card_uuid")]


def test_writes_that_queue_share_one_commit(db: Database, writer: Writer) -> None:
    together = Together(writer)
    together.run({name: save(name) for name in "abcde"})
    assert saved(db) == list("abcde")
    assert together.statements.count("COMMIT") == 1


def test_a_failed_write_is_rolled_back_alone(db: Database, writer: Writer) -> None:
    def fail(conn: sqlite3.Connection) -> None:
        save("bad")(conn)
        raise ValueError("no")

    together = Together(writer)
    together.run({"a": save("a"), "bad": fail, "c": save("c")})
    assert saved(db) == ["a", "c"]
    assert isinstance(together.outcomes.pop("bad"), ValueError)
    assert together.outcomes == {"a": None, "c": None}


def test_a_failed_commit_fails_for_the_whole_group(db: Database, writer: Writer) -> None:
    def dangling(conn: sqlite3.Connection) -> None:
        conn.execute("PRAGMA defer_foreign_keys = ON")
        conn.execute("INSERT INTO evidence VALUES (99, 99, 'n', 'image/png', 1, 1, 1, '', '')")

    together = Together(writer)
    with pytest.raises(sqlite3.IntegrityError):
        together.run({"a": save("a"), "dangling": dangling, "c": save("c")})
    assert {name: type(error) for name, error in together.outcomes.items()} == dict.fromkeys(
        ("a", "dangling", "c"), sqlite3.IntegrityError
    )
    assert saved(db) == []
    with writer.transaction() as conn:
        save("later")(conn)
    assert saved(db) == ["later"]


def test_a_transaction_that_sqlite_rolled_back_fails_for_the_whole_group(db: Database, writer: Writer) -> None:
    def give_up(conn: sqlite3.Connection) -> None:
        save("lost")(conn)
        conn.execute("INSERT OR ROLLBACK INTO generation VALUES (1, 5)")

    together = Together(writer)
    with pytest.raises(sqlite3.IntegrityError):
        together.run({"lost": give_up})
    assert isinstance(together.outcomes["lost"], sqlite3.IntegrityError)
    assert saved(db) == []
    with writer.transaction() as conn:
        save("later")(conn)
    assert saved(db) == ["later"]


def test_a_write_is_committed_even_if_the_queued_thread_was_interrupted(db: Database) -> None:
    with writing(db, recheck=0.01) as writer:
        with writer.transaction() as conn:
            save("a")(conn)
            writer.queued += 1
        writer.queued -= 1
        assert saved(db) == ["a"]
