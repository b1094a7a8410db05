"""The second socket of the private cluster: who reaches it, and what its folder must be like."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.errors import StateError, UsageError
from marketdata.postgres.client import database
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import Account
from marketdata.postgres.sockets import prepare_socket_dir, remove_stale_lock
from marketdata.settings import load
from tests.functional.other_accounts import NOBODY, logins, needs_root
from tests.marketdata.postgres.client_process import SECONDS, ClientProcess, Watched, kill, python_for

pytestmark = pytest.mark.functional

ACCOUNT = Account.of_this_process()
UID = ACCOUNT.uid


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every account can pass, and that the account of PostgreSQL may write."""
    with tempfile.TemporaryDirectory(prefix="sockets-", dir="/tmp", ignore_cleanup_errors=True) as name:
        place = Path(name)
        os.chown(place, UID, ACCOUNT.gid)
        place.chmod(0o711)
        yield place


def login(folder: Path, uid: int, role: str = "marketdata", **more: str) -> str:
    (answer,) = logins(uid, make_conninfo(host=str(folder), dbname="marketdata", connect_timeout=5, **more), [role])
    return answer


@pytest.fixture(scope="module")
def state(place: Path) -> Path:
    """The state directory of a cluster with two sockets."""
    return place / "state"


@pytest.fixture(scope="module")
def second(state: Path, place: Path) -> Iterator[Path]:
    """The folder of the second socket, while the cluster runs."""
    folder = place / "second"
    settings = load({"MARKET_STATE_DIR": str(state), "MARKET_SOCKET_DIR": str(folder)})
    with database(settings, linger=False):
        yield folder
    assert list(folder.iterdir()) == []


def test_the_second_socket_is_for_other_accounts_too(second: Path, state: Path) -> None:
    assert stat.S_IMODE(second.stat().st_mode) == 0o755
    with psycopg.connect(host=str(second), user="marketdata", dbname="marketdata") as connection:
        connection.execute("CREATE ROLE marketdata_reader LOGIN PASSWORD 'secret'")
        connection.commit()
    first = state / "cluster"
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    if os.geteuid() != 0:
        return
    assert login(second, pwd.getpwnam("postgres").pw_uid) == "marketdata"
    assert "Peer authentication failed" in login(second, NOBODY)
    assert "no password supplied" in login(second, NOBODY, "marketdata_reader")
    assert login(second, NOBODY, "marketdata_reader", password="secret") == "marketdata_reader"
    assert "Permission denied" in login(first, NOBODY)
    second.chmod(0o700)
    assert "Permission denied" in login(second, NOBODY)


def test_the_owner_that_takes_over_opens_both(second: Path, state: Path) -> None:
    watched = Watched(state)
    before = watched.status()
    for name in ("postgres", "pid"):
        kill(before[name])
    for _ in range(SECONDS * 10):  # the cluster's client starts another owner
        with suppress(psycopg.OperationalError), psycopg.connect(host=str(second), user="marketdata"):
            break
        threading.Event().wait(0.1)
    assert watched.status()["pid"] != before["pid"]


@needs_root
@pytest.mark.full
def test_the_cluster_of_a_user_admits_that_user_root_and_postgres(state_dir: Path, place: Path) -> None:
    if python_for(NOBODY) is None:
        pytest.skip("the account nobody cannot reach this repository, or no Python that is new enough")
    os.chown(state_dir, NOBODY, NOBODY)
    (folder := place / "of-nobody").mkdir()
    os.chown(folder, NOBODY, NOBODY)
    client = ClientProcess(state_dir, NOBODY, socket_dir=folder)
    try:
        assert client.answer() == "ready"
        running = Watched(state_dir).processes()
        for name in ("nobody", "root", "postgres"):
            assert login(folder, pwd.getpwnam(name).pw_uid) == "marketdata"
        assert "Peer authentication failed" in login(folder, pwd.getpwnam("daemon").pw_uid)
    finally:
        client.leave()
    Watched(state_dir).assert_gone(running)


@pytest.mark.full
def test_two_clusters_do_not_share_a_folder(second: Path, place: Path) -> None:
    second.chmod(0o755)
    (other := place / "other").mkdir()
    cluster = Cluster(other, second)
    cluster.prepare()
    cluster.start()
    try:
        assert cluster.postmaster.wait(SECONDS) == 1
        assert "lock file" in cluster.recent_log()
    finally:
        cluster.stop()
    with psycopg.connect(host=str(second), user="marketdata"):
        pass


# -- its folder ------------------------------------------------------------------------------------------------------


def test_a_folder_in_which_others_can_put_a_socket_is_refused(place: Path) -> None:
    (folder := place / "shared").mkdir()
    os.chown(folder, UID, ACCOUNT.gid)
    for mode in (0o775, 0o1777):
        folder.chmod(mode)
        with pytest.raises(UsageError, match=r"MARKET_SOCKET_DIR='.*/shared': must be a folder of the account"):
            prepare_socket_dir(folder, ACCOUNT)
    folder.chmod(0o750)
    prepare_socket_dir(folder, ACCOUNT)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        with pytest.raises(UsageError, match=pwd.getpwuid(UID).pw_name):
            prepare_socket_dir(folder, ACCOUNT)


def test_what_is_no_folder_or_cannot_be_made_is_refused(place: Path) -> None:
    (file := place / "file").write_text("")
    os.chown(file, UID, ACCOUNT.gid)
    with pytest.raises(UsageError, match="must be a folder"):
        prepare_socket_dir(file, ACCOUNT)
    with pytest.raises(StateError, match=r"cannot be created: .*; set MARKET_SOCKET_DIR"):
        prepare_socket_dir(place / "absent" / "folder", ACCOUNT)
    with pytest.raises(UsageError, match=r"comma.*set MARKET_SOCKET_DIR"):
        prepare_socket_dir(place / "a,b", ACCOUNT)


def test_a_folder_whose_making_was_interrupted_is_made(place: Path) -> None:
    (place / ".half.new").mkdir(mode=0o700)
    prepare_socket_dir(place / "half", ACCOUNT)
    found = (place / "half").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (UID, 0o755)
    assert not (place / ".half.new").exists()


@pytest.mark.parametrize(
    ("content", "is_removed"),
    [("", True), ("12\n", True), ("12\n/data\n0\n", True), ("12\n/another/data\n0\n", False)],
)
def test_the_lock_of_another_postgresql_is_kept(tmp_path: Path, content: str, is_removed: bool) -> None:
    (lock := tmp_path / ".s.PGSQL.5432.lock").write_text(content)
    remove_stale_lock(tmp_path, Path("/data"))
    assert lock.exists() is not is_removed
