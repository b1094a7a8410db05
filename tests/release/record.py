"""A pytest plugin for a whole ``bin/test --release``: its result is written into tests/README.md."""

from __future__ import annotations

import re
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "tests" / "README.md"
HEAD = "Last whole run: "


class Record:
    def __init__(self) -> None:
        self.commit = commit()
        self.began = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Writes nothing if the run was interrupted or did not begin."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        counts = {name: len(terminalreporter.getreports(name)) for name in ("passed", "failed", "error", "skipped")}
        minutes = (time.monotonic() - self.began) / 60
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_record(text, line(datetime.now(UTC), self.commit, minutes, counts)), encoding="utf-8")


def commit() -> str:
    """The commit that is tried, and whether files differ from it."""
    head = git("rev-parse", "--short=10", "HEAD").strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!tests/README.md")
    return f"{head} with changes" if changed else head


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout


def line(now: datetime, commit: str, minutes: float, counts: dict[str, int]) -> str:
    result = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name in ("passed", "failed"))
    return f"{HEAD}{now:%Y-%m-%d}, commit {commit}, {minutes:.0f} minutes: {result}."


def with_record(page: str, record: str) -> str:
    """The page with this record in the place of the former one."""
    return re.sub(rf"^{HEAD}.*$", lambda _found: record, page, count=1, flags=re.MULTILINE)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record())
