"""A session on disk: its directory, its record, and the file that names the chosen session.

The programs of a session write only below ``run`` and to their copy of the sources. The record and the lock are outside
of these folders, so a program in a container cannot change them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp import private_directories, session_choice, unix_socket
from cardapp.errors import StateError, UsageError
from cardapp.session_choice import MCP_SOCKET, session_folder, write_json
from cardapp.session_host.process import Process
from cardapp.session_host.profile import ROOT

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True)
class State:
    """The state directory, and the file that names the chosen session and its MCP socket."""

    directory: Path
    choice: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> State:
        """Take the paths from ``CARD_STATE_DIR`` and ``CARD_MCP_CHOICE``; the defaults are in the repository."""
        directory = Path(environ.get("CARD_STATE_DIR") or ROOT / ".state" / "card").expanduser().absolute()
        choice = Path(environ.get("CARD_MCP_CHOICE") or directory / "mcp-choice.json").expanduser().absolute()
        return cls(directory, choice)

    def create(self) -> None:
        """Create the directory with access for this user only. Raises :class:`StateError` if others can access it."""
        for path in (self.directory, self.directory / "sessions"):
            private_directories.make_directory(path, "CARD_STATE_DIR")

    def session(self, name: str) -> SessionDirectory:
        if not NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a session name: use lower case letters, digits and '-', 32 at most")
        return SessionDirectory(name, session_folder(self.directory, name))

    def names(self) -> list[str]:
        """The names of all sessions that were started and not stopped, even if their processes have ended."""
        return sorted(path.parent.name for path in self.directory.glob("sessions/*/session.json"))

    def chosen(self) -> str | None:
        """The chosen session's name; None if there is none or the file cannot be read."""
        try:
            found = json.loads(self.choice.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        name = found.get("name") if isinstance(found, dict) else None
        return name if isinstance(name, str) else None

    def choose(self, session: SessionDirectory) -> None:
        """Write the session into the choice file. Raises :class:`StateError` if that fails."""
        session_choice.choose(self.choice, session.name, session.mcp_socket)

    def forget_choice(self, name: str) -> None:
        """Remove the choice file if it names the session ``name``."""
        if self.chosen() == name:
            self.choice.unlink(missing_ok=True)


@dataclass(frozen=True)
class Record:
    """A session's stored properties. A start determines them, and a reset keeps them, except for the container and the
    process of the MCP server (``host``)."""

    name: str
    container_id: str
    card_source: str
    card_id: str
    profile: str
    target: str
    source_directory: str
    created_at: str
    runtime: str
    host: Process | None = None

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "host": self.host and self.host.as_json()}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Record:
        texts = {key: str(found[key]) for key in cls.__dataclass_fields__ if key != "host"}
        return cls(**texts, host=Process.from_json(found.get("host")))


@dataclass(frozen=True)
class SessionDirectory:
    """The paths of a session's files."""

    name: str
    path: Path

    @property
    def run(self) -> Path:
        """The folder of the sockets, the log, and Neovim's files."""
        return self.path / "run"

    def work(self, runtime: str) -> Path:
        """The folder of the session's copy of the sources.

        Each runtime has a separate copy. A program in a container can change its copy, so that copy must never be built
        outside of a container.
        """
        return self.path / ("work" if runtime == "local" else f"work-{runtime}")

    def keep_work_in(self, folder: Path) -> None:
        """Keep the copy of the sources of a local session in ``folder``, which outlives the session's directory."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.work("local").is_symlink():
            self.work("local").symlink_to(folder.resolve())

    def build_record(self, runtime: str, card_id: str) -> Path:
        """The file that records the sources from which the program in the copy, or in the card's own folder, was
        built."""
        return self.work(runtime) / f"{card_id}.built.json"

    @property
    def mcp_socket(self) -> Path:
        return self.path / MCP_SOCKET

    @property
    def nvim_socket(self) -> Path:
        return self.run / "nvim.sock"

    @property
    def gdb_socket(self) -> Path:
        return self.run / "gdb.sock"

    @property
    def tmux_socket(self) -> Path:
        return self.run / "tmux.sock"

    @property
    def log(self) -> Path:
        return self.run / "host.log"

    @property
    def editor_home(self) -> Path:
        """The folder of Neovim's configuration, data and temporary files."""
        return self.run / "nvim"

    @property
    def program_home(self) -> Path:
        """The folder that is HOME for the card's program. The program's processes are found by this value of HOME."""
        return self.run / "home"

    @property
    def record(self) -> Path:
        return self.path / "session.json"

    def create(self) -> None:
        for path in self._sockets():
            unix_socket.check_path(path, "CARD_STATE_DIR or --name")
        for path in (self.path, self.run):
            path.mkdir(mode=0o700, exist_ok=True)
        self.run.chmod(0o700)  # a program of the session may have changed it

    def _sockets(self) -> tuple[Path, ...]:
        return self.mcp_socket, self.nvim_socket, self.gdb_socket, self.tmux_socket

    def read(self) -> Record | None:
        """The session's record; None if there is none or it is damaged."""
        try:
            return Record.from_json(json.loads(self.record.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, record: Record) -> None:
        write_json(self.record, record.as_json())

    def clear(self) -> None:
        """Remove the record, and all of ``run`` except the log. The learner's sources stay.

        A program of the session may have put anything into ``run``, for example a folder at the path of a socket.
        """
        self.record.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self.run.chmod(0o700)
            for path in self.run.iterdir():
                self._clear(path)

    def _clear(self, path: Path) -> None:
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind):
            shutil.rmtree(path, ignore_errors=True)
        elif path != self.log or not stat.S_ISREG(kind):
            path.unlink()

    @contextlib.contextmanager
    def locked(self, timeout: float = 60.0) -> Iterator[None]:
        """Hold the session's lock. Raises :class:`StateError` if another command holds it for ``timeout`` seconds."""
        with (self.path / "lock").open("w") as file:
            deadline = time.monotonic() + timeout
            pause = threading.Event()
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise StateError(
                            f"another card-session command has been working on {self.name} for {timeout:.0f} s; "
                            "try again when it has ended"
                        ) from None
                    pause.wait(0.05)
            yield
