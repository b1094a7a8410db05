"""Real sessions for the functional tests, and the whole application with such a session."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardapp.publish.lualatex import PACKAGES
from tests.capabilities import need
from tests.functional.chromium import browser, pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401
from tests.functional.evm_packages import EvmPackages
from tests.functional.runtimes import LOCAL, PODMAN, remove_containers
from tests.functional.serving import Api, Stage, make_card, running_stage
from tests.functional.session_process import RunningSession, SessionTool, TestCard


@pytest.fixture(scope="module")
def runtime() -> str:
    """The runtime of the test's sessions, which is also their profile's name. Some tests of tests/release have another
    one."""
    return LOCAL


@pytest.fixture
def tool(state_dir: Path, runtime: str) -> Iterator[SessionTool]:
    """``card-session`` with a fresh state directory. All sessions are stopped afterwards."""
    found = SessionTool(state_dir, runtime)
    yield found
    found.stop_all()
    if runtime == PODMAN:  # sessions that a failed test left running
        remove_containers(state_dir)


@pytest.fixture
def card(tmp_path: Path) -> TestCard:
    """A card on the small target, in a separate folder."""
    return TestCard(tmp_path / "card")


@pytest.fixture
def session(tool: SessionTool, card: TestCard) -> Iterator[RunningSession]:
    """A running session on ``card``."""
    running = RunningSession(tool, card)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def latex_cache(run_folder: Path) -> Path:
    """lualatex' font cache. All workers of a run share it, because it takes lualatex seconds to fill it."""
    need(shutil.which("lualatex"), f"lualatex (Debian packages {' '.join(PACKAGES)})")
    need(shutil.which("pdftotext"), "pdftotext (Debian package poppler-utils)")
    return run_folder / "latex-cache"


@pytest.fixture(scope="session")
def evm_packages() -> EvmPackages:
    """anvil and the contracts of the exchanges."""
    return EvmPackages.cached()


@pytest.fixture(scope="module")
def stage(runtime: str) -> Iterator[Stage]:
    """The application and a session on the card of ``make_card``. The tests of a module share them."""
    with running_stage(make_card, runtime) as stage:
        yield stage


@pytest.fixture
def api(stage: Stage) -> Api:
    """A client of ``stage`` over TCP."""
    return stage.tcp
