"""``marketdata api`` with nothing configured but a folder: it creates what it needs, serves, and leaves no process
behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from marketdata import secretfile
from tests.functional.market_process import give_cluster
from tests.marketdata.postgres.client_process import SECONDS, Watched

pytestmark = pytest.mark.functional


@contextmanager
def serving(state_dir: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it printed."""
    environment = os.environ | {"MARKET_STATE_DIR": str(state_dir), "MARKET_API_PORT": "0"}
    command = [sys.executable, "-P", "-m", "marketdata", "api"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


def answer(url: str, token: str = "", body: object = None) -> object:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers | {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as found:
        return json.load(found)


TICK = {"symbol": "ETH:WETH-USDC", "id": "1", "ts": 1_700_000_000_000, "price": "1.5", "size": "2", "side": "buy"}


def test_without_configuration_it_serves_and_keeps_its_ticks(state_dir: Path) -> None:
    watched = Watched(state_dir)
    for status in ("created", "duplicate"):
        with serving(state_dir) as (process, address):
            token = secretfile.read_token(state_dir / "secrets" / "alg.json", scope="write").token
            assert answer(f"{address}/v1/ingest/tick", token, TICK) == {"id": "1", "status": status}
            read = secretfile.read_token(state_dir / "secrets" / "read.json", scope="read").token
            assert answer(f"{address}/v1/ticks?symbol=ETH:WETH-USDC", read)
            running = watched.processes()
            process.terminate()
            _out, said = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, said
            assert watched.cluster.processes() == []
            watched.assert_gone(running)
        assert token not in said
        assert read not in said
        assert (state_dir / "v1.env").is_file()


def test_two_at_once_share_the_database_and_a_killed_one_leaves_nothing_running(state_dir: Path) -> None:
    give_cluster(state_dir)
    watched = Watched(state_dir)
    with serving(state_dir) as (first, _), serving(state_dir) as (second, address):
        running = watched.processes()
        first.terminate()
        assert first.wait(timeout=SECONDS) == 0
        assert answer(f"{address}/ready")
        second.kill()
        watched.assert_gone(running)
