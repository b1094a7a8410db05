"""The mode of a directory is changed only if nobody else can be using the directory."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cardapp import private_directories, unix_socket
from cardapp.errors import StateError
from cardapp.session_host.directory import State
from cardapp.state import evidence
from cardapp.state.database import Database
from tests.functional.other_accounts import NOBODY, needs_root


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def opened(path: Path, rights: int = 0o755) -> Path:
    path.mkdir()
    path.chmod(rights)
    return path


def test_a_new_or_empty_directory_becomes_private_and_a_private_one_is_accepted(tmp_path: Path) -> None:
    new = tmp_path / "a" / "b"
    assert [private_directories.make_directory(new, "CARD_X") for _ in range(2)] == [True, False]
    empty = opened(tmp_path / "empty")
    assert private_directories.make_directory(empty, "CARD_X") is False
    assert (mode(new), mode(empty)) == (0o700, 0o700)
    (empty / "used").touch()
    assert private_directories.make_directory(empty, "CARD_X") is False


def test_an_open_directory_with_files_is_refused_and_unchanged(tmp_path: Path) -> None:
    place = opened(tmp_path / "a")
    (place / "used").touch()
    for rights in (0o755, 0o710, 0o701, 0o1777):
        place.chmod(rights)
        with pytest.raises(StateError, match=r"chmod 700 on it.*set CARD_X") as refused:
            private_directories.make_directory(place, "CARD_X")
        assert (refused.value.code, mode(place)) == ("state_directory_open", rights)


def sweep(place: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as conn:  # Python 3.13 warns if a connection is not closed
        evidence.sweep(place, conn)


MAKERS: dict[str, Callable[[Path], object]] = {
    "the service's": lambda place: private_directories.make_directory(place, "CARD_STATE_DIR"),
    "the sessions'": lambda place: State.of({"CARD_STATE_DIR": str(place)}).create(),
    "the pictures'": sweep,
    "the socket's": lambda place: unix_socket.bind(place / "s", "CARD_X").close(),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=list(MAKERS))
def test_each_caller_refuses_an_unsafe_directory(
    tmp_path: Path, maker: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = opened(tmp_path / "used")
    (used / "mine").touch()
    with pytest.raises(StateError, match=r"chmod 700 on it.*set CARD_"):
        maker(used)
    assert (mode(used), [each.name for each in used.iterdir()]) == (0o755, ["mine"])

    link = tmp_path / "link"
    link.symlink_to(opened(tmp_path / "goal", 0o700))
    with pytest.raises(StateError, match="set CARD_") as refused:
        maker(link)
    assert refused.value.code == "state_symlink"

    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"is not a directory.*set CARD_"):
        maker(tmp_path / "file")
    with pytest.raises(StateError, match="Not a directory; set CARD_"):
        maker(tmp_path / "file" / "below")

    monkeypatch.setattr(os, "geteuid", lambda: used.stat().st_uid + 1)
    with pytest.raises(StateError, match="another user: set CARD_") as refused:
        maker(tmp_path / "goal")
    assert refused.value.code == "state_foreign"
    assert list((tmp_path / "goal").iterdir()) == []


# -- a private file's directory ------------------------------------------------------------------------------------


def test_a_database_is_accepted_only_where_nobody_else_can_replace_it(tmp_path: Path) -> None:
    for rights in (0o777, 0o770, 0o702):
        place = opened(tmp_path / f"{rights:o}", rights)
        with pytest.raises(StateError, match=r"can replace.*CARD_STATE_DATABASE") as refused:
            Database.open(place / "card-state")
        assert refused.value.code == "state_directory_open"
        assert (mode(place), list(place.iterdir())) == (rights, [])
    for rights in (0o755, 0o700, 0o1777):
        place = opened(tmp_path / f"{rights:o}", rights)
        Database.open(place / "card-state").close()
        assert (mode(place), mode(place / "card-state")) == (rights, 0o600)


@needs_root
def test_another_users_database_is_refused_unopened(tmp_path: Path) -> None:
    place = opened(tmp_path / "a", 0o1777)
    (place / "card-state").touch()
    os.chown(place / "card-state", NOBODY, NOBODY)
    with pytest.raises(StateError, match="another user") as refused:
        Database.open(place / "card-state")
    assert refused.value.code == "state_foreign"
    assert (place / "card-state").stat().st_size == 0
    os.chown(place, NOBODY, NOBODY)
    with pytest.raises(StateError, match="can replace") as refused:
        Database.open(place / "card-state")
    assert refused.value.code == "state_directory_open"
