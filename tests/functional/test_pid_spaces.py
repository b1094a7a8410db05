"""The listener recognises clients in another pid namespace, such as a container's. The namespaces are real."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp import procfs
from cardapp import settings as settings_module
from cardapp.errors import SessionUnavailable
from cardapp.web.listener import Listener
from cardapp.web.peer import only_chosen_container, pid_space_of
from tests.capabilities import need
from tests.functional.other_accounts import needs_root
from tests.functional.serving import Api

pytestmark = pytest.mark.functional

REQUEST = "GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"
CLIENT = f"""
import os, socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    print(os.readlink("/proc/self/ns/pid"), flush=True)
    sys.stdin.readline()
    client.sendall(b"{REQUEST}")
    while data := client.recv(65536):
        sys.stdout.write(data.decode())
"""


def app(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "4")])
    return [b"here"]


class Chosen:
    """Stands for the pid namespace of the chosen session."""

    def __init__(self) -> None:
        self.space: str | None = None
        self.asked = 0

    def __call__(self) -> str | None:
        self.asked += 1
        if self.space is None:
            raise SessionUnavailable("no session is chosen: start one")
        return self.space


@pytest.fixture
def chosen() -> Chosen:
    return Chosen()


@pytest.fixture
def listener(state_dir: Path, chosen: Chosen) -> Iterator[Listener]:
    settings = settings_module.load({"CARD_STATE_DIR": str(state_dir), "CARD_API_PORT": "0"})
    found = Listener(settings, only_chosen_container(app, chosen))
    found.start()
    yield found
    found.stop()


class Client:
    """A client in a new pid namespace, which has connected already; ``space`` is that namespace."""

    def __init__(self, path: Path) -> None:
        need(shutil.which("unshare"), "unshare (Debian package util-linux)")
        unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
        if os.geteuid() != 0:
            unshare.append("--map-current-user")
        self._process = subprocess.Popen(
            [*unshare, sys.executable, "-c", CLIENT, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.space = self._process.stdout.readline().strip()
        if not self.space:
            self._process.communicate()
        need(self.space, "pid namespaces for this user")

    def answer(self) -> str:
        said, _ = self._process.communicate("\n", timeout=30)
        return said


def test_a_client_in_another_namespace_is_served_only_if_it_is_that_of_the_chosen_session(
    listener: Listener, state_dir: Path, chosen: Chosen
) -> None:
    client = Client(state_dir / "card-api.sock")
    said = client.answer()
    assert said.startswith("HTTP/1.1 503 ")
    assert "no session is chosen" in said
    client, chosen.space = Client(state_dir / "card-api.sock"), procfs.pid_space(os.getpid())
    said = client.answer()
    assert said.startswith("HTTP/1.1 403 ")
    assert "foreign_session" in said
    client = Client(state_dir / "card-api.sock")
    chosen.space = client.space
    assert client.answer().startswith("HTTP/1.1 200 ")


def test_a_client_that_ended_before_it_was_looked_at_is_foreign(state_dir: Path, chosen: Chosen) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(state_dir / "s"))
        listening.listen()
        connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        subprocess.run([sys.executable, "-c", connect, str(state_dir / "s")], check=True)
        accepted, _ = listening.accept()
        with accepted:
            assert pid_space_of(accepted) not in (None, procfs.pid_space(os.getpid()))


def test_other_clients_are_served_without_a_look_at_the_session(
    listener: Listener, state_dir: Path, chosen: Chosen
) -> None:
    for api in (Api.unix(state_dir / "card-api.sock"), Api.tcp(listener.port)):
        assert api.request("GET", "/").status == 200
    assert chosen.asked == 0


@needs_root
def test_a_client_of_root_is_served_by_a_service_of_another_account(state_dir: Path) -> None:
    """The namespace is not looked up, because /proc does not show it to another account."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(state_dir / "s"))
        listening.listen()
        client.connect(str(state_dir / "s"))
        accepted, _ = listening.accept()
        with accepted:
            os.seteuid(65534)
            try:
                assert pid_space_of(accepted) is None
            finally:
                os.seteuid(0)
