"""The folder of the second socket of the private cluster."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from marketdata.errors import StateError, UsageError
from marketdata.postgres.access import prepare_socket_dir, remove_stale_lock
from marketdata.postgres.processes import Account
from tests.functional.other_accounts import NOBODY

ACCOUNT = Account.of_this_process()
UID = ACCOUNT.uid


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that the account of PostgreSQL can reach."""
    with tempfile.TemporaryDirectory(prefix="sockets-", dir="/tmp", ignore_cleanup_errors=True) as name:
        place = Path(name)
        place.chmod(0o711)
        yield place


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


def test_a_file_or_an_impossible_folder_is_refused(place: Path) -> None:
    (file := place / "file").write_text("")
    os.chown(file, UID, ACCOUNT.gid)
    with pytest.raises(UsageError, match="must be a folder"):
        prepare_socket_dir(file, ACCOUNT)
    with pytest.raises(StateError, match=r"cannot be created: .*; set MARKET_SOCKET_DIR"):
        prepare_socket_dir(place / "absent" / "folder", ACCOUNT)
    with pytest.raises(UsageError, match=r"comma.*set MARKET_SOCKET_DIR"):
        prepare_socket_dir(place / "a,b", ACCOUNT)


def test_a_folder_is_not_made_through_the_link_of_another_account(place: Path) -> None:
    (target := place / "target").mkdir(mode=0o700)
    (place / ".linked.new").symlink_to(target)
    with pytest.raises(StateError, match=r"linked cannot be created: .*; set MARKET_SOCKET_DIR"):
        prepare_socket_dir(place / "linked", ACCOUNT)
    found = target.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)
    assert not (place / "linked").exists()


def test_a_folder_whose_making_was_interrupted_is_made(place: Path) -> None:
    (place / ".half.new").mkdir(mode=0o700)
    prepare_socket_dir(place / "half", ACCOUNT)
    found = (place / "half").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (UID, 0o755)
    assert not (place / ".half.new").exists()


def test_the_lock_of_another_postgresql_is_kept(tmp_path: Path) -> None:
    for content, is_removed in (
        ("", True),
        ("12\n", True),
        ("12\n/data\n0\n", True),
        ("12\n/another/data\n0\n", False),
    ):
        (lock := tmp_path / ".s.PGSQL.5432.lock").write_text(content)
        remove_stale_lock(tmp_path, Path("/data"))
        assert lock.exists() is not is_removed
