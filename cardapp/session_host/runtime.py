"""The interface of a runtime, which runs a session's processes, and the local runtime, which uses this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping
from typing import Protocol

from cardapp.errors import MissingRequirement
from cardapp.procfs import start_time
from cardapp.session_host.directory import Record, SessionDirectory
from cardapp.session_host.pane import Pane
from cardapp.session_host.process import (
    CONTAINER_VARIABLE,
    DIRECTORY_VARIABLE,
    HOME_VARIABLE,
    Process,
    end_processes,
)
from cardapp.session_host.profile import ROOT
from cardapp.session_host.workspace import Preparation

STOP_TIMEOUT = 10.0


class Runtime(Protocol):
    """Runs the session of one directory. ``record.container_id`` identifies its processes."""

    def require(self) -> None:
        """:raises MissingRequirement: something that the runtime needs is not installed here."""

    def create(self, record: Record) -> str:
        """Make the container of the session, if the runtime has containers; returns the ``container_id``."""

    def shortcoming(self) -> str | None:
        """What the profile requires and this machine cannot provide, in one line; None if nothing is missing."""

    def build(self, record: Record, *, always: bool) -> None:
        """Build the session's copy of the sources; see :class:`Preparation`."""

    def start(self, record: Record) -> Process:
        """Start the MCP server, which starts the other parts. Does not wait until the server answers."""

    def alive(self, record: Record) -> bool:
        """Whether the MCP server's process runs."""

    def revive(self, record: Record) -> str | None:
        """Make the container run again if it is paused, stopped or removed.

        Returns the id of the container, or None if the container already runs. A removed container is replaced by one
        with a new id.
        """

    def condition(self, record: Record) -> str:
        """Why the session does not answer, in a few words for the table of sessions."""

    def stop(self, record: Record | None) -> int:
        """End all processes of the session. Returns their number.

        ``record`` is None if it is damaged. The processes are then found by the session's directory.
        """

    def attach(self, record: Record) -> int:
        """Show the session in the caller's terminal until it is detached. Returns the exit code of the command."""

    def detach(self, record: Record) -> bool:
        """Detach all terminals. Returns False if none was attached."""


class LocalRuntime:
    """The session as processes of this user on this machine.

    The MCP server and tmux are independent: each can end and be started again without the other. :meth:`stop` finds the
    session's processes by their environment, so it finds them even if the MCP server or tmux has already ended.
    """

    def __init__(self, directory: SessionDirectory, environ: Mapping[str, str] = os.environ) -> None:
        self._directory = directory
        self._environ = environ
        self._pane = Pane(directory.tmux_socket)

    def require(self) -> None:
        require_programs()

    def create(self, record: Record) -> str:
        return str(uuid.uuid4())

    def shortcoming(self) -> str | None:
        return None

    def build(self, record: Record, *, always: bool) -> None:
        built = self._directory.build_record(record.runtime, record.card_id)
        Preparation(record.card_source, record.source_directory, str(built), record.profile, always).run()

    def start(self, record: Record) -> Process:
        environ = dict(self._environ) | {
            CONTAINER_VARIABLE: record.container_id,
            DIRECTORY_VARIABLE: str(self._directory.path),
        }
        command = [sys.executable, "-P", "-m", "cardapp.session_host.mcp_server", str(self._directory.path)]
        with self._directory.log.open("ab") as log:
            # The server gets a new session (setsid) and none of our descriptors, so that it outlives the terminal.
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
        host.returncode = 0  # prevents a warning of Popen: init waits for the server after this command has ended
        return Process(host.pid, start_time(host.pid) or 0)

    def alive(self, record: Record) -> bool:
        return record.host is not None and record.host.alive

    def revive(self, record: Record) -> str | None:
        return None

    def condition(self, record: Record) -> str:
        return "no answer"

    def stop(self, record: Record | None) -> int:
        if record is None:
            self._pane.close()
            return end_processes(str(self._directory.path), STOP_TIMEOUT, DIRECTORY_VARIABLE) + self._end_program()
        server = int(record.host is not None and record.host.alive)
        if record.host is not None:
            # End the server first. Otherwise its clients would learn that the debugger has ended, not the session.
            record.host.end(STOP_TIMEOUT)
        self._pane.close()
        return server + end_processes(record.container_id, STOP_TIMEOUT) + self._end_program()

    def _end_program(self) -> int:
        """End the processes that the card's program has started and left behind. gdb has ended the program itself."""
        return end_processes(str(self._directory.program_home), STOP_TIMEOUT, HOME_VARIABLE)

    def attach(self, record: Record) -> int:
        # tmux refuses to run inside tmux (TMUX is set). Here it is harmless, because the session has a separate server.
        environ = {name: value for name, value in self._environ.items() if name != "TMUX"}
        command = self._pane.attach_command()
        os.execvpe(command[0], command, environ)

    def detach(self, record: Record) -> bool:
        return self._pane.detach()


# Each program and its Debian package.
PROGRAMS = {"nvim": "neovim", "gdb": "gdb", "tmux": "tmux", "gcc": "gcc", "make": "make"}


def require_programs() -> None:
    """:raises MissingRequirement: programs are missing; the message names all of them and how to install them."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        packages = " ".join(PROGRAMS[name] for name in missing)
        raise MissingRequirement(
            f"missing on this machine: {', '.join(missing)}. On Debian or Ubuntu: sudo apt-get install {packages}"
        )
