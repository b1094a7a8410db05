"""The price axis: what restores its automatic scale, and the label of the newest price."""

from __future__ import annotations

from decimal import Decimal

import pytest
from playwright.sync_api import expect

from tests.browser.market.conftest import ChartPage, Tab, drawn_texts, iso, query, settled
from tests.browser.market.stage import MINUTE, Stage, minutes, now, tick

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


def test_the_newest_price_is_at_the_axis_wherever_the_view_is(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:FAR", now() // MINUTE * MINUTE - 3000 * MINUTE
    stage.write(*(tick(symbol, start + at * MINUTE, str(100 + at)) for at in range(3001)))
    opened = tab(query(symbol, **{"from": iso(start), "to": iso(start + 100 * MINUTE)})).drawn()
    page = opened.page
    label = page.locator("#last-price")

    def place() -> tuple[float, float, float]:
        """The middle of the label, and the ends of the chart above the time axis."""
        box, chart = label.bounding_box(), page.locator("#chart canvas").first.bounding_box()
        assert box is not None
        assert chart is not None
        return box["y"] + box["height"] / 2, chart["y"], chart["y"] + chart["height"]

    expect(label).to_have_text("↑ 3 100.00".replace(" 1", "\u202f1"))
    middle, top, _ = place()
    assert middle < top + 20, "at the upper edge"
    assert "200.000" in drawn_texts(opened), "the last close in sight has a label, too"
    stage.write(tick(symbol, now(), "50", at=1))
    expect(label).to_have_text("↓ 50.0000")
    middle, _, end = place()
    assert middle > end - 20, "at the lower edge"
    opened.keys("End")
    expect(label).to_have_text("50.0000")
    settled(opened)
    wanted = page.evaluate("import('/static/chart.js').then((chart) => chart.placeOf('50').y)")
    middle, top, _ = place()
    assert abs(middle - top - wanted) < 3
    assert "50.0000" not in drawn_texts(opened), "the label is not there twice"
    opened.keys("Alt+p")
    expect(label).to_contain_text(" %")
