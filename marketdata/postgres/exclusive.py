"""Gives a command exclusive use of the private cluster: no service, no other command and no owner runs meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from marketdata.errors import StateError
from marketdata.postgres import locks
from marketdata.postgres.client import START_TIMEOUT, refuse_while_converted
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.owner import end_old_processes
from marketdata.postgres.processes import signal_and_wait, wait_readable

GRACE_SECONDS = 1.0
"""How long to wait until other commands have released the database. If some process still uses it after this time, the
error names the process."""

_POLL_SECONDS = 0.02


@contextlib.contextmanager
def exclusive(state_dir: Path, command: str) -> Iterator[None]:
    """Keep clients and owners away while the block runs. Their errors name ``command`` as the reason.

    Raises StateError when a service or another command uses the database.
    """
    clients = locks.open_clients_lock(state_dir)
    owner = locks.open_owner_lock(state_dir)
    try:
        _lock_clients(state_dir, clients)
        _lock_owner(state_dir, owner)
        locks.write_status(owner, pid=os.getpid(), exclusive=command)
        try:
            yield
        finally:
            locks.write_status(owner)
    finally:
        os.close(owner)
        os.close(clients)


@contextlib.contextmanager
def running(cluster: Cluster, *settings: str) -> Iterator[str]:
    """Run PostgreSQL, with these ``name=value`` settings, while the block runs; yields the connection string. If the
    cluster does not exist, it is created. Raises StateError when PostgreSQL does not start."""
    cluster.prepare()
    end_old_processes(cluster)
    try:
        cluster.start(*settings)
        while not cluster.is_ready():
            if (status := cluster.postmaster.poll()) is not None:
                raise StateError(
                    f"PostgreSQL in {cluster.folder} ended with status {status}; the end of its log:\n"
                    f"{cluster.recent_log()}"
                )
            wait_readable([], _POLL_SECONDS)
        yield cluster.conninfo
    finally:
        cluster.stop()


def _lock_clients(state_dir: Path, clients: int) -> None:
    """Lock ``clients.lock`` exclusively. If an owner that shuts down has the lock, wait for its end."""
    began = monotonic()
    while not locks.acquire(clients, locks.EXCLUSIVE):
        refuse_while_converted(state_dir)
        waited = monotonic() - began
        if waited > GRACE_SECONDS and locks.acquire(clients, locks.SHARED):
            users = ", ".join(map(_described, locks.holders(clients))) or "other processes"
            raise StateError(f"these use the database of {state_dir}: {users}. Stop them, then try again")
        if waited > START_TIMEOUT:
            raise StateError(f"the private database has been shutting down for {START_TIMEOUT:.0f} s; try again later")
        wait_readable([], _POLL_SECONDS)


def _lock_owner(state_dir: Path, owner: int) -> None:
    """Lock ``owner.lock``, after ending the owner that the last client left behind."""
    deadline = monotonic() + START_TIMEOUT
    while not locks.acquire(owner, locks.EXCLUSIVE):
        status = locks.read_status(owner)
        if status.get("stays"):
            raise StateError(
                f"bin/marketdata-db (process {status['pid']}) runs the database of {state_dir}. Stop it, then try again"
            )
        if "pid" in status:  # it is missing only for a moment after an owner was started
            signal_and_wait([status["pid"]], signal.SIGTERM, START_TIMEOUT)
        if monotonic() > deadline:
            raise StateError(f"the owner of the database of {state_dir} did not end; database.log may say why")
        wait_readable([], _POLL_SECONDS)


def _described(pid: int) -> str:
    """The process id, with the name of the service or command if the process is one, like ``marketdata api``."""
    arguments: list[str] = []
    with contextlib.suppress(OSError):
        arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    if "marketdata" in arguments:
        arguments = arguments[arguments.index("marketdata") :][:2]
        return f"process {pid} ({' '.join(arguments)})"
    return f"process {pid}"
