"""Building the card's program where the sources were edited, only when it is needed."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from cardapp.card.model import Target
from cardapp.container.debugger import Cancellation
from cardapp.errors import CardAppError

MAX_OUTPUT = 64 * 1024  # bytes that are kept; a build that says more is read on, or it would wait for us
GLANCE = 0.05
HABITS = ("Makefile", "makefile", "GNUmakefile")


class BuildFailed(CardAppError):
    """The build ended without a program; the text is the compiler's."""

    code = "build_failed"


class BuildCancelled(CardAppError):
    """The caller gave up during the build."""

    code = "cancelled"


@dataclass(frozen=True)
class Workspace:
    """Where a target is built and run; ``directory`` is a real path."""

    directory: Path
    target: Target

    @property
    def program(self) -> Path:
        return self.directory / self.target.program

    def is_stale(self) -> bool:
        """Whether the program is missing, older than any source or the makefile, or dated in the future."""
        try:
            built = self.program.stat().st_mtime_ns
        except OSError:
            return True
        changed = [path.stat().st_mtime_ns for path in self._written() if path.exists()]
        return max(changed, default=0) > built or built > time.time_ns()

    def _written(self) -> list[Path]:
        """What people write, as opposed to what is made of it."""
        return [self.directory / name for name in (*self.target.sources, *HABITS)]

    def _date_back(self) -> None:
        """After the clock was set back, what was built before that looks newer than any edit since, to make as well."""
        written, now = set(self._written()), time.time_ns()
        for path in self.directory.rglob("*"):
            if path.is_file() and path not in written and path.stat().st_mtime_ns > now:
                os.utime(path, (0, 0))

    def build(self, timeout: float, cancelled: Cancellation | None = None) -> str:
        """Run the target's build command; its output. Raises :class:`BuildFailed` or :class:`BuildCancelled`."""
        self._date_back()
        try:
            # A group of its own, so that make's children end with it.
            maker = subprocess.Popen(
                self.target.build,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BuildFailed(f"{self.target.build[0]} cannot be run: {error.strerror}") from error
        with maker:
            try:
                output = _watch(maker, timeout, cancelled)
            except BaseException:  # Ctrl-C too: it does not reach a group of its own
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(maker.pid, signal.SIGKILL)
                raise
        if maker.returncode != 0:
            raise BuildFailed(f"{' '.join(self.target.build)} failed in {self.directory}:\n{output}")
        if not self.program.is_file():
            raise BuildFailed(f"{' '.join(self.target.build)} made no {self.target.program}\n{output}")
        return output


def _watch(maker: subprocess.Popen[bytes], timeout: float, cancelled: Cancellation | None) -> str:
    """Read the output to its end, collect its beginning; raises past the time and on cancellation."""
    assert maker.stdout is not None
    deadline = time.monotonic() + timeout
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(maker.stdout, selectors.EVENT_READ)
        while True:
            if cancelled is not None and cancelled.is_set():
                raise BuildCancelled("the build was cancelled")
            if time.monotonic() > deadline:
                raise BuildFailed(f"the build took longer than {timeout:.0f} s and was ended\n{_text(output)}")
            if selector.select(GLANCE):
                piece = os.read(maker.stdout.fileno(), 1 << 16)
                if not piece:
                    return _text(output)
                output += piece[: MAX_OUTPUT - len(output)]


def _text(output: bytearray) -> str:
    return output.decode("utf-8", "replace")
