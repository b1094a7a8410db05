"""A thread that receives notifications from a database on a connection of its own.

Notifications are lost while the connection is down. So whoever receives them must assume after every new connection
that something was missed.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing

from marketdata.errors import MarketError
from marketdata.store.notifications import Notifications
from marketdata.store.pool import Connection, connect

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class DatabaseListener(ABC):
    """Call ``start`` once; ``stop`` may be called repeatedly. ``name`` is the database's name in messages."""

    def __init__(self, name: str, conninfo: str, application_name: str, channels: Sequence[str]) -> None:
        self._name = name
        self._conninfo = conninfo
        self._application_name = application_name
        self._channels = channels
        self._stopping = threading.Event()
        self._notifications: Notifications | None = None
        self._thread: threading.Thread | None = None
        self.is_receiving = False
        """Whether the connection is up, so that notifications are received."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"{self._application_name}-{self._name}", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        notifications = self._notifications
        if notifications is not None:
            notifications.wake()
        if self._thread is not None:
            self._thread.join(timeout)

    @abstractmethod
    def _receive(self, connection: Connection, notifications: Notifications) -> None:
        """Receive from a new connection until :meth:`stop`, or raise an error when it is lost."""

    def _begun(self) -> None:
        """Note that notifications are received now."""
        if not self.is_receiving:
            _log.info("changes are received from the %s", self._name)
            self.is_receiving = True

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with (
                    connect(self._conninfo, application_name=self._application_name) as connection,
                    closing(Notifications(connection, self._channels)) as notifications,
                ):
                    self._notifications = notifications
                    self._receive(connection, notifications)
            except (MarketError, OSError) as error:
                if self.is_receiving:
                    _log.warning("no changes are received from the %s: %s", self._name, error)
            except Exception:
                _log.exception("internal error while receiving changes from the %s", self._name)
            self.is_receiving = False
            self._notifications = None
            self._stopping.wait(_RETRY_SECONDS)
