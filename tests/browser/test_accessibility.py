"""axe-core finds no serious and no critical fault in any state of the page, light or dark, and no text is too small."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.conftest import becomes
from tests.browser.measures import faults
from tests.browser.tour import states
from tests.functional.serving import Stage

pytestmark = pytest.mark.functional

CHECK = """async ([scope, options]) => {
  const { violations } = await axe.run(scope, { resultTypes: ['violations'], ...options });
  return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.flat().join(' ')} ${node.failureSummary}`));
}"""
REACHABLE = """() => [...sheets.shadowRoot.querySelectorAll('.source')].every((code) =>
  code.scrollWidth <= code.clientWidth || code.tabIndex === 0)"""
"""When the page is idle, it gives scrolling code a tab stop. axe-core must not run before that."""
SHEETS = {"first-visit", "question", "judged", "teacher", "annotations"}
"""The states in which the sheets look different. In other states the sheets are left out, because axe-core takes
longest for them."""
DARK = SHEETS | {"program", "control", "turned-away", "search", "map", "results", "build-error", "no-session"}
"""The states that also have other colours."""
NARROW = {"question", "judged-long", "map", "results", "annotations"}
QUICK_STATES = 4
"""The first states of the tour: a learner opens the page, gets a question, predicts and is judged."""


def found_in(page: Page, name: str, *, with_sheets: bool) -> list[str]:
    """The faults of a state."""
    scope = {"include": ["html"], "exclude": [] if with_sheets else ["#sheets"]}
    if with_sheets:
        becomes(page, REACHABLE)
    found: list[str] = page.evaluate(CHECK, [scope, {}])
    return [f"{name}: {fault}" for fault in found + faults(page, "text")]


@contextmanager
def dark(page: Page) -> Iterator[None]:
    page.emulate_media(color_scheme="dark")
    yield
    page.emulate_media(color_scheme="light")


@contextmanager
def narrow(page: Page) -> Iterator[None]:
    page.set_viewport_size({"width": 800, "height": 1000})
    yield
    page.set_viewport_size({"width": 1280, "height": 720})


def looks(name: str, is_full: bool) -> list[Callable[[Page], AbstractContextManager[None]]]:
    """The appearances in which axe-core checks a state. The quick run uses only the last of them, so each appearance is
    checked in some states."""
    found = [nullcontext, *([dark] if name in DARK else []), *([narrow] if name in NARROW else [])]
    return found if is_full else found[-1:]


@pytest.mark.timeout(300)
def test_every_state_is_accessible_and_readable(
    axe: str, context: BrowserContext, stage: Stage, loops: Callable[..., int]
) -> None:
    is_full = bool(loops(quick=0, full=1))
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.add_init_script(axe)
    page.emulate_media(reduced_motion="reduce")
    found = []
    for name in islice(states(page, stage), loops(quick=QUICK_STATES, full=sys.maxsize)):
        for look in looks(name, is_full):
            with look(page):
                found += found_in(page, name, with_sheets=name in SHEETS and (is_full or name == "first-visit"))
    assert found == []
