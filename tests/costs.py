"""A pytest plugin: the run's summary lists the files and the fixtures that took longest, in seconds.

A file's seconds are those of its tests with their set-up and teardown. A fixture's seconds are those of its set-up,
without the fixtures that it asks for, in all workers together.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

SHOWN = 10
OUTPUT = "seconds of fixtures"


class Costs:
    def __init__(self) -> None:
        self.files = Counter[str]()
        self.fixtures = Counter[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        begun = time.perf_counter()
        try:
            return (yield)
        finally:
            self.fixtures[f"{fixturedef.argname} ({fixturedef.baseid or 'pytest'})"] += time.perf_counter() - begun

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.files[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[OUTPUT] = dict(self.fixtures)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.fixtures.update(getattr(node, "workeroutput", {}).get(OUTPUT, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, costs in (("files", self.files), ("fixtures", self.fixtures)):
            terminalreporter.section(f"dearest {title}, in seconds")
            for name, seconds in costs.most_common(SHOWN):
                if seconds >= 0.1:
                    terminalreporter.write_line(f"{seconds:7.1f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())
