"""A pytest plugin for bin/test: shellcheck, ruff and mypy run beside the tests, and a failed one fails the run.

The output of each check is a section of its own in pytest's summary. A failed check's output is also shown at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).resolve().parent.parent


class Check:
    """A program that runs in a process group of its own, so that Ctrl-C in the terminal reaches only pytest."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def failed(self) -> bool:
        return self._process.poll() not in (None, 0)

    def wait(self) -> None:
        self._process.wait()

    def show(self, reporter: pytest.TerminalReporter) -> None:
        state = "unfinished" if self.running else "failed" if self.failed else "passed"
        reporter.ensure_newline()
        reporter.section(f"{self.name} {state}", red=self.failed)
        self._output.seek(0)
        reporter.write_line(self._output.read().decode(errors="replace").rstrip())

    def stop(self) -> None:
        """Also stops the processes that it started. After its end its number may be another process's."""
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._output.close()


def commands() -> Iterator[tuple[str, list[str]]]:
    """The name and the command line of each check; shellcheck only where it is installed."""
    if program := shutil.which("shellcheck"):
        scripts = [
            *(each for each in ROOT.glob("bin/*") if not each.is_symlink()),
            ROOT / ".ci" / "run",
            ROOT / "etc" / "setup.sh",
        ]
        scripts += ROOT.glob("tests/release/distributions/*.sh")
        yield "shellcheck", [program, "--external-sources", *(str(path.relative_to(ROOT)) for path in sorted(scripts))]
    yield "ruff", [sys.executable, "-P", "-m", "ruff", "check", "."]
    yield "mypy", [sys.executable, "-P", "-m", "mypy"]


class StaticChecks:
    def __init__(self, checks: list[Check], reporter: pytest.TerminalReporter) -> None:
        self._checks = checks
        self._unannounced = list(checks)
        self._failed: list[str] = []
        self._reporter = reporter

    def pytest_runtest_logreport(self) -> None:
        for check in [check for check in self._unannounced if check.failed]:
            self._unannounced.remove(check)
            check.show(self._reporter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Waits for the checks, except after an interrupt or a failure of pytest itself."""
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            for check in self._checks:
                check.wait()
            self._failed = [check.name for check in self._checks if check.failed]
            if self._failed:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self) -> None:
        for check in self._checks:
            check.show(self._reporter)

    def pytest_unconfigure(self) -> None:
        for check in self._checks:
            check.stop()
        if self._failed:
            self._reporter.write_line(f"Failed beside the tests: {', '.join(self._failed)} (output above)", red=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        checks = [Check(*each) for each in commands()]
        config.pluginmanager.register(StaticChecks(checks, config.pluginmanager.getplugin("terminalreporter")))
