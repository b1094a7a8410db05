"""What a test needs and a machine may lack. Nothing else skips a test, and the run's summary names each lack once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

LACK = "this machine lacks "


def need(present: object, what: str) -> None:
    """Skip the running test, or every test of the running fixture, unless ``present``.

    ``what`` is a fixed phrase, with the Debian package that provides it: it stands in the summary.
    """
    if not present:
        pytest.skip(LACK + what)


def need_program(name: str) -> None:
    """``name`` is that of the program and of its Debian package."""
    need(shutil.which(name), f"{name} (Debian package {name})")


def need_rustc() -> str:
    """The path of a Rust compiler that works. Without one, the test is skipped like with :func:`need`."""
    folders = [os.environ["PATH"], os.path.join(os.environ.get("CARGO_HOME", Path.home() / ".cargo"), "bin")]
    found = shutil.which("rustc", path=os.pathsep.join(folders))
    # Where rustup has installed no toolchain, its rustc only ends with an error.
    works = found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    need(works, "rustc (Debian package rustc)")
    return str(found)


def needs(present: object, what: str) -> pytest.MarkDecorator:
    """The same as a decorator of a test, or as the ``pytestmark`` of a module."""
    return pytest.mark.skipif(not present, reason=LACK + what)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = Counter(reason(report.longrepr) for report in terminalreporter.getreports("skipped"))
    if skipped:
        terminalreporter.section("not run")
        for what, count in sorted(skipped.items()):
            terminalreporter.write_line(f"{what}: {count} {'test' if count == 1 else 'tests'}")


def reason(longrepr: object) -> str:
    """The reason of a skip, of which pytest reports (file, line, reason)."""
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
