"""Looks for damaged pages of a database: ``PRAGMA quick_check``, in a thread that its owner can stop."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress

from cardapp.state.sqlite_errors import is_damage

_INTERRUPT_AGAIN = 0.02
"""Seconds between two interruptions. One that comes before the statement begins has no effect."""


class PageCheck:
    """One check. It begins at once and closes ``connection`` at its end. ``found`` is called, in the check's thread,
    with what SQLite says about the first damage. Any other error of SQLite is left to those who use the database."""

    def __init__(self, connection: sqlite3.Connection, found: Callable[[str], None]) -> None:
        self._connection = connection
        self._found = found
        self._thread = threading.Thread(target=self._run, name="page-check", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the check, at most ``seconds``. Returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self, timeout: float = 5.0) -> None:
        """End the check. Any number of calls."""
        for _ in range(round(timeout / _INTERRUPT_AGAIN)):
            with suppress(sqlite3.ProgrammingError):  # closed
                self._connection.interrupt()
            if self.wait(_INTERRUPT_AGAIN):
                return

    def _run(self) -> None:
        with closing(self._connection):
            try:
                said = str(self._connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            except sqlite3.Error as error:
                said = str(error) if is_damage(error) else "ok"
        if said != "ok":
            self._found(said.splitlines()[-1])
