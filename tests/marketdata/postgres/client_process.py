"""Clients of a private cluster as processes that tests may kill, and checks of the processes that remain."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from marketdata.postgres.cluster import Cluster
from marketdata.postgres.processes import signal_and_wait

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
_CLIENT = """
import sys
from pathlib import Path
from marketdata.errors import MarketError
from marketdata.postgres.client import Client
try:
    with Client(Path(sys.argv[1]), socket_dir=Path(sys.argv[2]) if sys.argv[2:] else None) as client:
        print("ready", flush=True)
        sys.stdin.read()
except MarketError as error:
    print(type(error).__name__, error.code, error.detail, flush=True)
"""
SECONDS = 60  # more than anything here takes on a slow machine


def python_for(user: int | None) -> str | None:
    """This Python, or the machine's if ``user`` cannot reach this one. A client needs the standard library only."""
    if user is None:
        return sys.executable
    check = "import sys, marketdata; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            environment = {"PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                [python, "-c", check], user=user, env=environment, stderr=subprocess.DEVNULL, check=False
            )
            if done.returncode == 0:
                return python
    return None


class ClientProcess:
    """A process that holds a client until it is asked to end or killed."""

    def __init__(
        self, state_dir: Path, user: int | None = None, *, socket_dir: Path | None = None, **environment: str
    ) -> None:
        self._process = subprocess.Popen(
            [
                python_for(user) or sys.executable, "-P", "-c", _CLIENT, str(state_dir),
                *([] if socket_dir is None else [str(socket_dir)]),
            ],
            cwd="/", user=user, group=user, extra_groups=None if user is None else [],
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"} | environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def answer(self) -> str:
        """``ready``, or the error's class, code and detail."""
        assert select.select([self._process.stdout], [], [], SECONDS)[0], "the client says nothing"
        return self._process.stdout.readline().strip()

    def leave(self) -> None:
        self._process.communicate(timeout=SECONDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=SECONDS)

    def running(self) -> bool:
        return self._process.poll() is None


class Watched:
    """A state directory, and the processes that work for it."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.cluster = Cluster(state_dir)

    def status(self) -> dict[str, int]:
        """The owner's status: ``pid`` is its own process, ``postgres`` the server's."""
        with suppress(OSError, ValueError):
            found = json.loads((self.state_dir / "owner.lock").read_text())
            return {key: found[key] for key in ("pid", "postgres") if key in found}
        return {}

    def processes(self) -> dict[int, int]:
        """The present processes, the owner's and PostgreSQL's, each with a pidfd that stays valid after its end."""
        pids = [*self.status().values(), *self.cluster.processes()]
        found = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                found[pid] = os.pidfd_open(pid)
        return found

    def assert_gone(self, processes: dict[int, int]) -> None:
        """Each of them ends, and nothing that they started is left."""
        for pid, process in processes.items():
            assert select.select([process], [], [], SECONDS)[0], f"{pid} stays"
            os.close(process)
        # An owner that lost its PostgreSQL before it was killed may have started one, which ends with it.
        assert signal_and_wait(self.cluster.processes(), signal.SIGCONT, SECONDS) == []
        assert self.cluster.processes() == []


def kill(pid: int) -> None:
    """Send SIGKILL. Returns when the process is dead."""
    process = os.pidfd_open(pid)
    signal.pidfd_send_signal(process, signal.SIGKILL)
    assert select.select([process], [], [], SECONDS)[0]
    os.close(process)
