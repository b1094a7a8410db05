"""``bin/marketdata-ingestor check`` when the provider's host cannot be reached: one line within seconds."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.marketdata.conftest import Command

POOL = {"symbol": "A-B", "address": "0x" + "ab" * 20, "kind": "uniswap-v2", "decimals": [18, 6]}
MOST_S = 5.0
"""3 s, and the time of the program itself on a busy machine. A second try would end after 6 s."""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Command) -> Callable[[str], str]:
    """Checks an ``rpc.json`` with this URL; returns what is printed on standard error."""

    def run(url: str) -> str:
        monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path))
        file = tmp_path / "secrets" / "rpc.json"
        file.parent.mkdir(mode=0o700)
        file.write_text(json.dumps({"url": url, "chain": "T", "chain_id": 1, "confirmations": 1, "pools": [POOL]}))
        file.chmod(0o600)
        began = time.monotonic()
        done = run_command("ingestor", "check")
        assert (done.returncode, time.monotonic() - began < MOST_S) == (1, True)
        [line] = done.stderr.splitlines()
        assert f"{file}" in line
        return line

    return run


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


def test_an_unknown_host_is_named(check: Callable[[str], str]) -> None:
    assert "no.such.host.invalid:8545: no connection: the name of the host is not found" in check(
        "http://no.such.host.invalid:8545/a-very-secret-key"
    )


def test_a_port_without_a_program_is_named(check: Callable[[str], str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert f"127.0.0.1:{port}: no connection: Connection refused" in check(f"http://127.0.0.1:{port}/a-very-secret-key")


@pytest.mark.full
def test_a_dead_host_is_named_after_three_seconds(check: Callable[[str], str], silent_port: int) -> None:
    line = check(f"http://127.0.0.1:{silent_port}/a-very-secret-key")
    assert f"127.0.0.1:{silent_port}: no connection within 3 s" in line
    assert "a-very-secret-key" not in line


@pytest.mark.full
def test_a_name_server_that_does_not_answer_is_waited_for_no_longer(
    check: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: ended.wait(20) and [])
    assert "no connection within 3 s" in check("https://rpc.example.org")
    ended.set()


def test_a_host_without_tls_is_named(check: Callable[[str], str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            client, _ = plain.accept()
            client.recv(1000)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            client.close()

        answering = threading.Thread(target=answer, name="plain server")
        answering.start()
        assert "no connection: [SSL: " in check(f"https://127.0.0.1:{plain.getsockname()[1]}")
        answering.join()
