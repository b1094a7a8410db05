"""The page in its states under axe-core: no serious and no critical fault, in light and in dark; and no small text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.measures import faults
from tests.browser.tour import states
from tests.functional.registry import npm_install
from tests.functional.serving import Stage

pytestmark = pytest.mark.functional

AXE = "axe-core@4.14.1"
CHECK = """async ([scope, options]) => {
  const { violations } = await axe.run(scope, { resultTypes: ['violations'], ...options });
  return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.flat().join(' ')} ${node.failureSummary}`));
}"""
SHEETS = {"first-visit", "question", "judged", "teacher", "annotations"}
"""The states in which the sheets look different. Elsewhere they are left out, because they take axe-core longest."""
DARK = SHEETS | {"program", "control", "turned-away", "search", "map", "results", "build-error", "no-session"}
"""The states with colours of their own."""
NARROW = {"question", "judged-long", "map", "results", "annotations"}


@pytest.fixture(scope="module")
def axe() -> Iterator[str]:
    """The script of axe-core."""
    with tempfile.TemporaryDirectory(prefix="card-npm-", dir="/tmp") as folder:
        npm_install([AXE], Path(folder))
        yield (Path(folder) / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


def found_in(page: Page, name: str, **options: Any) -> list[str]:
    """The faults of a state."""
    scope = {"include": ["html"], "exclude": [] if name in SHEETS else ["#sheets"]}
    found: list[str] = page.evaluate(CHECK, [scope, options])
    return [f"{name}: {fault}" for fault in found + faults(page, "text")]


@pytest.mark.timeout(300)
def test_every_state_is_accessible_and_readable(axe: str, context: BrowserContext, stage: Stage) -> None:
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.add_init_script(axe)
    page.emulate_media(reduced_motion="reduce")
    found = []
    for name in states(page, stage):
        found += found_in(page, name)
        if name in DARK:
            page.emulate_media(color_scheme="dark")
            found += found_in(page, name, runOnly=["color-contrast"])
            page.emulate_media(color_scheme="light")
        if name in NARROW:
            page.set_viewport_size({"width": 800, "height": 1000})
            found += found_in(page, name)
            page.set_viewport_size({"width": 1280, "height": 720})
    assert found == []
