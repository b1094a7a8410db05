"""The health check of a database: a thread that connects anew every few seconds and calls the served candles function.

A pooled connection would not do: its backend has loaded everything and works on when no further one can, for example
after PostgreSQL's libraries were replaced. The connection is kept until the next check, which begins at once when the
server closes it.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from marketdata.api.failures_log import described
from marketdata.errors import DatabaseStalled, DatabaseUnavailable, MarketError
from marketdata.settings import Settings
from marketdata.store import candles
from marketdata.store.pool import Connection, connect
from marketdata.store.replication import LogPosition, log_position
from marketdata.store.version import Version, find_served

PERIOD_SECONDS = 2.0
RETRY_SECONDS = 0.5
STALL_SECONDS = 5.0
"""A check that takes longer has failed, though it goes on: the database may be stopped."""
FIRST_SECONDS = 1.5
"""Requests wait for the first check as long after the start, and no longer: the worker for urgent ones must be free."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checked:
    """The result of a check that ended at the monotonic time ``at``."""

    at: float
    error: MarketError | None = None


class HealthCheck:
    """``start`` once, ``stop`` any number of times. ``name`` is that of the database in messages. ``measure`` is called
    with the position in the write-ahead log, if it is given."""

    def __init__(
        self, name: str, conninfo: str, settings: Settings, measure: Callable[[LogPosition], None] | None = None
    ) -> None:
        self._name = name
        self._conninfo = conninfo
        self._settings = settings
        self._measure = measure
        self.version: Version | None = None
        """The version that the last successful check found."""
        self._began: float | None = None
        self._last: Checked | None = None
        self._first = threading.Event()
        self._wait_until = 0.0
        self._stopping = threading.Event()
        self._wake_reader: socket.socket
        self._wake_writer: socket.socket
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._wait_until = monotonic() + FIRST_SECONDS
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"api-check-{self._name}", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        if self._thread is None:
            return
        with suppress(OSError):  # closed by the stop before
            self._wake_writer.send(b".")
        self._thread.join(timeout)
        self._wake_reader.close()
        self._wake_writer.close()

    # -- in any thread -------------------------------------------------------------------------------------------------

    def is_answering(self) -> bool:
        """Whether the last check succeeded, and the current one, if any, has not stalled."""
        last = self._last
        return last is not None and last.error is None and not self._stalled_for()

    def error(self) -> MarketError | None:
        """Why the database is not usable; None when it is. Never waits for the database."""
        if seconds := self._stalled_for():
            return DatabaseStalled(f"the {self._name} does not react: its check has been waiting for {seconds:.0f} s")
        last = self._last
        if last is None:
            return DatabaseUnavailable(f"the first check of the {self._name} is still running")
        return last.error

    def wait_for_first(self) -> None:
        """Wait until there is a first result, until ``FIRST_SECONDS`` after the start."""
        self._first.wait(max(0.0, self._wait_until - monotonic()))

    @property
    def age(self) -> float:
        """Seconds since the end of the last check."""
        return monotonic() - self._last.at if self._last is not None else 0.0

    def _stalled_for(self) -> float:
        """Seconds since the current check began, when they are too many; else 0."""
        began = self._began
        seconds = 0.0 if began is None else monotonic() - began
        return seconds if seconds > STALL_SECONDS else 0.0

    # -- in the thread of the check ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._began = monotonic()
            try:
                with connect(self._conninfo, application_name="marketdata-api-check") as connection:
                    self.version = self._look(connection)
                    self._record(Checked(monotonic()))
                    self._pause(PERIOD_SECONDS, connection.fileno())
            except MarketError as error:
                self._record(Checked(monotonic(), error=error))
                self._pause(RETRY_SECONDS)
            except Exception:
                _log.exception("internal error in the check of the %s", self._name)
                self._record(Checked(monotonic(), error=MarketError("internal error in the check; see the log")))
                self._pause(RETRY_SECONDS)

    def _look(self, connection: Connection) -> Version:
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = {STALL_SECONDS * 1000:.0f}", prepare=False)
            version = find_served(connection, self._settings)
            candles.check(connection, version)
            if self._measure is not None:
                self._measure(log_position(connection))
        return version

    def _record(self, checked: Checked) -> None:
        before, self._last = self._last, checked
        self._began = None
        self._first.set()
        if checked.error is not None and (before is None or before.error is None):
            _log.error("the %s is not usable: %s, SQLSTATE %s: %s", self._name, *described(checked.error))
        elif checked.error is None and before is not None and before.error is not None:
            _log.info("the %s is usable again", self._name)

    def _pause(self, seconds: float, connection: int | None = None) -> None:
        """Wait; less when the check is stopped, or the server closes the connection."""
        if self._stopping.is_set():
            return
        poll = select.poll()
        for descriptor in (self._wake_reader.fileno(), *(() if connection is None else (connection,))):
            poll.register(descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
