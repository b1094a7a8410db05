"""axe-core finds no serious and no critical fault in any state of the page, light or dark, and no text is too small."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.axe import COLOURS, serious_faults
from tests.browser.conftest import ARENA, becomes, stage_of
from tests.browser.measures import faults
from tests.browser.tour import states
from tests.functional.serving import Stage

pytestmark = [pytest.mark.functional, pytest.mark.timeout(300)]

SHEETS = {"first-visit", "question", "judged", "teacher", "annotations"}
"""The states in which the sheets look different. In other states the sheets are left out, because axe-core takes
longest for them."""
DARK = SHEETS | {"program", "control", "turned-away", "search", "map", "results", "build-error", "no-session"}
"""The states that also have other colours."""
NARROW = {"question", "judged-long", "map", "results", "annotations"}


def found_in(page: Page, name: str) -> list[str]:
    """The faults of a state, in each appearance that it has."""
    excluded = [] if name in SHEETS else ["#sheets"]
    found = serious_faults(page, excluded) + faults(page, "text")
    if name in DARK:
        page.emulate_media(color_scheme="dark")
        found += serious_faults(page, excluded, COLOURS)
        page.emulate_media(color_scheme="light")
    if name in NARROW:
        page.set_viewport_size({"width": 800, "height": 1000})
        found += serious_faults(page, excluded) + faults(page, "text")
        page.set_viewport_size({"width": 1280, "height": 720})
    return [f"{name}: {fault}" for fault in found]


def test_every_state_is_accessible_and_readable(axe: str, context: BrowserContext) -> None:
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.add_init_script(axe)
    page.emulate_media(reduced_motion="reduce")
    found = []
    with stage_of(ARENA, with_session=True) as stage:
        for name in states(page, stage):
            found += found_in(page, name)
    assert found == []


def test_the_lesson_report_is_readable_in_any_window(axe: str, context: BrowserContext, arena: Stage) -> None:
    page = context.new_page()
    page.add_init_script(axe)
    page.goto(f"http://127.0.0.1:{arena.service.listener.port}/api/report/lesson.html")
    assert serious_faults(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious_faults(page, rules=COLOURS) == []
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 720})
        becomes(page, "(width) => document.documentElement.scrollWidth === width", width)
