"""``bin/marketdata-ingestor check`` when the provider's host cannot be reached: one line within seconds."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from marketdata.errors import ProviderError
from marketdata.ingest import check
from marketdata.source import rpc_file
from tests.marketdata.conftest import Command

POOL = {"symbol": "A-B", "address": "0x" + "ab" * 20, "kind": "uniswap-v2", "decimals": [18, 6]}
KEY = "a-very-secret-key"


def written(folder: Path, url: str) -> Path:
    file = folder / "secrets" / "rpc.json"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(json.dumps({"url": url, "chain": "T", "chain_id": 1, "confirmations": 1, "pools": [POOL]}))
    file.chmod(0o600)
    return file


def fault(folder: Path, url: str) -> str:
    """The error of a check that waits 0.3 s for the host."""
    file = written(folder, url)
    [chain] = rpc_file.load(file, warn=pytest.fail)
    with pytest.raises(ProviderError) as caught:
        list(check.lines(chain, file, 0.3))
    assert KEY not in caught.value.detail
    assert str(file) in caught.value.detail
    return caught.value.detail


def test_the_command_names_the_host_and_the_file_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Command
) -> None:
    monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen
        port = taken.getsockname()[1]
        file = written(tmp_path, f"http://127.0.0.1:{port}/{KEY}")
        done = run_command("ingestor", "check")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"127.0.0.1:{port}: no connection: Connection refused" in line
    assert str(file) in line
    assert KEY not in line


def test_an_unknown_host_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: object, **_kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    said = fault(tmp_path, f"http://no.such.host.invalid:8545/{KEY}")
    assert "no.such.host.invalid:8545: no connection: the name of the host is not found (unknown)" in said


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port of this machine that does not answer a connection: its queue of new connections is full."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_a_dead_host_is_waited_for_no_longer(tmp_path: Path, silent_port: int) -> None:
    assert f"127.0.0.1:{silent_port}: no connection within 0.3 s" in fault(
        tmp_path, f"http://127.0.0.1:{silent_port}/{KEY}"
    )


def test_a_name_server_that_does_not_answer_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: ended.wait(60) and [])
    assert "no connection within 0.3 s" in fault(tmp_path, "https://rpc.example.org")
    ended.set()


def test_a_host_without_tls_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            client, _ = plain.accept()
            with client:
                client.recv(1000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer, name="plain server")
        answering.start()
        file = written(tmp_path, f"https://127.0.0.1:{plain.getsockname()[1]}")
        [chain] = rpc_file.load(file, warn=pytest.fail)
        with pytest.raises(ProviderError, match=r"no connection: \[SSL: "):
            list(check.lines(chain, file, 30))
        answering.join()
