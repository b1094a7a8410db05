"""The page in its states under axe-core: no serious and no critical fault, in light and in dark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext

from cardapp.settings import ROOT
from tests.browser.conftest import OpenPage
from tests.functional.registry import AS_OF, install
from tests.functional.serving import Stage, make_card, running_stage, until

pytestmark = pytest.mark.functional

AXE = "axe-core@4.14.1"
CHECK = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ['violations'] });
  return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.flat().join(' ')} ${node.failureSummary}`));
}"""


@pytest.fixture(scope="module")
def axe(loops: Callable[..., int]) -> Iterator[str]:
    """The script of axe-core."""
    if not loops(quick=0, full=1):
        pytest.skip("only with --full: it installs a package from the npm registry")
    npm = shutil.which("npm")
    if npm is None:
        pytest.fail("needs npm on PATH (Debian's package npm)")
    with tempfile.TemporaryDirectory(prefix="card-npm-", dir="/tmp") as folder:
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", "--fetch-retries=1", f"--before={AS_OF}")
        install([npm, "install", *quiet, AXE], Path(folder))
        yield (Path(folder) / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def drifted() -> Iterator[Stage]:
    """A card with a step whose promised value is wrong."""
    with running_stage(make_card) as stage:
        yield stage


@pytest.fixture(scope="module")
def alone() -> Iterator[Stage]:
    """The arena card without a session."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", ROOT / "etc" / "cards" / "arena")
        yield stage
        stage.close()


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> Any:
    return request.param


Check = Callable[[OpenPage], list[str]]


@pytest.fixture
def faults(axe: str, scheme: Any) -> Check:
    def check(opened: OpenPage) -> list[str]:
        opened.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        opened.page.evaluate(axe)
        found: list[str] = opened.page.evaluate(CHECK)
        return found

    return check


@pytest.mark.usefixtures("fresh_place")
def test_the_page_with_memory_and_keyboard_table_is_accessible(
    faults: Check, tab: Callable[..., OpenPage], stage: Stage
) -> None:
    opened = tab()
    until(opened.grid)
    found = faults(opened)
    opened.page.keyboard.press("Alt+6")
    opened.page.locator("#memory .panel-head").wait_for()
    found += faults(opened)
    opened.page.keyboard.press("?")
    opened.page.get_by_role("dialog", name="Keyboard").wait_for()
    found += faults(opened)
    assert found == []


@pytest.mark.usefixtures("fresh_place")
def test_a_proved_step_with_its_memory_and_map_is_accessible(
    faults: Check, tab: Callable[..., OpenPage], stage: Stage
) -> None:
    opened = tab("#/bump/requests/three-requests/first")
    opened.page.keyboard.press("Alt+6")
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    opened.page.locator("#memory .strip").wait_for()
    found = faults(opened)
    opened.page.get_by_role("tab", name="Map").click()
    opened.page.locator("#map svg").wait_for()
    opened.control(stage)
    found += faults(opened)
    opened.page.keyboard.press("F8")
    opened.page.get_by_label("Search titles and code").fill("arena")
    opened.page.locator("#matches button").first.wait_for()
    found += faults(opened)
    opened.page.keyboard.press("Escape")
    opened.page.keyboard.press("ArrowRight")
    opened.shows("elsewhere")
    found += faults(opened)
    opened.page.keyboard.press("Escape")  # closes the map
    opened.page.get_by_role("button", name="Next page", exact=True).click()
    opened.page.locator("#away button").wait_for()
    assert found + faults(opened) == []


@pytest.mark.usefixtures("fresh_place")
def test_a_prediction_its_judgement_and_the_results_are_accessible(
    faults: Check, tab: Callable[..., OpenPage], scheme: str
) -> None:
    step = {"light": "char-int", "dark": "char-double"}[scheme]  # one that nobody has predicted
    opened = tab(f"#/alignment/padding/types/{step}")
    page = opened.page
    page.keyboard.type("7")
    found = faults(opened)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.get_by_role("row", name="wrong").first.wait_for()
    found += faults(opened)
    page.get_by_role("button", name="Results").click()
    page.get_by_role("region", name="Results").wait_for()
    assert found + faults(opened) == []


def test_a_drifted_step_is_accessible(faults: Check, context: BrowserContext, drifted: Stage) -> None:
    opened = OpenPage(context.new_page())
    opened.page.goto(f"http://127.0.0.1:{drifted.service.listener.port}/#/t1/b1/p1/drifted")
    opened.ready()
    opened.page.keyboard.press("Enter")
    opened.page.locator("#result", has_text="Expected").wait_for()
    assert faults(opened) == []


def test_the_page_without_a_session_is_accessible(faults: Check, context: BrowserContext, alone: Stage) -> None:
    opened = OpenPage(context.new_page())
    opened.page.goto(f"http://127.0.0.1:{alone.service.listener.port}/")
    opened.ready()
    opened.page.get_by_text("Start one in a terminal").wait_for()
    assert faults(opened) == []
