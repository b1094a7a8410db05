"""The facts that the systemd unit of the private PostgreSQL relies on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from marketdata.postgres.cluster import conninfo
from tests.functional.market_process import ROOT, SECONDS

pytestmark = pytest.mark.functional


@pytest.mark.parametrize("address", ["{state}/notify", "@{state}"])
def test_the_database_tells_systemd_that_it_is_ready(state_dir: Path, address: str) -> None:
    address = address.format(state=state_dir)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.settimeout(SECONDS)
        systemd.bind(address.replace("@", "\0", 1))
        database = subprocess.Popen(
            [sys.executable, "-P", "-m", "marketdata", "db"], cwd=ROOT, stdout=subprocess.DEVNULL,
            env=os.environ | {"MARKET_STATE_DIR": str(state_dir), "NOTIFY_SOCKET": address},
        )  # fmt: skip
        try:
            assert systemd.recv(100) == b"READY=1"
            with psycopg.connect(conninfo(state_dir)) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
        finally:
            database.send_signal(signal.SIGTERM)
            assert database.wait(SECONDS) == 0
