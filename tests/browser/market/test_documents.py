"""The pages ``/docs`` and ``/problems`` of the frontend: they fit a telephone, and axe-core finds no fault in them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.market.stage import Stage
from tests.browser.test_accessibility import CHECK, axe  # noqa: F401

pytestmark = pytest.mark.functional


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_documents_are_readable_without_a_login_and_without_scripts(
    browser: Browser,
    stage: Stage,
    axe: str,  # noqa: F811
    scheme: str,
) -> None:
    for path, width in (("docs", 390), ("docs", 1280), ("problems", 390)):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        try:
            answer = page.goto(stage.address + path)
            assert answer is not None
            assert answer.status == 200
            assert page.evaluate("document.scrollingElement.scrollWidth") == width
            page.evaluate(axe)
            assert page.evaluate(CHECK, [{"include": ["html"]}, {}]) == []
            if path == "docs":
                page.get_by_role("link", name="invalid_value").first.click()
                assert page.url == f"{stage.address}problems#invalid_value"
        finally:
            page.close()
