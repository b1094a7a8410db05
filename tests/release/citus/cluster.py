"""A real Citus: one coordinator and three workers on ports of 127.0.0.1, and databases on them.

Each node is a PostgreSQL of its own. Citus works per database: a fresh database is created on each node, gets the
extension there, and the workers' databases are added on the coordinator.

The database and what is in it belong to the role ``marketdata``, which is no superuser. The owner may distribute
tables, move their shards, set ``citus.enable_unsafe_triggers``, and read ``pg_dist_placement`` on every node. The
superuser creates the extension, and adds and drains nodes. Nodes connect to each other as the role of the session:
where roles have passwords, each node needs those of the others in the ``.pgpass`` of its account.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from marketdata.postgres.processes import Account, end_with_parent, find_by_name, has_working_directory
from tests.release.citus.binaries import binaries

OWNER = "marketdata"
"""The role that owns the databases, and that the URLs name."""
SUPERUSER = "postgres"
WORKERS = 3
HOST = "127.0.0.1"
STARTING = 60.0  # seconds

SETTINGS = {
    "shared_preload_libraries": "citus",
    "wal_level": "logical",  # a move without a lock on writes copies by logical replication
    "fsync": "off",  # only a failure of the machine loses data without it
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_worker_processes": "64",  # Citus runs a daemon per database
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "citus.node_conninfo": "sslmode=disable",  # between the nodes; the default requires TLS
    "citus.shard_count": "8",
}


class Node:
    """One PostgreSQL. The kernel chooses its port."""

    def __init__(self, programs: Path, folder: Path, account: Account) -> None:
        self._programs = programs
        self._folder = folder
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        # While it is bound here, the kernel gives the port to nobody else. PostgreSQL, which sets SO_REUSEADDR as well,
        # can listen on it, now and after it was killed.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((HOST, 0))
        self.port: int = self._reserved.getsockname()[1]

    def url(self, database: str, user: str = OWNER) -> str:
        return make_conninfo(host=HOST, port=self.port, user=user, dbname=database)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        return self._folder.with_suffix(".log")

    def start(self) -> None:
        """Return when it accepts connections. It stops when the calling thread ends."""
        # Without this process's settings, like HOME and PGDATA, PostgreSQL is the same on every machine.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._folder, "-p", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/", env=environment,
                preexec_fn=end_with_parent(),  # noqa: PLW1509
                **self._account.options,
            )  # fmt: skip
        deadline = monotonic() + STARTING
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.url("postgres", SUPERUSER)).close()
                return
            assert self._process.poll() is None, self.log.read_text()
            assert monotonic() < deadline, f"it accepts no connections:\n{self.log.read_text()[-4000:]}"
            Event().wait(0.02)

    def kill(self) -> None:
        """End it without a shutdown, as a machine that fails does: the next start recovers from the log of writes."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STARTING)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all of its processes while the block runs: it keeps its connections and answers nothing."""
        pids: list[int] = []
        found = [self.pid]  # the first one, so that it starts no others
        while found:  # the first one may just have started another
            for pid in found:
                os.kill(pid, signal.SIGSTOP)
            pids += found
            running = (pid for pid in find_by_name("postgres") if pid not in pids)
            found = [pid for pid in running if has_working_directory(pid, self._folder)]
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self._reserved.close()

    def execute(self, statement: str, values: Sequence[Any] = (), *, database: str = "postgres") -> list[Any]:
        """The rows of a statement of the superuser, in a transaction of its own."""
        with psycopg.connect(self.url(database, SUPERUSER), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class Database:
    """A database of the cluster. Its ``nodes`` are the coordinator and the workers that belong to it, in this order."""

    cluster: CitusCluster
    name: str
    nodes: list[Node]

    @property
    def url(self) -> str:
        """The connection string of its owner to the coordinator."""
        return self.nodes[0].url(self.name)

    @property
    def node_urls(self) -> list[str]:
        """The connection strings to the coordinator and to each worker."""
        return [node.url(self.name) for node in self.nodes]

    @property
    def workers(self) -> list[Node]:
        return self.nodes[1:]

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """The rows of a statement of the superuser on the coordinator."""
        return self.nodes[0].execute(statement, values, database=self.name)

    def node_of(self, table: str, symbol: str) -> Node:
        """The node that holds the shard of a symbol."""
        _shard, port = self.shard_and_port(table, symbol)
        return next(node for node in self.nodes if node.port == port)

    def move(self, table: str, symbol: str, mode: str = "block_writes") -> Node:
        """Move the shard of a symbol, with those that are colocated, to the next worker, which is returned. With
        ``block_writes`` writes wait meanwhile; with ``force_logical`` only at its end."""
        shard, port = self.shard_and_port(table, symbol)
        ports = [node.port for node in self.workers]
        target = self.workers[(ports.index(port) + 1) % len(ports)]
        self.execute(
            "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, %s::citus.shard_transfer_mode)",
            shard, HOST, port, HOST, target.port, mode,
        )  # fmt: skip
        return target

    def add_node(self) -> Node:
        """Add a worker. It holds no shard until the shards are rebalanced."""
        node = next((node for node in self.cluster.nodes if node not in self.nodes), None) or self.cluster.new_node()
        _create(node, self.name)
        self._join(node)
        self.nodes.append(node)
        return node

    def _join(self, node: Node) -> None:
        self.execute("SELECT citus_add_node(%s, %s)", HOST, node.port)

    def rebalance(self, mode: str = "block_writes") -> None:
        """Move shards until all workers hold the same number."""
        self.execute("SELECT rebalance_table_shards(shard_transfer_mode => %s::citus.shard_transfer_mode)", mode)

    def drain(self, node: Node, mode: str = "block_writes") -> None:
        """Move all shards of a worker to the others. It stays a node without shards."""
        self.execute(
            "SELECT citus_drain_node(%s, %s, shard_transfer_mode => %s::citus.shard_transfer_mode)",
            HOST, node.port, mode,
        )  # fmt: skip

    def remove(self, node: Node) -> None:
        """Remove a worker without shards from the database. Its server keeps running."""
        self.execute("SELECT citus_remove_node(%s, %s)", HOST, node.port)
        self.nodes.remove(node)

    def drop(self) -> None:
        """Drop it on every node, with the connections to it."""
        _on_each(self.nodes, lambda node: node.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)'))

    def shard_and_port(self, table: str, symbol: str) -> tuple[int, int]:
        rows = self.execute(
            "SELECT shardid, nodeport FROM pg_dist_placement JOIN pg_dist_node USING (groupid)"
            " WHERE shardid = get_shard_id_for_distribution_column(%s::regclass, %s::text)",
            table, symbol,
        )  # fmt: skip
        assert len(rows) == 1, f"{table} has {len(rows)} placements of the shard of {symbol}"
        shard, port = rows[0]
        return shard, port


class CitusCluster:
    """``nodes`` are the coordinator, three workers, and those that a test added. ``kill`` and ``start`` of a node may
    be called repeatedly, from a thread that lives as long as the node."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._programs = binaries()
        self._account = Account.of_this_process()
        self._folder = folder
        if os.geteuid() == 0:
            os.chown(folder, self._account.uid, self._account.gid)
        self._template = folder / "template"
        self._initialise(SETTINGS | dict(settings or {}))
        self.nodes: list[Node] = []

    def start(self) -> None:
        for _ in range(1 + WORKERS):
            self.new_node()

    def new_node(self) -> Node:
        """A further PostgreSQL, that no database has as its worker yet."""
        folder = self._folder / f"node{len(self.nodes)}"
        # The nodes share a system identifier. It matters to physical replication alone, which Citus does not use.
        subprocess.run(["cp", "-a", self._template, folder], check=True)
        node = Node(self._programs, folder, self._account)
        self.nodes.append(node)
        node.start()
        node.execute(f"CREATE ROLE {OWNER} LOGIN")
        return node

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def fresh_database(self, name: str | None = None, workers: int = WORKERS) -> Database:
        """An empty database with the extension on the coordinator and the first ``workers`` workers."""
        database = Database(self, name or f"test_{uuid.uuid4().hex}", self.nodes[: 1 + workers])
        _on_each(database.nodes, lambda node: _create(node, database.name))
        database.execute("SELECT citus_set_coordinator_host(%s, %s)", HOST, self.nodes[0].port)
        for node in database.workers:
            database._join(node)
        return database

    def _initialise(self, settings: Mapping[str, str]) -> None:
        done = subprocess.run(
            [self._programs / "initdb", "-D", self._template, "-U", SUPERUSER, "--encoding=UTF8", "--locale=C",
             "--auth=trust", "--no-sync", "--no-instructions"],
            capture_output=True, text=True, check=False, cwd="/", **self._account.options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        with (self._template / "postgresql.conf").open("a") as configuration:
            configuration.writelines(lines)


def _create(node: Node, database: str) -> None:
    node.execute(f'CREATE DATABASE "{database}" OWNER {OWNER}')
    node.execute("CREATE EXTENSION citus", database=database)


def _on_each(nodes: Iterable[Node], work: Callable[[Node], object]) -> None:
    with ThreadPoolExecutor() as threads:
        list(threads.map(work, nodes))


@contextmanager
def citus_cluster(settings: Mapping[str, str] | None = None) -> Iterator[CitusCluster]:
    """A running cluster in a temporary folder. ``settings`` are PostgreSQL's, beside those above."""
    with tempfile.TemporaryDirectory(prefix="citus-", ignore_cleanup_errors=True) as folder:
        cluster = CitusCluster(Path(folder), settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()
