"""The price axis: what restores its automatic scale, and the label of the newest price."""

from __future__ import annotations

from decimal import Decimal

import pytest
from playwright.sync_api import expect

from tests.browser.market.conftest import ChartPage, Tab, query, settled
from tests.browser.market.stage import Stage, minutes, now

pytestmark = pytest.mark.functional

POWERS = (-15, -12, -9, -6, -3, 0, 2, 5, 8, 12)
COLOURS = ("var(--up)", "var(--down)")


def drag(opened: ChartPage, from_axis: bool, by: int) -> None:
    """Drag the price axis, or the chart, up or down."""
    chart = opened.page.locator("#chart").bounding_box()
    assert chart is not None
    x, y = chart["x"] + (chart["width"] - 30 if from_axis else chart["width"] / 2), chart["y"] + 250
    opened.page.mouse.move(x, y)
    opened.page.mouse.down()
    opened.page.mouse.move(x, y + by / 2)
    opened.page.mouse.move(x, y + by)
    opened.page.mouse.up()


def candle_pixels(opened: ChartPage) -> int:
    return sum(opened.pixels(colour) for colour in COLOURS)


def test_a_dragged_axis_never_hides_the_candles(tab: Tab, stage: Stage) -> None:
    for power in POWERS:
        prices = [format(Decimal(f"{digits}E{power}"), "f") for digits in ("1", "1.04", "0.98", "1.015")]
        stage.write(*minutes(f"DEMO:MAGNITUDE{power}", now(), 60, prices))
    opened = tab(query(f"DEMO:MAGNITUDE{POWERS[-1]}")).drawn()
    auto = opened.page.get_by_role("button", name="Auto", exact=True)
    expect(auto).to_be_hidden()
    for power in POWERS:
        drag(opened, from_axis=True, by=150)
        expect(auto).to_be_visible()
        opened.choose(f"MAGNITUDE{power}")
        opened.becomes(lambda power=power: f"symbol=DEMO:MAGNITUDE{power}&" in settled(opened))
        assert opened.becomes(lambda: candle_pixels(opened)) > 100, f"no candle of 1e{power} is seen"
        expect(auto).to_be_hidden()

    # Each of these fits the prices again, too.
    for action in (
        lambda: opened.choose("5"), lambda: opened.keys("Alt+l"), lambda: opened.keys("Alt+i"),
        lambda: opened.keys("Alt+a"), auto.click,
    ):  # fmt: skip
        drag(opened, from_axis=True, by=150)
        expect(auto).to_be_visible()
        action()
        expect(auto).to_be_hidden()

    # The page notices when no candle is in sight any more.
    drag(opened, from_axis=True, by=100)
    for _ in range(4):
        drag(opened, from_axis=False, by=400)
    opened.becomes(lambda: candle_pixels(opened) > 100)
