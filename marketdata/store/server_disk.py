"""Recognises failures of PostgreSQL that a full disk causes, and names the file system."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from time import monotonic

from marketdata import errors as e
from marketdata import file_system
from marketdata.store.conninfo import address, server

REMEMBERED_SECONDS = 10.0
"""How long a write that found a disk full speaks for the disk of another machine, which cannot be looked at."""
AFTER = "send the request again when there is room"
_LEAST_BYTES = 16 << 20
"""The size of a segment of the write-ahead log. PostgreSQL ends if it cannot make the next segment."""


class ServerDisk:
    """The file system on which the server of a connection string keeps its data. Thread-safe."""

    def __init__(self, conninfo: str) -> None:
        """``conninfo`` is valid. The private cluster has its socket in the folder that holds its data."""
        self._folder = Path(address(conninfo)[0], "data")
        self._server = server(conninfo)
        self._full_at = -REMEMBERED_SECONDS

    def explained(self, error: e.MarketError) -> e.MarketError:
        """The error to raise for ``error``. If a full file system is its cause, this is an error that names it."""
        if isinstance(error, e.DiskFull) or (type(error) is e.DatabaseUnavailable and self._lacks_room()):
            self._full_at = monotonic()
            return self._error()
        return error

    def error(self) -> e.DiskFull | None:
        """The error if the file system was full a moment ago and, where this machine can tell, still is."""
        is_recent = monotonic() - self._full_at < REMEMBERED_SECONDS
        return self._error() if is_recent and self._lacks_room() is not False else None

    def _lacks_room(self) -> bool | None:
        """Whether there is no room for another segment of the log. None if this machine has no such folder."""
        with suppress(OSError):
            if self._folder.is_absolute():
                return file_system.free_bytes(self._folder) < _LEAST_BYTES
        return None

    def _error(self) -> e.DiskFull:
        if self._lacks_room() is None:
            return e.DiskFull(f"the file system of PostgreSQL's data ({self._server}) is full; {AFTER}")
        return e.DiskFull(f"{file_system.named(self._folder)} is full; {AFTER}")
