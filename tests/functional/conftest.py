"""Real sessions for the functional tests, and the whole application on one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.functional.chromium import PROGRAM, chromium
from tests.functional.registry import NpmPrograms
from tests.functional.serving import Api, Stage, make_card, running_stage
from tests.functional.session_process import RunningSession, SessionTool, TestCard


@pytest.fixture
def tool(state_dir: Path) -> Iterator[SessionTool]:
    """``card-session`` over a fresh state directory; whatever was started is stopped."""
    found = SessionTool(state_dir)
    yield found
    found.stop_all()


@pytest.fixture
def card(tmp_path: Path) -> TestCard:
    """A card on the small target, in a folder of its own."""
    return TestCard(tmp_path / "card")


@pytest.fixture
def session(tool: SessionTool, card: TestCard) -> Iterator[RunningSession]:
    """A running session on ``card``."""
    running = RunningSession(tool, card)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The application and a session on the card of ``make_card``; a module's tests share it."""
    with running_stage(make_card) as stage:
        yield stage


@pytest.fixture(params=["tcp", "unix"])
def api(request: pytest.FixtureRequest, stage: Stage) -> Api:
    """A client of each listener of ``stage`` in turn."""
    found: Api = getattr(stage, request.param)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, where it is installed."""
    if PROGRAM is None:
        pytest.skip("not run: there is no chromium here (Debian package chromium)")
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def npm_programs(loops: Callable[..., int]) -> Iterator[NpmPrograms]:
    """The protocol's conformance suite, inspector and TypeScript server, on a Node.js that is new enough for them."""
    if not loops(quick=0, full=1):
        pytest.skip("only with --full: it installs packages from the npm registry")
    with tempfile.TemporaryDirectory(prefix="card-npm-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield NpmPrograms.install(Path(folder))
