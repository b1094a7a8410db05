"""The podman runtime: a session in a container without a network, within the limits of its profile.

``container_options.py`` decides what the container sees and may do. The container's first process only waits. ``podman
exec`` starts the MCP server in the container, so the server can be started again while Neovim and gdb keep running.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from functools import cached_property

from cardapp.card.source import load_card
from cardapp.errors import MissingRequirement, SessionUnavailable
from cardapp.procfs import command_line, start_time
from cardapp.session_host.container_options import LABEL, WORKSPACE, ContainerOptions
from cardapp.session_host.directory import Record, SessionDirectory
from cardapp.session_host.image import PYTHON, Image
from cardapp.session_host.pane import Pane
from cardapp.session_host.podman import Podman, PodmanFailed
from cardapp.session_host.process import CONTAINER_VARIABLE, DIRECTORY_VARIABLE, Process, end_processes, pids_with
from cardapp.session_host.profile import load_profile
from cardapp.session_host.workspace import Preparation, check_preparation, preparation_command

SERVER = "cardapp.session_host.mcp_server"
CLIENT_VARIABLE = "CARDAPP_TERMINAL"
"""The environment variable that identifies a client of tmux. Each client has a different value."""
PREPARATION_VARIABLE = "CARDAPP_PREPARATION"
"""The environment variable that marks a preparation and its build. Its value is the ``container_id``."""
START_TIMEOUT = 20.0
STOP_SECONDS = 5
NO_CONTAINER = "no such container"
"""Part of podman's message about a container that does not exist."""


@dataclass(frozen=True)
class Container:
    """The state of a container as ``podman inspect`` reports it; ``status`` is for example ``running``."""

    id: str
    status: str
    started_at: str
    pid: int

    @property
    def instance(self) -> str:
        """Identifies one run of the container. The Id stays the same when the container is started again."""
        return f"{self.started_at}:{self.pid}"


