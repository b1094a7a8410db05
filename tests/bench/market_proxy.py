"""The frontend as a proxy, beside nginx's ``proxy_pass`` to the same API and the API itself, interleaved in one run.

python -m tests.bench.market_proxy [TICKS]      (default 100 000)
"""

from __future__ import annotations

import base64
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from marketdata import secretfile
from tests.bench.figures import Figure, spread, table
from tests.bench.market_http import CHART, ROUNDS, _fill, _load, _median
from tests.functional.market_process import ROOT, SECONDS, ApiProcess
from tests.marketdata.frontend.nginx import MAIN, PROGRAM, free_port, started

CLIENTS = (1, 16)

SITE = """
upstream api {{ server 127.0.0.1:{api}; keepalive 32; keepalive_requests 100000000; }}
server {{
    listen 127.0.0.1:{port};
    keepalive_requests 100000000;
    location /api/ {{
        proxy_pass http://api/;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Authorization "Bearer {token}";
    }}
}}
"""


def measure(ticks: int) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as name,
        ExitStack() as ends,
    ):
        state = Path(name)
        api = ApiProcess(state)
        api.start()
        ends.callback(api.stop)
        _fill(state, ticks, 1)
        token = api.token("read")
        port, login = ends.enter_context(_frontend(state, api.port))
        paths = {
            "the API itself": (api.port, CHART, token),
            "nginx": (ends.enter_context(_nginx(state, api.port, token)), f"/api{CHART}", ""),
            "ours, logged in": (port, f"/api{CHART}", login),
        }
        return [figure for clients in CLIENTS for figure in _compared(paths, clients)]


def _compared(paths: dict[str, tuple[int, str, str]], clients: int) -> Iterator[Figure]:
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in paths}
    for _ in range(ROUNDS):
        for name, (port, path, authorization) in paths.items():
            runs[name].append(_load(port, path, clients, authorization, seconds=4))
    for name, found in runs.items():
        run = _median(found)
        yield Figure(
            f"500 cached candles, {clients} connections: {name}",
            f"{run['rate']:,.0f} req/s, {spread(run['latencies'])}",
        )


@contextmanager
def _frontend(state: Path, api: int) -> Iterator[tuple[int, str]]:
    """The process, its port, and the value of Authorization of its first user."""
    environment = os.environ | {
        "MARKET_STATE_DIR": str(state),
        "MARKET_FRONTEND_PORT": "0",
        "API_UPSTREAM": f"http://127.0.0.1:{api}",
    }
    command = [sys.executable, "-P", "-m", "marketdata", "frontend"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], SECONDS)[0]
            port = int(process.stdout.readline().rpartition(":")[2])
            process.stdout.readline()  # printed after the file is written
            user = secretfile.read(state / "secrets" / secretfile.FIRST_USER)
            login = base64.b64encode(f"{user['user']}:{user['password']}".encode()).decode()
            yield port, f"Basic {login}"
        finally:
            process.terminate()


@contextmanager
def _nginx(state: Path, api: int, token: str) -> Iterator[int]:
    if PROGRAM is None:
        raise SystemExit("there is no nginx here (Debian package nginx)")
    folder, port = state / "nginx", free_port()
    folder.mkdir()
    (folder / "site.conf").write_text(SITE.format(api=api, port=port, token=token))
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder).replace("access_log", "access_log off; #"))
    with started(folder):
        yield port


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)))
