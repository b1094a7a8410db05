"""The owner of a private cluster and its clients, killed in every way; afterwards nothing runs on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from marketdata.errors import StateError
from marketdata.postgres.client import Client, database
from marketdata.settings import load
from tests.functional.market_process import give_cluster
from tests.marketdata.postgres.client_process import SECONDS, ClientProcess, Watched, kill

pytestmark = pytest.mark.functional


@pytest.fixture
def watched(state_dir: Path) -> Iterator[Watched]:
    give_cluster(state_dir)
    watched = Watched(state_dir)
    yield watched
    running, owner_pid = watched.processes(), watched.status().get("pid")
    if owner_pid in running:  # it would wait for the next client for some seconds
        signal.pidfd_send_signal(running[owner_pid], signal.SIGTERM)
    watched.assert_gone(running)


Launch = Callable[[], ClientProcess]


@pytest.fixture
def launch(state_dir: Path) -> Iterator[Launch]:
    """``launch()`` is a client that was just started."""
    clients: list[ClientProcess] = []

    def start() -> ClientProcess:
        clients.append(ClientProcess(state_dir))
        return clients[-1]

    yield start
    for client in clients:
        client.kill()


@pytest.fixture
def join(watched: Watched, launch: Launch) -> Launch:
    """``join()`` is a client that is connected."""

    def start() -> ClientProcess:
        client = launch()
        assert client.answer() == "ready"
        return client

    return start


def ask(watched: Watched, statement: str = "SELECT 1") -> object:
    with psycopg.connect(watched.cluster.conninfo, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone() if cursor.description else None


def ask_until_answered(watched: Watched, statement: str) -> object:
    """Ask until an answer comes, as a service does while its database restarts."""
    for _ in range(SECONDS * 10):
        try:
            return ask(watched, statement)
        except psycopg.OperationalError:
            threading.Event().wait(0.1)
    pytest.fail("the database does not come back")


def test_clients_share_one_owner(watched: Watched, launch: Launch) -> None:
    """Clients that start at the same moment start one owner, and the last to leave ends it."""
    started = starts(watched)
    clients = [launch() for _ in range(3)]
    assert [client.answer() for client in clients] == ["ready"] * 3
    assert starts(watched) == started + 1
    running = watched.processes()
    assert len(running) >= 2
    own = Client(watched.state_dir, linger=False)
    own.close()
    own.close()
    clients[0].leave()
    assert ask(watched) == (1,)
    assert watched.status()["pid"] in running
    clients[1].kill()
    clients[2].leave()
    watched.assert_gone(running)
    assert "database system is shut down" in watched.cluster.log.read_text()


def starts(watched: Watched) -> int:
    log = watched.cluster.log
    return log.read_text().count("ready to accept connections") if log.exists() else 0


def test_a_killed_owner_takes_its_postgresql_with_it(watched: Watched, join: Launch) -> None:
    client = join()
    running = watched.processes()
    client.kill()
    kill(watched.status()["pid"])
    watched.assert_gone(running)
    assert watched.cluster.log.read_text().rstrip().endswith("database system is shut down")


def test_a_client_that_outlives_the_owner_starts_the_next(watched: Watched, join: Launch) -> None:
    client = join()
    ask(watched, "CREATE TABLE kept AS SELECT 7 AS number")
    running = watched.processes()
    killed = watched.status()
    kill(watched.status()["pid"])
    watched.assert_gone({pid: process for pid, process in running.items() if pid in killed.values()})
    assert ask_until_answered(watched, "SELECT number FROM kept") == (7,)
    assert watched.status()["pid"] != killed["pid"]
    assert client.running()


def test_a_killed_postgresql_is_started_again(watched: Watched, join: Launch) -> None:
    client = join()
    ask(watched, "CREATE TABLE kept AS SELECT 7 AS number")
    before = watched.status()
    kill(before["postgres"])
    assert ask_until_answered(watched, "SELECT number FROM kept") == (7,)
    assert watched.status()["pid"] == before["pid"]
    assert client.running()


def test_a_client_starts_after_all_processes_were_killed(watched: Watched, join: Launch) -> None:
    for round_ in range(2):
        client = join()
        ask(watched, f"CREATE TABLE kept_{round_} AS SELECT 7 AS number")
        running = watched.processes()
        for pid in (*reversed(watched.status().values()), client.pid):
            kill(pid)
        watched.assert_gone(running)
    join()
    count = ask(watched, "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'kept%'")
    assert count == (2,)


def test_an_owner_killed_while_it_makes_the_cluster_leaves_no_half(state_dir: Path, launch: Launch) -> None:
    watched = Watched(state_dir)
    client = launch()
    for _ in range(SECONDS * 100):
        if halves := list(watched.cluster.folder.glob("data.new-*")):
            break
        threading.Event().wait(0.01)
    owner_pid = int(halves[0].name.removeprefix("data.new-"))
    os.kill(owner_pid, 9)
    assert client.answer() == "ready"  # it starts the next owner, which begins anew
    assert ask(watched) == (1,)
    assert [path.name for path in watched.cluster.folder.glob("data*")] == ["data"]
    running = watched.processes()
    client.kill()
    kill(watched.status()["pid"])
    watched.assert_gone(running)


def test_each_client_gets_the_reason_why_the_owner_stopped(watched: Watched, launch: Launch) -> None:
    (watched.cluster.data / "PG_VERSION").write_text("9\n")
    for client in (launch(), launch()):
        answer = client.answer()
        assert answer.startswith("StateError other_major_version")
        assert "MARKET_STATE_DIR" in answer
        client.leave()


def test_a_service_manager_gets_the_database_back(watched: Watched, join: Launch) -> None:
    """After a crash a client starts the next owner before the service manager does."""
    join()
    command = [sys.executable, "-P", "-m", "marketdata", "db"]
    environment = os.environ | {"MARKET_STATE_DIR": str(watched.state_dir), "NOTIFY_SOCKET": f"@{watched.state_dir}"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{watched.state_dir}")
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as foreground:
            assert foreground.stdout.readline()
            assert watched.status()["pid"] == foreground.pid
            assert ask(watched) == (1,)
            second = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert (second.returncode, f"process {foreground.pid} already owns" in second.stderr) == (1, True)
            foreground.kill()
        assert ask_until_answered(watched, "SELECT 1") == (1,)


def test_a_database_of_ones_own_needs_no_owner(state_dir: Path) -> None:
    settings = load({"MARKET_STATE_DIR": str(state_dir), "DATABASE_URL": "postgresql://elsewhere/data"})
    with database(settings) as url:
        assert url == "postgresql://elsewhere/data"
    assert list(state_dir.iterdir()) == []


def test_a_state_directory_that_cannot_be_made_names_the_setting(state_dir: Path) -> None:
    (state_dir / "file").write_text("")
    with pytest.raises(StateError, match="set MARKET_STATE_DIR"):
        Client(state_dir / "file" / "below")
