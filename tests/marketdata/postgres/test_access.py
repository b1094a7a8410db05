"""Who may log in to the private cluster, tried by other accounts of this machine."""

from __future__ import annotations

import os
import pwd
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from marketdata.errors import StateError
from marketdata.postgres.access import write_rules
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import Account
from tests.functional.other_accounts import NOBODY, SOMEBODY, logins, needs_root

pytestmark = pytest.mark.functional

OF_AN_EARLIER_RELEASE = "local all all trust\nhost all all 127.0.0.1/32 reject\nlocal replication all trust\n"


def start(cluster: Cluster) -> None:
    cluster.prepare()
    cluster.start()
    while not cluster.is_ready():
        assert cluster.postmaster.poll() is None, cluster.recent_log()
        threading.Event().wait(0.02)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A running cluster that an earlier release made, and whose socket every account can reach."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder))
        cluster.prepare()
        (cluster.data / "pg_hba.conf").write_text(OF_AN_EARLIER_RELEASE)
        (cluster.data / "pg_ident.conf").write_text("")
        try:
            start(cluster)
            cluster.folder.parent.chmod(0o711)
            cluster.folder.chmod(0o711)
            (cluster.folder / ".s.PGSQL.5432").chmod(0o777)
            yield cluster
        finally:
            cluster.stop()


@needs_root
@pytest.mark.parametrize("uid", [NOBODY, SOMEBODY])
def test_another_account_has_no_role(cluster: Cluster, uid: int) -> None:
    answers = logins(uid, cluster.conninfo, ("marketdata", "postgres", "marketdata_reader"))
    assert len(answers) == 3
    for answer in answers:
        assert "FATAL: " in answer or "no password supplied" in answer


@needs_root
@pytest.mark.parametrize("name", ["root", "postgres"])
def test_root_and_postgres_are_the_owner(cluster: Cluster, name: str) -> None:
    owner, other = logins(pwd.getpwnam(name).pw_uid, cluster.conninfo, ("marketdata", "postgres"))
    assert owner == "marketdata"
    assert "no pg_hba.conf entry" in other


def test_the_account_that_it_runs_as_is_the_owner_in_every_database(cluster: Cluster) -> None:
    for database in ("marketdata", "postgres"):
        with psycopg.connect(cluster.conninfo, dbname=database) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("marketdata",)


def test_the_reader_cannot_log_in_without_a_password(cluster: Cluster) -> None:
    with psycopg.connect(cluster.conninfo, autocommit=True) as connection:
        connection.execute("CREATE ROLE marketdata_reader LOGIN")
    for more in ({}, {"password": ""}, {"password": "guessed"}, {"dbname": "postgres", "password": "guessed"}):
        with pytest.raises(psycopg.OperationalError, match=r"no password supplied|authentication failed|no pg_hba"):
            psycopg.connect(cluster.conninfo, user="marketdata_reader", **more)


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
