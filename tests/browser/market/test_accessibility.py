"""axe-core finds no serious and no critical fault in any state of the chart page and of the documents beside it, in
light and in dark colours."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.axe import COLOURS, serious_faults
from tests.browser.market.conftest import SIZE, ChartPage
from tests.browser.market.stage import Stage
from tests.browser.market.tour import states

pytestmark = [pytest.mark.functional, pytest.mark.timeout(300)]

LIKE_OTHERS = {"interval", "time-zone", "more-menu", "date", "phone", "phone-help", "unknown-symbol", "unanswered"}
"""The states that have no colours of their own. They are not checked in dark colours."""


def found_in(opened: ChartPage, axe: str, *, is_dark_too: bool) -> list[str]:
    page = opened.page
    if page.evaluate("!window.axe"):
        page.evaluate(axe)
    found = serious_faults(page)
    if is_dark_too:
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        found += serious_faults(page, rules=COLOURS)
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
    return found


def test_every_state_of_the_page_is_accessible(browser: Browser, stage: Stage, axe: str) -> None:
    credentials = {"username": stage.user, "password": stage.password}
    context = browser.new_context(
        viewport=SIZE, http_credentials=credentials, reduced_motion="reduce", color_scheme="light"
    )  # type: ignore[call-overload]
    opened = ChartPage(context.new_page(), stage)
    found = {name: found_in(opened, axe, is_dark_too=name not in LIKE_OTHERS) for name in states(opened, stage)}
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert len(found) == 18
    assert opened.faults == []
    context.close()


def test_the_documents_are_readable_without_a_login_and_without_scripts(
    browser: Browser, stage: Stage, axe: str
) -> None:
    page = browser.new_page(color_scheme="light")
    opened = ChartPage(page, stage)
    for path in ("docs", "problems"):
        answer = page.goto(stage.address + path)
        assert answer is not None
        assert answer.status == 200
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            opened.becomes(lambda width=width: page.evaluate("document.scrollingElement.scrollWidth") == width)
        assert found_in(opened, axe, is_dark_too=path == "docs") == [], path  # both have the same colours
    page.goto(f"{stage.address}docs")
    page.get_by_role("link", name="invalid_value").first.click()
    page.wait_for_url(f"{stage.address}problems#invalid_value")
    page.close()
