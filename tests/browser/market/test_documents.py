"""The pages ``/docs`` and ``/problems`` of the frontend: they fit a telephone, and axe-core finds no fault in them."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.browser.market.stage import Stage
from tests.browser.test_accessibility import CHECK

pytestmark = pytest.mark.functional


# In the quick run each page, colour scheme and width is once there.
QUICK = {("docs", 1280, "light"), ("problems", 390, "dark")}


@pytest.mark.parametrize(
    ("path", "width", "scheme"),
    [
        pytest.param(*each, marks=[] if each in QUICK else [pytest.mark.full])
        for each in product(("docs", "problems"), (390, 1280), ("light", "dark"))
    ],
)
def test_the_documents_are_readable_without_a_login_and_without_scripts(
    browser: Browser, stage: Stage, axe: str, path: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        answer = page.goto(stage.address + path)
        assert answer is not None
        assert answer.status == 200
        assert page.evaluate("document.scrollingElement.scrollWidth") == width
        page.evaluate(axe)
        assert page.evaluate(CHECK, [{"include": ["html"]}, {}]) == []
        if path == "docs":
            page.set_viewport_size({"width": 390, "height": 900})
            assert page.evaluate("document.scrollingElement.scrollWidth") == 390, "on a telephone"
            page.get_by_role("link", name="invalid_value").first.click()
            assert page.url == f"{stage.address}problems#invalid_value"
    finally:
        page.close()
