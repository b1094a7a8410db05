"""Builds the card's program in the session's workspace, if its sources have changed."""

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
from cardapp.errors import CardAppError
from cardapp.session_host.debugger import Cancellation
from cardapp.session_host.sources import BUILT

MAX_OUTPUT = 64 * 1024  # bytes that are kept; the rest is read too, or the build would block
CANCEL_POLL = 0.05  # seconds between two checks of the cancellation
MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
UNFINISHED = ".unfinished-build"
"""The file in the directory while a build runs. A build that is killed leaves it, and files written in part."""


class BuildFailed(CardAppError):
    """The build failed; the text is the compiler's."""

    code = "build_failed"


class BuildCancelled(CardAppError):
    """The caller cancelled the build."""

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
        """Whether the program is missing, left by a killed build, older than a source, or dated in the future."""
        if self._unfinished.exists():
            return True
        try:
            built = self.program.stat().st_mtime_ns
        except OSError:
            return True
        changed = [path.stat().st_mtime_ns for path in self._sources() if path.exists()]
        return max(changed, default=0) > built or built > time.time_ns()

    @property
    def _unfinished(self) -> Path:
        return self.directory / UNFINISHED

    def _sources(self) -> list[Path]:
        """The files that people edit, as opposed to those that the build makes."""
        return [self.directory / name for name in (*self.target.sources, *MAKEFILES)]

    def _age_future_files(self) -> None:
        """Give files that the build made in the future an old time.

        After the clock was set back they would look newer to make than every later edit.
        """
        sources, now = set(self._sources()), time.time_ns()
        for path in self.directory.rglob("*"):
            if path.is_file() and path not in sources and path.stat().st_mtime_ns > now:
                os.utime(path, (0, 0))

    def _age_unfinished_files(self) -> None:
        """Give files that a killed build wrote an old time, so that make does not take them for finished."""
        if not self._unfinished.exists():
            return
        begun = self._unfinished.stat().st_mtime_ns
        for path in (self.program, *self.directory.rglob("*")):
            built = path == self.program or path.suffix in BUILT
            if built and path.is_file() and path.stat().st_mtime_ns >= begun:
                os.utime(path, (0, 0))

    def build(self, timeout: float, cancelled: Cancellation | None = None) -> str:
        """Run the target's build command and return its output.

        :raises BuildFailed: it failed, made no program or took longer than ``timeout`` seconds.
        :raises BuildCancelled: ``cancelled`` was set.
        """
        self._age_unfinished_files()
        self._age_future_files()
        with contextlib.suppress(OSError):  # the compiler reports a folder or disk that cannot be written
            self._unfinished.touch()
        try:
            # A process group of its own, so that make's children can be killed with it.
            maker = subprocess.Popen(
                self.target.build,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._unfinished.unlink(missing_ok=True)
            raise BuildFailed(f"{self.target.build[0]} cannot be run: {error.strerror}") from error
        with maker:
            try:
                output = _read_output(maker, timeout, cancelled)
            except BaseException:  # also for Ctrl-C, which the terminal does not send to another process group
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(maker.pid, signal.SIGKILL)
                raise
        self._unfinished.unlink(missing_ok=True)
        if maker.returncode != 0:
            raise BuildFailed(f"{' '.join(self.target.build)} failed in {self.directory}:\n{output}")
        if not self.program.is_file():
            raise BuildFailed(f"{' '.join(self.target.build)} made no {self.target.program}\n{output}")
        return output


def _read_output(maker: subprocess.Popen[bytes], timeout: float, cancelled: Cancellation | None) -> str:
    """Read the output to its end and return its beginning; raises after ``timeout`` seconds and when cancelled."""
    assert maker.stdout is not None
    deadline = time.monotonic() + timeout
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(maker.stdout, selectors.EVENT_READ)
        while True:
            if cancelled is not None and cancelled.is_set():
                raise BuildCancelled("the build was cancelled")
            if time.monotonic() > deadline:
                raise BuildFailed(f"the build took longer than {timeout:.0f} s and was killed\n{_text(output)}")
            if selector.select(CANCEL_POLL):
                data = os.read(maker.stdout.fileno(), 1 << 16)
                if not data:
                    return _text(output)
                output += data[: MAX_OUTPUT - len(output)]


def _text(output: bytearray) -> str:
    return output.decode("utf-8", "replace")
