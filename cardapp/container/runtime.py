"""Runtimes: how a session's processes are started and ended. The local runtime runs them on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Protocol

from cardapp.container.directory import Record, SessionDirectory
from cardapp.container.pane import Pane
from cardapp.container.process import CONTAINER_VARIABLE, DIRECTORY_VARIABLE, Process, end_processes
from cardapp.container.profile import ROOT
from cardapp.procfs import start_time

STOP_TIMEOUT = 10.0


class Runtime(Protocol):
    """Starts and ends the session of one directory. ``record.container_id`` identifies its processes."""

    name: str

    def start(self, record: Record) -> Process:
        """Start the MCP server, which starts the other parts; does not wait until it answers."""

    def alive(self, record: Record) -> bool:
        """Whether the MCP server's process runs."""

    def stop(self, record: Record | None) -> int:
        """End all processes of the session; returns how many there were.

        Without a record (it is damaged) they are found by the session's directory.
        """

    def attach_command(self) -> list[str]:
        """The command that shows the session in the caller's terminal."""

    def detach(self) -> bool:
        """Detach all terminals; False if none was attached."""


class LocalRuntime:
    """The session as processes of this user on this machine.

    The MCP server and tmux are independent: either can end and be started again without the other. :meth:`stop` finds
    the session's processes by their environment, so it ends all of them, whichever has ended before.
    """

    name = "local"

    def __init__(self, directory: SessionDirectory, environ: Mapping[str, str] = os.environ) -> None:
        self._directory = directory
        self._environ = environ
        self._pane = Pane(directory.tmux_socket)

    def start(self, record: Record) -> Process:
        environ = dict(self._environ) | {
            CONTAINER_VARIABLE: record.container_id,
            DIRECTORY_VARIABLE: str(self._directory.path),
        }
        command = [sys.executable, "-P", "-m", "cardapp.container.mcp_server", str(self._directory.path)]
        with self._directory.log.open("ab") as log:
            # A session (setsid) of its own and none of our descriptors, so that it outlives the terminal.
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
        host.returncode = 0  # not waited for here: init does that after this command has ended
        return Process(host.pid, start_time(host.pid) or 0)

    def alive(self, record: Record) -> bool:
        return record.host is not None and record.host.alive

    def stop(self, record: Record | None) -> int:
        if record is None:
            self._pane.close()
            return end_processes(str(self._directory.path), STOP_TIMEOUT, DIRECTORY_VARIABLE)
        server = int(record.host is not None and record.host.alive)
        if record.host is not None:
            # First, so that its clients learn that the session has ended, and not that the debugger has.
            record.host.end(STOP_TIMEOUT)
        self._pane.close()
        return server + end_processes(record.container_id, STOP_TIMEOUT)

    def attach_command(self) -> list[str]:
        return self._pane.attach_command()

    def detach(self) -> bool:
        return self._pane.detach()
