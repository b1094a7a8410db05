"""The types of the chart: how up, down and candles that can still change look."""

from __future__ import annotations

import pytest

from tests.browser.market.conftest import Tab, query, shown

pytestmark = pytest.mark.functional


def test_each_type_is_drawn_on_each_scale(tab: Tab) -> None:
    opened = tab()
    for kind in ("candles", "hollow", "bars", "line", "area"):
        opened.go(query(type=kind, inverted=1)).drawn()
        colour = "var(--accent)" if kind in ("line", "area") else "var(--up)"
        for key, scale in (("Alt+i", "linear"), ("Alt+l", "log"), ("Alt+p", "percent")):
            opened.keys(key)
            assert shown(opened).get("scale", "linear") == scale
            opened.becomes(lambda: opened.pixels(colour, 0.3, 0.5, 24) > 50)  # noqa: B023