class PodmanRuntime:
    """Runs the session of ``directory`` in a container."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._podman = Podman()

    @staticmethod
    def installed() -> bool:
        return shutil.which("podman") is not None

    def require(self) -> None:
        self._podman.command("version")

    # -- the container -----------------------------------------------------------------------------------------------

    def create(self, record: Record) -> str:
        image = self._image()
        self._directory.work(record.runtime).mkdir(mode=0o700, exist_ok=True)
        # If this command is killed now, a later command finds the container by the record or by its name.
        self._directory.write(record)
        # When the memory is used up, podman's monitor writes a file named oom to its current directory.
        options = ContainerOptions(self._directory, self._podman.environ, limited=self._can_limit)
        arguments = ["run", "--detach", "--replace", *options.arguments(record), image]
        done = self._podman.run(*arguments, directory=self._directory.run)
        return done.stdout.split()[-1]  # the first word may be the name of a container that was replaced

    def _image(self) -> str:
        image = Image()
        state = image.state(self._podman)
        if state != "current":
            fault = "is missing" if state == "missing" else "is older than its recipe"
            raise MissingRequirement(
                f"the image for sessions in a container {fault}: build it with bin/card-session image"
            )
        return image.name()

    @cached_property
    def _can_limit(self) -> bool:
        return self._podman.can_limit()

    def shortcoming(self) -> str | None:
        if self._can_limit:
            return None
        return (
            "memory is not limited, and the limit of processes applies to all your containers together, because podman "
            "cannot limit a single container on this machine"
        )

    def inspect(self, container_id: str) -> Container | None:
        """Read the container's state. Returns None if there is no such container or ``container_id`` is empty.

        :raises PodmanFailed: podman does not answer.
        """
        try:
            found = json.loads(self._podman.run("container", "inspect", container_id).stdout)[0]
        except PodmanFailed as error:
            if container_id and NO_CONTAINER not in error.detail:
                raise
            return None
        state = found["State"]
        return Container(found["Id"], state["Status"], state["StartedAt"], state["Pid"])

    def revive(self, record: Record) -> str | None:
        container = self.inspect(record.container_id)
        if container is None:
            return self.create(record)
        if container.status == "running":
            return None
        command = "unpause" if container.status == "paused" else "start"
        self._podman.run(command, container.id, directory=self._directory.run)
        return container.id

    def condition(self, record: Record) -> str:
        try:
            container = self.inspect(record.container_id)
        except MissingRequirement:
            return "no podman"
        except PodmanFailed:
            return "podman failed"
        if container is None:
            return "removed"
        return "no answer" if container.status == "running" else container.status

    # -- what runs in it ---------------------------------------------------------------------------------------------

    def build(self, record: Record, *, always: bool) -> None:
        built = self._directory.build_record(record.runtime, record.card_id)
        wanted = Preparation(record.card_source, record.source_directory, str(built), record.profile, always)
        seconds = load_card(record.card_source).card.target.build_timeout or load_profile(record.profile).build_timeout
        mark = f"--env={PREPARATION_VARIABLE}={record.container_id}"
        try:
            done = self._podman.run(
                *self._exec(record, mark), PYTHON, *preparation_command(wanted),
                timeout=seconds + 60,
            )  # fmt: skip
        except BaseException:  # also after Ctrl-C, because a process in the container does not end with podman
            end_processes(record.container_id, STOP_SECONDS, PREPARATION_VARIABLE)
            raise
        check_preparation(done.stdout)

    def start(self, record: Record) -> Process:
        container = self.inspect(record.container_id)
        if container is None or container.status != "running":
            raise SessionUnavailable(f"the container {record.container_id[:12]} does not run")
        inside = [SERVER, str(self._directory.path), container.instance, str(container.pid)]
        inside.append(str(start_time(container.pid) or 0))
        command = shlex.join([PYTHON, "-P", "-m", *inside])
        # The output of a detached command is lost, so the shell writes it to the log.
        script = f"exec {command} >>{shlex.quote(str(self._directory.log))} 2>&1"
        self._podman.run(*self._exec(record, "--detach"), "sh", "-c", script)
        return self._find_server(record)

    def _exec(self, record: Record, *options: str) -> list[str]:
        mark = f"--env={CONTAINER_VARIABLE}={record.container_id}"
        return ["exec", *options, mark, f"--env=PYTHONPATH={WORKSPACE}", record.container_id]

    def _find_server(self, record: Record) -> Process:
        """Wait for the MCP server's process, and return it with its pid on the host."""
        deadline = time.monotonic() + START_TIMEOUT
        pause = threading.Event()
        while time.monotonic() < deadline:
            for pid in pids_with(record.container_id):
                if SERVER in command_line(pid) and (started := start_time(pid)):
                    return Process(pid, started)
            pause.wait(0.01)
        raise SessionUnavailable(f"the MCP server did not start; its messages are in {self._directory.log}")

    def alive(self, record: Record) -> bool:
        return record.host is not None and record.host.alive

    # -- the end -----------------------------------------------------------------------------------------------------

    def stop(self, record: Record | None) -> int:
        running = len(list(pids_with(str(self._directory.path), DIRECTORY_VARIABLE)))
        self._remove_containers()
        return running

    def _remove_containers(self) -> None:
        found = self._podman.run(
            "ps", "--all", "--quiet", "--no-trunc", f"--filter=label={LABEL}={self._directory.path}"
        ).stdout.split()
        if found:
            # A container that another command has removed meanwhile is ignored.
            self._podman.run("rm", "--force", "--ignore", f"--time={STOP_SECONDS}", *found)

    # -- terminals ---------------------------------------------------------------------------------------------------

    def attach(self, record: Record) -> int:
        # Make these signals act like Ctrl-C, so that the client is ended below. Otherwise it would stay attached after
        # its terminal was closed.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
        mark = str(uuid.uuid4())
        options = ["--interactive", "--tty", f"--env={CLIENT_VARIABLE}={mark}"]
        if "256color" in os.environ.get("TERM", "") or "COLORTERM" in os.environ:
            options.append("--env=TERM=xterm-256color")  # the default, xterm, has eight colours
        try:
            return subprocess.run(self._pane(record, *options).attach_command(), check=False).returncode
        finally:
            end_processes(mark, STOP_SECONDS, CLIENT_VARIABLE)

    def detach(self, record: Record) -> bool:
        return self._pane(record).detach()

    def _pane(self, record: Record, *options: str) -> Pane:
        # Use the image's tmux, because client and server of tmux must have the same version.
        return Pane(self._directory.tmux_socket, self._podman.command(*self._exec(record, *options)))
