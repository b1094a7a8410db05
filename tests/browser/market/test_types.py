"""The types of the chart, which follow each other on one page: each is drawn in its colour on each scale."""

from __future__ import annotations

import pytest

from tests.browser.market.conftest import Tab, query, shown

pytestmark = pytest.mark.functional


def test_each_type_is_drawn_on_each_scale(tab: Tab) -> None:
    opened = tab(query(type="area")).drawn()
    for kind in ("candles", "hollow", "bars", "line", "area"):
        opened.keys("Alt+y")
        assert shown(opened).get("type", "candles") == kind
        colour = "var(--accent)" if kind in ("line", "area") else "var(--up)"
        for key, scale in (("Alt+l", "log"), ("Alt+p", "percent"), ("Alt+p", "linear")):
            opened.keys(key)
            assert shown(opened).get("scale", "linear") == scale
            opened.becomes(lambda: opened.pixels(colour, 0.3, 0.5, 24) > 50)  # noqa: B023
