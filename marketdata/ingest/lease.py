"""Ensures that at most one ingestor writes to a table of ticks: by a lock file on this machine, and by a lease of the
API among all machines."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic

from marketdata import secretfile
from marketdata.errors import AlreadyRunning, StateError
from marketdata.ingest.api_client import ApiClient, ApiUnavailable, served_table
from marketdata.ingest.outbox import Outbox

TTL = 30
"""Seconds after which another ingestor may replace an ingestor that was killed."""
_RENEWAL = 10.0
"""Seconds between two renewals."""
_HOLDER_TRIES, _HOLDER_PAUSE_S = 50, 0.01


@contextmanager
def locked(path: Path, name: str = "ingestor") -> Iterator[None]:
    """Hold the lock file during the block. Raises AlreadyRunning, with the holder's process id, if another process
    holds the lock."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = f"process {_holder(file)}"
            detail = f"another {name}, {holder}, holds {path}; end it first"
            raise AlreadyRunning(detail, extra={"holder": holder}) from error
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
        os.ftruncate(file, 0)
    finally:
        os.close(file)


def _holder(file: int) -> str:
    """The process id in the lock file. The holder writes it just after locking, so this function waits a moment for
    it."""
    waiting = Event()
    for _ in range(_HOLDER_TRIES):
        holder = os.pread(file, 32, 0).decode(errors="replace").strip()
        if holder:
            return holder
        waiting.wait(_HOLDER_PAUSE_S)
    return "?"


def holder_of(outbox: Outbox) -> str:
    """The name under which an outbox's ingestor holds the lease.

    The name is kept in a file beside the outbox. It stays the same after a change of the host name or of the outbox, so
    that an ingestor that was killed can take its lease back at once.
    """
    path = outbox.path.with_suffix(".holder")
    try:
        if not path.exists():
            with secretfile.replaced(path, f"{socket.gethostname()} {outbox.identity}\n"):
                pass
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{path} cannot be read: {error}") from error


class Lease:
    """The lease of the table that the API writes to. The lease has the name of the table.

    Taking the lease raises AnotherTable if the API writes to another table than ``ticks_table``, and UsageError if the
    outbox is bound to another table.
    """

    def __init__(self, api: ApiClient, outbox: Outbox, ticks_table: str) -> None:
        self._api = api
        self._outbox = outbox
        self._holder = holder_of(outbox)
        self._expected = ticks_table
        self._table: str | None = None
        self._renew_at = 0.0

    def keep(self) -> None:
        """Take the lease, or renew it if the last renewal was ``_RENEWAL`` seconds ago or earlier. Raises
        AlreadyRunning if another ingestor has the lease, ApiUnavailable if the API does not respond."""
        if monotonic() < self._renew_at:
            return
        table = served_table(self._api, self._expected)
        self._outbox.bind(table)
        body = json.dumps({"holder": self._holder, "ttl_s": TTL}).encode()
        response = self._api.request("PUT", f"/v1/lease/ingestor-{table}", body)
        # In a conflict without a holder, the lease was released meanwhile, so the next try gets it.
        if response.status == 409 and "holder" in (response.body or {}):
            raise AlreadyRunning(response.detail, extra={"holder": response.body["holder"]})
        if response.status != 200:
            raise ApiUnavailable(f"{self._api.url} grants no lease: {response.detail}")
        self._table = table
        self._renew_at = monotonic() + _RENEWAL

    def renew(self) -> None:
        """Make the next ``keep`` renew the lease at once. After an outage, the API may write to another table."""
        self._renew_at = 0.0

    def release(self) -> None:
        """Release the lease if it was taken."""
        if self._table is not None:
            body = json.dumps({"holder": self._holder}).encode()
            self._api.request("DELETE", f"/v1/lease/ingestor-{self._table}", body)
            self._table, self._renew_at = None, 0.0
