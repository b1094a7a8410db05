"""One ingestor for each table of ticks: a lock file on this machine, and a lease through the API for all machines.

The backfill has a lock file of its own.
"""

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
from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.destination import served_table
from marketdata.ingest.outbox import Outbox

TTL = 30
"""Seconds after which another ingestor may take over from one that was killed."""
_RENEWAL = 10.0
_TRIES, _TRY_S = 50, 0.01


@contextmanager
def locked(path: Path, name: str = "ingestor") -> Iterator[None]:
    """Hold the lock file; AlreadyRunning, with the process id of its holder, when another process does."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(f"another {name}, process {_holder(file)}, holds {path}; end it first") from error
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
        os.ftruncate(file, 0)
    finally:
        os.close(file)


def _holder(file: int) -> str:
    """The process id in the lock file, which its holder writes right after it has locked it."""
    waiting = Event()
    for _ in range(_TRIES):
        holder = os.pread(file, 32, 0).decode(errors="replace").strip()
        if holder:
            return holder
        waiting.wait(_TRY_S)
    return "?"


def holder_of(outbox: Outbox) -> str:
    """Who holds the lease for an outbox. It is kept in a file beside it, and stays the same when the host has another
    name, or the outbox is begun anew: after a kill the next one would have to wait for the lease."""
    path = outbox.path.with_suffix(".holder")
    try:
        if not path.exists():
            with secretfile.replaced(path, f"{socket.gethostname()} {outbox.identity}\n"):
                pass
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{path} cannot be read: {error}") from error


class Lease:
    """The lease of the table that the API writes to. It is named after the table, which ``GET /ready`` tells.

    The table has to be ``ticks_table`` (AnotherTable otherwise), and that of the outbox (UsageError).
    """

    def __init__(self, api: ApiClient, outbox: Outbox, ticks_table: str) -> None:
        self._api = api
        self._outbox = outbox
        self._holder = holder_of(outbox)
        self._expected = ticks_table
        self._table: str | None = None
        self._renew_at = 0.0

    def keep(self) -> None:
        """Take the lease, or renew it when it is time. AlreadyRunning when another ingestor has it, ApiUnavailable when
        the API cannot say."""
        if monotonic() < self._renew_at:
            return
        table = served_table(self._api, self._expected)
        self._outbox.bind(table)
        body = json.dumps({"holder": self._holder, "ttl_s": TTL}).encode()
        answer = self._api.request("PUT", f"/v1/lease/ingestor-{table}", body)
        # Without a holder it was released between the API's two looks, and can be had with the next try.
        if answer.status == 409 and "holder" in (answer.body or {}):
            raise AlreadyRunning(answer.detail)
        if answer.status != 200:
            raise ApiUnavailable(f"{self._api.url} grants no lease: {answer.detail}")
        self._table = table
        self._renew_at = monotonic() + _RENEWAL

    def renew(self) -> None:
        """With the next ``keep``: the API may be another one when it answers again."""
        self._renew_at = 0.0

    def release(self) -> None:
        """Give the lease back, if it was ever taken."""
        if self._table is not None:
            body = json.dumps({"holder": self._holder}).encode()
            self._api.request("DELETE", f"/v1/lease/ingestor-{self._table}", body)
            self._table, self._renew_at = None, 0.0
