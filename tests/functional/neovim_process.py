"""A real Neovim without a terminal, for the tests that drive one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from cardapp.neovim import NeovimConnection
from tests.functional.session_process import eventually

# No configuration, no shada, no swap file.
COMMAND = ("nvim", "-u", "NONE", "-i", "NONE", "-n", "--listen")


class NeovimProcess:
    """Neovim on a socket; may be killed and started again at the same path."""

    def __init__(self, path: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.path = str(path)
        self._arguments = arguments
        self._environment = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # If the file exists, Neovim 0.7.2 listens at another path and reports no error.
        Path(self.path).unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [*COMMAND, self.path, "--headless", *self._arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=self._environment, cwd=Path(self.path).parent, start_new_session=True,
        )  # fmt: skip
        eventually(self._listens)

    def kill(self) -> None:
        """Kill Neovim as ``kill -9`` does. The socket file remains."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.path)
            except OSError:
                return False
        return True


@contextlib.contextmanager
def neovim_with_ui(
    path: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[NeovimProcess]:
    """A headless Neovim with an attached UI of 80x24. Without a UI it never stops at a prompt."""
    neovim = NeovimProcess(path, *arguments, environment=environment)
    try:
        neovim.start()
        ui = NeovimConnection(neovim.path)
        try:
            ui.call("nvim_ui_attach", 80, 24, {"ext_linegrid": True}, timeout=10)
            yield neovim
        finally:
            ui.close()
    finally:
        neovim.kill()
