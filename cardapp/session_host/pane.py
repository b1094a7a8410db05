"""The terminal that Neovim runs in: the window of the session's tmux server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cardapp.errors import CardAppError
from cardapp.session_host.profile import Profile

CONFIGURATION = Path(__file__).with_name("tmux.conf")
WINDOW = "card:0"


class PaneFailed(CardAppError):
    """tmux failed."""

    code = "pane_failed"


class Pane:
    """The tmux server on ``socket``. Neovim runs in its only window; when Neovim ends, the server ends too.

    ``prefix`` precedes ``tmux`` in each command line, to run tmux in a container.
    """

    def __init__(self, socket: Path, prefix: Sequence[str] = ()) -> None:
        self._socket = socket
        self._tmux = [*prefix, "tmux", "-u", "-S", str(socket)]

    def open(self, command: Sequence[str], directory: Path, environ: Mapping[str, str], profile: Profile) -> None:
        """Start the server with ``command`` in its window. The socket of a killed server is removed first."""
        self._socket.unlink(missing_ok=True)
        size = ["-x", str(profile.columns), "-y", str(profile.rows)]
        arguments = ["-f", str(CONFIGURATION), "new-session", "-d", "-s", "card", *size, "-c", str(directory)]
        self._run([*arguments, "--", *command], environ)

    def alive(self) -> bool:
        return self._ask("has-session", "-t", "card") is not None

    def size(self) -> tuple[int, int]:
        """Columns and rows of the window."""
        found = self._run(["display-message", "-p", "-t", WINDOW, "#{window_width} #{window_height}"])
        columns, rows = found.split()
        return int(columns), int(rows)

    def resize(self, columns: int | None, rows: int | None) -> None:
        """Resize the window to the given size; if both are None, to the size of the terminal that was used last.

        A given size holds until a terminal is attached or changes its size (tmux.conf).
        """
        if columns is None and rows is None:
            self._run(["set-option", "-w", "-t", WINDOW, "window-size", "latest"])
            return
        size = [f"-x{columns}"] * (columns is not None) + [f"-y{rows}"] * (rows is not None)
        self._run(["resize-window", "-t", WINDOW, *size])

    def follow_panel(self, columns: int, rows: int) -> None:
        """Resize the window to the given size, unless it has the size of a terminal.

        One command checks and resizes, so that no terminal can be attached between the two.
        """
        is_free = "#{||:#{==:#{session_attached},0},#{==:#{window-size},manual}}"
        self._run(["if-shell", "-F", "-t", WINDOW, is_free, f"resize-window -t {WINDOW} -x {columns} -y {rows}"])

    def attached(self) -> bool:
        return bool((self._ask("list-clients", "-t", "card") or "").strip())

    def attach_command(self) -> list[str]:
        """The command that shows the session in the caller's terminal. The window takes the size of that terminal."""
        return [*self._tmux, "attach-session", "-t", "card"]

    def detach(self) -> bool:
        """Detach all terminals. Returns False if none was attached."""
        if not self.attached():
            return False
        self._run(["detach-client", "-s", "card"])
        return True

    def close(self) -> None:
        self._ask("kill-server")
        self._socket.unlink(missing_ok=True)

    def _ask(self, *arguments: str) -> str | None:
        try:
            return self._run(arguments)
        except PaneFailed:
            return None

    def _run(self, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
        command = [*self._tmux, *arguments]
        environment = dict(os.environ if environ is None else environ)
        environment.pop("TMUX", None)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PaneFailed(f"tmux does not answer: {error}") from error
        if done.returncode != 0:
            raise PaneFailed(f"tmux {arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout
