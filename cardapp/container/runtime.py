"""Where a session runs. The local runtime starts it as processes of this machine; a container is another runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Protocol

from cardapp.container.directory import Record, SessionDirectory
from cardapp.container.pane import Pane
from cardapp.container.process import MARK, PLACE, Process, end_marked
from cardapp.container.profile import ROOT
from cardapp.procfs import start_time

STOP_TIMEOUT = 10.0


class Runtime(Protocol):
    """Starts and ends the session of one directory. ``record.container_id`` is what tells its processes apart."""

    name: str

    def start(self, record: Record) -> Process:
        """Start the MCP server, which brings up whatever of the rest is missing; does not wait for it."""

    def alive(self, record: Record) -> bool:
        """Whether the MCP server's process runs."""

    def stop(self, record: Record | None) -> int:
        """End everything that belongs to the session; the number of processes that were ended.

        Without a record (it is damaged) that is whatever was started for the session's directory.
        """

    def attach_command(self) -> list[str]:
        """The command that shows the session in the caller's terminal."""

    def detach(self) -> bool:
        """Send those who are attached away; False when nobody was."""


class LocalRuntime:
    """The session as processes of this user on this machine.

    The MCP server and tmux do not own each other: either may die and be brought back without the other. What belongs to
    the session is known by its mark, so nothing can escape :meth:`stop`, whatever died before.
    """

    name = "local"

    def __init__(self, directory: SessionDirectory, environ: Mapping[str, str] = os.environ) -> None:
        self._directory = directory
        self._environ = environ
        self._pane = Pane(directory.tmux_socket)

    def start(self, record: Record) -> Process:
        environ = dict(self._environ) | {MARK: record.container_id, PLACE: str(self._directory.path)}
        command = [sys.executable, "-P", "-m", "cardapp.container.mcp_server", str(self._directory.path)]
        with self._directory.log.open("ab") as log:
            # Its own session and no descriptor of ours: it outlives the terminal it was started from.
            host = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                close_fds=True,
            )
        host.returncode = 0  # nobody here waits for it: init does, once this command ended
        return Process(host.pid, start_time(host.pid) or 0)

    def alive(self, record: Record) -> bool:
        return record.host is not None and record.host.alive

    def stop(self, record: Record | None) -> int:
        self._pane.close()
        if record is None:
            return end_marked(str(self._directory.path), STOP_TIMEOUT, PLACE)
        return end_marked(record.container_id, STOP_TIMEOUT)

    def attach_command(self) -> list[str]:
        return self._pane.attach_command()

    def detach(self) -> bool:
        return self._pane.detach()
