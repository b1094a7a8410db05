"""``bin/marketdata-ingestor check`` when the provider's host cannot be reached: one line within seconds."""

from __future__ import annotations

import json
import socket
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


def test_a_host_that_does_not_answer_is_waited_for_no_longer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # its queue of new connections is full
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        file = written(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}/{KEY}")
        [chain] = rpc_file.load(file, warn=pytest.fail)
        with pytest.raises(ProviderError, match=r"no connection within 0\.3 s"):
            list(check.lines(chain, file, 0.3))
