"""A real Neovim, for the tests that drive one: without a terminal, or on a pseudo terminal of 80x24."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
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

    def start(self, *, terminal: int | None = None) -> None:
        """``terminal`` is the descriptor of a terminal to run on; None runs headless."""
        # If the file exists, Neovim 0.7.2 listens at another path and reports no error.
        Path(self.path).unlink(missing_ok=True)
        streams = subprocess.DEVNULL if terminal is None else terminal
        self._process = subprocess.Popen(
            [*COMMAND, self.path, *(["--headless"] if terminal is None else []), *self._arguments],
            stdin=streams,
            stdout=streams,
            stderr=streams,
            env=self._environment,
            cwd=Path(self.path).parent,
            start_new_session=True,
        )
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


@contextlib.contextmanager
def neovim_in_terminal(
    path: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Callable[[bytes], None]]:
    """Neovim on a terminal of 80x24, as a person uses it. Yields a function that types raw bytes there."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    neovim = NeovimProcess(path, *arguments, environment=environment)
    reader = threading.Thread(target=_drain, args=(near,), name="terminal")
    try:
        reader.start()
        neovim.start(terminal=far)
        yield lambda keys: _write(near, keys)
    finally:
        neovim.kill()
        os.close(far)
        reader.join(10)
        os.close(near)


def _drain(terminal: int) -> None:
    # A terminal whose other end is closed fails with EIO.
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass


def _write(terminal: int, keys: bytes) -> None:
    while keys:
        keys = keys[os.write(terminal, keys) :]
