"""The data API as a process of its own on its private cluster, to be killed and started again, and its clients."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from marketdata.postgres import client
from tests.functional.killed import KILLED

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 60.0
WITH_TEMPLATE = {"MARKET_LOG"}
"""A new cluster is copied from the template only with these settings. All others may change how a cluster is made."""


@cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """A state directory whose cluster was made by the product and shut down. It stays until this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True)
    client.Client(Path(folder.name), linger=False).close()
    with Path(folder.name, "cluster", "data", "postgresql.auto.conf").open("a") as configuration:
        # Every test is quicker. Only a failure of the machine loses data without fsync; a killed process loses none.
        configuration.write("fsync = off\n")
    return folder


def give_cluster(state_dir: Path) -> None:
    """Give a state directory without a cluster a new one. Copying a cluster is quicker than making one."""
    if not (state_dir / "cluster").exists():
        subprocess.run(["cp", "-a", f"{_template().name}/cluster", state_dir], check=True)


def command(
    state_dir: Path, *arguments: str | Path, killed_at: Sequence[str] = (), inside: Sequence[str] = (), **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of the product. ``killed_at`` are the first four arguments of :data:`KILLED`, and ``inside`` is a
    command that executes the arguments after it."""
    program = ["-c", KILLED, *killed_at] if killed_at else ["-m", "marketdata"]
    return subprocess.run(
        [*inside, sys.executable, "-P", *program, *map(str, arguments)],
        cwd=ROOT, env=os.environ | {"MARKET_STATE_DIR": str(state_dir)} | settings,
        capture_output=True, text=True, timeout=2 * SECONDS, check=False,
    )  # fmt: skip


class ApiProcess:
    """``bin/marketdata-api`` without its launcher; ``port`` is 0 while it is down."""

    def __init__(self, state_dir: Path, *, inside: Sequence[str] = (), durable: bool = False, **settings: str) -> None:
        """``inside`` is a command that executes the arguments after it, like ``env``. With ``durable`` PostgreSQL
        flushes its log to the disk, as it does for users; a bench of writes needs that."""
        self.state_dir = state_dir
        self._inside = inside
        self._environment = os.environ | {"MARKET_STATE_DIR": str(state_dir)} | settings
        self._takes_template = not inside and not durable and settings.keys() <= WITH_TEMPLATE
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.log = state_dir / "api-test.log"

    def start(self, port: int = 0) -> None:
        """Start the API, on the ``port`` of an earlier start or, with 0, on any free one."""
        if self._takes_template:
            give_cluster(self.state_dir)
        state = self.log.open("a")
        self._process = subprocess.Popen(
            [*self._inside, sys.executable, "-P", "-m", "marketdata", "api"],
            cwd=ROOT, env=self._environment | {"MARKET_API_PORT": str(port)},
            stdout=subprocess.PIPE, stderr=state, text=True,
        )  # fmt: skip
        state.close()
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], SECONDS)[0], f"no address; {self.log.read_text()}"
        line = self._process.stdout.readline()
        assert line.startswith("http://"), f"{line!r}; {self.log.read_text()}"
        self.port = int(line.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL."""
        self._over(kill=True)

    def kill_database(self) -> None:
        """SIGKILL for the private PostgreSQL, which its owner then starts again."""
        owner = json.loads((self.state_dir / "owner.lock").read_text())
        os.kill(owner["postgres"], signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        return self._over(kill=False)

    def _over(self, *, kill: bool) -> int:
        self.port = 0
        process, self._process = self._process, None
        if process is None:
            return 0
        if kill:
            process.kill()
        else:
            process.terminate()
        code = process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def token(self, name: str) -> str:
        """The token of ``read.json`` or ``alg.json``."""
        text: str = json.loads((self.state_dir / "secrets" / f"{name}.json").read_text())["token"]
        return text


class Client:
    """One kept-alive connection with a token."""

    def __init__(self, port: int, token: str, timeout: float = SECONDS) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of the answer; OSError or HTTPException when there is none."""
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, self._headers)
        response = self._connection.getresponse()
        content = response.read()
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, json.loads(content) if is_json and content else content

    @property
    def local_port(self) -> int:
        """The port of this end of the connection, which must be open."""
        port: int = self._connection.sock.getsockname()[1]
        return port

    def close(self) -> None:
        self._connection.close()
