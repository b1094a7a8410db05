"""A terminal on which a learner has attached a session."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
import threading
from typing import Self

from tests.functional.session_process import SessionTool


class AttachedTerminal:
    """``card-session attach`` on a pseudo terminal of ``columns`` x ``rows``. The terminal's output is dropped."""

    def __init__(self, tool: SessionTool, columns: int, rows: int, name: str = "s") -> None:
        self._terminal, other = os.openpty()
        self.resize(columns, rows)
        # Only processes with this controlling terminal get SIGWINCH when its size changes.
        command = ["setsid", "--ctty", *tool.command("attach", name)]
        environment = tool.environment | {"TERM": "xterm-256color"}
        self._client = subprocess.Popen(command, env=environment, stdin=other, stdout=other, stderr=other)
        os.close(other)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while os.read(self._terminal, 64 * 1024):
                pass
        except OSError:  # the client has ended
            pass

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def detach(self) -> None:
        """Close the terminal. Its client then ends."""
        self._client.terminate()
        self._client.wait(30)
        self._reader.join(30)
        os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()
