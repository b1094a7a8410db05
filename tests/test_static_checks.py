"""The plugin of bin/test that runs the static checks beside the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import static_checks
from tests.functional.session_process import eventually

FAILING = "print('first line'); print('second line'); raise SystemExit(1)"
PASSING = "print('nothing found')"
ENDLESS = "import os, subprocess; print(os.getpid(), flush=True); subprocess.run(['sleep', '600'])"


class Run:
    """A pytest with the plugin in ``folder``, whose checks are the Python programs ``checks``."""

    def __init__(self, folder: Path, tests: str, **checks: str) -> None:
        (folder / "pytest.ini").write_text("[pytest]\n")
        commands = [(name, [sys.executable, "-c", code]) for name, code in checks.items()]
        text = f"from tests import static_checks\nstatic_checks.commands = lambda: {commands}\n"
        (folder / "conftest.py").write_text(text)
        (folder / "test_some.py").write_text(tests)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pytest", "-p", "tests.static_checks", "-p", "no:cacheprovider", "-v"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def end(self) -> tuple[int, list[str]]:
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output.splitlines()


def running(group: int) -> list[Path]:
    """The processes of a process group, without those that have ended and are not yet collected."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, pgrp = (place / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                found.append(place)
    return found


def test_a_failed_check_fails_a_run_whose_tests_pass_and_is_shown_whole(tmp_path: Path) -> None:
    status, lines = Run(tmp_path, "def test_some(): pass", ruff=FAILING, mypy=PASSING).end()
    assert (status, lines.count("nothing found")) == (1, 1)
    shown = [index for index, line in enumerate(lines) if " ruff failed " in line]
    assert shown
    for index in shown:
        assert lines[index + 1 : index + 3] == ["first line", "second line"]
    assert lines[-2].strip("= ").startswith("1 passed")
    assert lines[-1] == "Failed beside the tests: ruff (output above)"
    status, lines = Run(tmp_path, "def test_some(): pass", mypy=PASSING).end()
    assert (status, lines[-1].strip("= ").split()[:2]) == (0, ["1", "passed"])


def test_an_interrupt_leaves_no_check_running(tmp_path: Path) -> None:
    tests = "import time\nfrom pathlib import Path\ndef test_some():\n    Path('begun').touch()\n    time.sleep(60)"
    run = Run(tmp_path, tests, mypy=ENDLESS)
    eventually((tmp_path / "begun").exists, seconds=60)
    os.killpg(run.process.pid, signal.SIGINT)
    status, lines = run.end()
    assert status == 2
    shown = next(index for index, line in enumerate(lines) if " mypy unfinished " in line)
    check = int(lines[shown + 1])
    assert running(check) == []


def test_the_checks_are_those_that_the_usage_of_the_command_names() -> None:
    names = [name for name, _ in static_checks.commands()]
    assert names in (["ruff", "mypy"], ["shellcheck", "ruff", "mypy"])
    usage = subprocess.run([static_checks.ROOT / "bin" / "test", "--help"], capture_output=True, text=True, check=True)
    assert all(name in usage.stdout for name in names)
