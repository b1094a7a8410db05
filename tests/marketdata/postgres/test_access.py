"""Who may log in to the private cluster, tried by other accounts of this machine."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata.errors import StateError
from marketdata.postgres.access import write_rules
from marketdata.postgres.client import database
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import Account
from marketdata.settings import load
from tests.capabilities import need
from tests.functional.market_process import give_cluster
from tests.functional.other_accounts import NOBODY, SOMEBODY, logins, needs_root
from tests.marketdata.postgres.client_process import SECONDS, ClientProcess, Watched, python_for

pytestmark = pytest.mark.functional

OF_AN_EARLIER_RELEASE = "local all all trust\nhost all all 127.0.0.1/32 reject\nlocal replication all trust\n"
OWNER, READER, PASSWORD = "marketdata", "marketdata_reader", "secret"
ACCOUNT = Account.of_this_process()


class Market(NamedTuple):
    """A running cluster that an earlier release made. Every account can reach its second socket."""

    state_dir: Path
    second: Path

    @property
    def first(self) -> Path:
        return self.state_dir / "cluster"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every account can pass, and that the account of PostgreSQL may write."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as name:
        os.chown(name, ACCOUNT.uid, ACCOUNT.gid)
        os.chmod(name, 0o711)
        yield Path(name)


@pytest.fixture(scope="module")
def market(place: Path) -> Iterator[Market]:
    market = Market(place / "state", place / "second")
    market.state_dir.mkdir()
    give_cluster(market.state_dir)
    made = Cluster(market.state_dir)
    (made.data / "pg_hba.conf").write_text(OF_AN_EARLIER_RELEASE)
    (made.data / "pg_ident.conf").write_text("")
    settings = load({"MARKET_STATE_DIR": str(market.state_dir), "MARKET_SOCKET_DIR": str(market.second)})
    with database(settings, linger=False) as conninfo:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'")
        yield market
    assert list(market.second.iterdir()) == []


def answers(uid: int, folder: Path, *roles: str, **more: str) -> list[str]:
    """For each role, the result of a login at the socket in this folder: the role or the error."""
    found = logins(uid, make_conninfo(host=str(folder), dbname="marketdata", connect_timeout=5, **more), roles)
    assert len(found) == len(roles)
    return found


def uid_of(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


@needs_root
def test_another_account_is_not_the_owner(market: Market) -> None:
    for uid in (NOBODY, SOMEBODY):
        for answer in answers(uid, market.second, OWNER, "postgres"):
            assert "FATAL: " in answer


@needs_root
def test_another_account_is_the_reader_with_the_password(market: Market) -> None:
    assert answers(SOMEBODY, market.second, READER, password=PASSWORD) == [READER]
    assert "password authentication failed" in answers(SOMEBODY, market.second, READER, password="guessed")[0]
    assert "no password supplied" in answers(SOMEBODY, market.second, READER)[0]
    assert "Permission denied" in answers(SOMEBODY, market.first, READER, password=PASSWORD)[0]


@needs_root
def test_root_and_postgres_are_the_owner(market: Market) -> None:
    for name in ("root", "postgres"):
        owner, other = answers(uid_of(name), market.first, OWNER, "postgres")
        assert owner == OWNER
        assert "no pg_hba.conf entry" in other


@needs_root
def test_the_cluster_of_a_user_admits_that_user_root_and_postgres(state_dir: Path, place: Path) -> None:
    need(python_for(NOBODY), "a Python and a copy of the repository that the account nobody can read")
    os.chown(state_dir, NOBODY, NOBODY)
    (folder := place / "of-nobody").mkdir()
    os.chown(folder, NOBODY, NOBODY)
    client = ClientProcess(state_dir, NOBODY, socket_dir=folder)
    try:
        assert client.answer() == "ready"
        running = Watched(state_dir).processes()
        for name in ("nobody", "root", "postgres"):
            assert answers(uid_of(name), folder, OWNER) == [OWNER]
        assert "Peer authentication failed" in answers(uid_of("daemon"), folder, OWNER)[0]
    finally:
        client.leave()
    Watched(state_dir).assert_gone(running)


def test_two_clusters_do_not_share_a_folder(market: Market, place: Path) -> None:
    (other := place / "other").mkdir()
    give_cluster(other)
    cluster = Cluster(other, market.second)
    cluster.prepare()
    cluster.start()
    try:
        assert cluster.postmaster.wait(SECONDS) == 1
        assert "lock file" in cluster.recent_log()
    finally:
        cluster.stop()
    with psycopg.connect(host=str(market.second), user=OWNER):
        pass


def test_the_rules_are_complete_or_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pg_hba.conf").write_text(OF_AN_EARLIER_RELEASE)
    (tmp_path / "pg_hba.conf.new").write_text("half of a li")

    def killed(_from: Path, _to: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_rules(tmp_path, Account.of_this_process())
    assert (tmp_path / "pg_hba.conf").read_text() == OF_AN_EARLIER_RELEASE
    for _ in range(2):
        write_rules(tmp_path, Account.of_this_process())
        assert sorted(path.name for path in tmp_path.iterdir()) == ["pg_hba.conf", "pg_ident.conf"]
        assert "trust" not in (tmp_path / "pg_hba.conf").read_text()


def test_a_link_in_the_data_directory_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (other := tmp_path / "other").write_text("kept")
    (data := tmp_path / "data").mkdir()
    for name in ("pg_hba.conf", "pg_hba.conf.new"):
        (data / name).symlink_to(other)
    write_rules(data, Account.of_this_process())
    assert other.read_text() == "kept"
    assert not (data / "pg_hba.conf").is_symlink()


def test_an_account_without_a_name_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"account 65533 has no name.*/etc/passwd.*DATABASE_URL"):
        write_rules(tmp_path, Account(SOMEBODY, os.getegid(), []))
