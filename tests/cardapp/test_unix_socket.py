"""Binds Unix sockets, distinguishes a socket file from a later one, and names the peer's process."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from cardapp import unix_socket
from cardapp.errors import StateError, UsageError
from cardapp.procfs import start_time
from cardapp.settings import load


@pytest.fixture
def path(state_dir: Path) -> Path:
    return state_dir / "s"


def test_the_socket_is_private_whatever_the_umask(path: Path) -> None:
    previous = os.umask(0)
    try:
        unix_socket.bind(path, "CARD_X").close()
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600


def test_a_socket_with_a_listener_is_refused(path: Path) -> None:
    with unix_socket.bind(path, "CARD_X") as bound:
        bound.listen()
        with pytest.raises(StateError, match=r"another process listens.*CARD_X") as refused:
            unix_socket.bind(path, "CARD_X")
        assert refused.value.code == "socket_in_use"


def test_another_kind_of_file_is_left_alone(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(StateError, match=r"is not a socket.*CARD_X"):
        unix_socket.bind(path, "CARD_X")
    assert path.read_text() == "mine"


def test_the_longest_allowed_path_is_accepted_by_the_kernel(state_dir: Path) -> None:
    longest = state_dir / ("s" * (unix_socket.MAX_PATH - len(str(state_dir)) - 1))
    unix_socket.bind(longest, "CARD_X").close()
    assert longest.is_socket()
    load({"CARD_API_SOCKET": str(longest)})
    with pytest.raises(OSError, match="too long"), socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{longest}s")
    for refuse in (
        lambda: unix_socket.bind(Path(f"{longest}s"), "CARD_API_SOCKET"),
        lambda: load({"CARD_API_SOCKET": f"{longest}s"}),
    ):
        with pytest.raises(UsageError, match=r"107.*CARD_API_SOCKET"):
            refuse()


def test_only_the_socket_that_was_bound_is_removed(path: Path) -> None:
    unix_socket.bind(path, "CARD_X").close()
    first = unix_socket.identity(path)
    unix_socket.bind(path, "CARD_X").close()
    unix_socket.remove(path, first)
    assert path.is_socket()
    unix_socket.remove(path, unix_socket.identity(path))
    assert not path.exists()
    unix_socket.remove(path, first)
    assert unix_socket.identity(path) is None


def test_the_peer_is_the_process_that_listens(path: Path) -> None:
    with unix_socket.bind(path, "CARD_X") as bound, socket.socket(socket.AF_UNIX) as client:
        bound.listen()
        client.connect(str(path))
        assert unix_socket.peer(client) == (os.getpid(), os.geteuid())


def test_a_command_with_spaces_and_parentheses_does_not_shift_the_fields(tmp_path: Path) -> None:
    strange = tmp_path / "a) Z 1 (b"
    strange.symlink_to("/bin/sleep")
    with subprocess.Popen([strange, "1000"]) as process:
        found = start_time(process.pid)
        process.kill()
    own = start_time(os.getpid())
    assert found is not None
    assert own is not None
    assert found >= own


def test_a_link_to_a_socket_is_not_followed(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    with unix_socket.bind(path, "CARD_X") as bound, socket.socket(socket.AF_UNIX) as client:
        bound.listen()
        with unix_socket.pinned(link) as pinned, pytest.raises(ConnectionRefusedError):
            client.connect(pinned)


def test_a_pinned_path_does_not_lead_to_a_later_socket(path: Path) -> None:
    with unix_socket.bind(path, "CARD_X") as bound, unix_socket.pinned(path) as pinned:
        bound.close()
        path.unlink()
        with unix_socket.bind(path, "CARD_X") as other, socket.socket(socket.AF_UNIX) as client:
            other.listen()
            with pytest.raises(ConnectionRefusedError):
                client.connect(pinned)
