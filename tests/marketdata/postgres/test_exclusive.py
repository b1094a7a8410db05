"""A command that has the private cluster to itself, and the exchange of two folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from marketdata.backup.exchange import check_exchange, exchange
from marketdata.errors import StateError
from marketdata.postgres import owner
from marketdata.postgres.client import Client
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.exclusive import exclusive, running
from tests.functional.market_process import give_cluster
from tests.marketdata.postgres.client_process import SECONDS, ClientProcess, Watched

pytestmark = pytest.mark.functional

_COMMAND = """
import sys
from pathlib import Path
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.exclusive import exclusive, running
state_dir = Path(sys.argv[1])
with exclusive(state_dir, "bin/x"), running(Cluster(state_dir)):
    print("runs", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def state_dir() -> Iterator[Path]:
    """The tests of this module share a cluster, and leave it stopped."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        give_cluster(Path(folder))
        yield Path(folder)


def test_two_folders_are_exchanged(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / name).mkdir(parents=True)
    exchange(tmp_path / "one", tmp_path / "other")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["other"]
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["one"]
    with pytest.raises(StateError, match=r"cannot exchange .*/one and .*/none in one step: No such file"):
        exchange(tmp_path / "one", tmp_path / "none")
    check_exchange(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


def test_it_waits_for_no_service_and_is_waited_for_by_none(state_dir: Path) -> None:
    client = ClientProcess(state_dir)
    assert client.answer() == "ready"
    watched = Watched(state_dir)
    with pytest.raises(StateError, match=rf"these use the database of {state_dir}: process {client.pid}"):
        exclusive(state_dir, "bin/x").__enter__()
    assert client.running()
    client.leave()
    left = watched.processes()  # the owner stays for a moment, for the next client
    with exclusive(state_dir, "bin/x"):
        watched.assert_gone(left)
        for refused in (lambda: Client(state_dir), lambda: owner.serve(state_dir, on_ready=lambda: None)):
            with pytest.raises(StateError, match=rf"bin/x \(process {os.getpid()}\) has the database .* to itself"):
                refused()
    with Client(state_dir, linger=False):
        assert watched.status()["postgres"]
    assert watched.cluster.processes() == []


def test_a_killed_command_leaves_the_database_to_the_next_client(state_dir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _COMMAND, state_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout.readline() == "runs\n"
        command.kill()
        command.wait(SECONDS)
        with Client(state_dir, linger=False):
            pass
    assert Cluster(state_dir).processes() == []


@pytest.fixture
def foreground(state_dir: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "marketdata", "db"],
        env=os.environ | {"MARKET_STATE_DIR": str(state_dir)}, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline().startswith("psql ")
        yield process
        process.terminate()


def test_a_database_in_the_foreground_is_left_alone(state_dir: Path, foreground: subprocess.Popen[str]) -> None:
    with pytest.raises(StateError, match=rf"bin/marketdata-db \(process {foreground.pid}\) runs the database"):
        exclusive(state_dir, "bin/x").__enter__()
    assert foreground.poll() is None


def test_a_postgresql_that_does_not_start_says_why(state_dir: Path) -> None:
    cluster = Cluster(state_dir)
    with pytest.raises(StateError, match=r"ended with status 1.*\n.*unrecognized configuration parameter"):
        running(cluster, "no_such_setting=1").__enter__()
    assert cluster.processes() == []
