"""The controls of the chart: keys, clicks, touches, choices, and saved files."""

from __future__ import annotations

import re
from pathlib import Path
from struct import unpack
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, iso, query, settled, shown
from tests.browser.market.stage import HOUR, Stage, now, tick
from tests.browser.requests import held

pytestmark = pytest.mark.functional


def test_letters_find_a_symbol_and_digits_an_interval(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:WBTC-ETH", now(), "38.5"))
    opened = tab()
    page = opened.page
    lists = held(page, "**/api/v1/symbols")
    opened.go(query()).drawn()
    page.keyboard.type("usdc")  # before the symbols arrive
    page.get_by_role("option", name="No symbol has that in its name.").wait_for()
    for route in lists:
        route.continue_()
    page.unroute("**/api/v1/symbols")
    page.get_by_role("option", name=SYMBOL).wait_for()
    opened.keys("Escape")
    page.keyboard.type("wbtc")
    page.get_by_role("option", name="DEMO:WBTC-ETH").wait_for()
    opened.keys("Enter")
    opened.becomes(lambda: "symbol=DEMO:WBTC-ETH" in opened.url)
    for typed, interval in (("15", "15m"), ("1M", "1M"), (",w", "1w"), ("240", "4h")):
        page.keyboard.type(typed)
        opened.keys("Enter")
        opened.becomes(lambda interval=interval: f"interval={interval}&" in opened.url)
    opened.keys("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    opened.keys("Escape", "Alt+l")
    opened.becomes(lambda: "scale=log" in opened.url)
    opened.closes_at("38.5")
    opened.keys("Shift+ArrowLeft")
    expect(page.locator("#spoken")).to_contain_text("close 38.5")
    opened.keys("Alt+Enter")
    opened.becomes(lambda: page.evaluate("document.fullscreenElement !== null"))
    opened.keys("Alt+Enter")
    opened.becomes(lambda: page.evaluate("document.fullscreenElement === null"))


def test_a_telephone_closes_its_sheet_after_each_choice(tab: Tab) -> None:
    opened = tab(query(interval="15m")).drawn()
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 844})
    sheet = page.locator("#controls")

    def in_sheet(control: str) -> None:
        page.get_by_role("button", name="View and export").click()
        page.locator(control).click()

    for control in ("#log", "#trades-toggle", "[data-interval='5m']", "#chart"):
        in_sheet(control)
        sheet.wait_for(state="hidden")
    page.get_by_role("button", name="View and export").click()
    page.get_by_role("button", name="Go to date").click()
    page.get_by_label("Date", exact=True).fill(iso(now() - HOUR)[:16])
    opened.keys("Enter")
    sheet.wait_for(state="hidden")
    opened.becomes(lambda: "from=" in opened.url)
    page.get_by_role("button", name="View and export").click()
    page.get_by_role("button", name="Indicators").click()
    period = page.get_by_label("EMA period")
    period.fill("0")
    period.press("Enter")
    page.get_by_text("EMA period: 2 to 500, a whole number.").wait_for()
    assert "ema" not in settled(opened)
    period.fill("50")
    period.press("Enter")
    opened.becomes(lambda: "indicators=ema.50" in opened.url)
    page.locator("#indicators-menu").get_by_role("button", name="Done").click()
    page.locator("#indicators-menu").wait_for(state="hidden")


def test_the_colours_follow_the_system_until_the_user_chooses(tab: Tab) -> None:
    opened = tab(query()).drawn()

    def paper(page: Page) -> str:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    light = paper(opened.page)
    opened.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    opened.becomes(lambda: paper(opened.page) != light)
    opened.becomes(lambda: opened.pixels("var(--paper)") > 100_000)
    opened.keys("Alt+o")
    opened.page.select_option("#theme", "light")
    opened.page.reload()
    opened.drawn()
    assert paper(opened.page) == light


# -- saved and copied --------------------------------------------------------------------------------------------------


def saved(opened: ChartPage, key: str) -> tuple[str, bytes]:
    """The name and the content of the file that a key saves."""
    settled(opened)
    with opened.page.expect_download() as saving:
        opened.keys(key)
    return saving.value.suggested_filename, Path(saving.value.path()).read_bytes()


def test_the_saved_csv_has_the_visible_candles_with_every_digit(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:CSV", now() // HOUR * HOUR - 24 * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, f"{100 + at}.000000000000000000000000000001") for at in range(300)))
    opened = tab(query(symbol, "1h", bars=50)).drawn()
    columns = ("t", "T", "o", "h", "l", "c", "v", "q", "n", "vwap", "bv", "closed", "finalized")
    for opening in ("previous", "first"):
        name, content = saved(opened, "Alt+c")
        assert name == f"DEMO-CSV_1h_{iso(end)[:10]}.csv"
        asked = f"/v1/chart?symbol={quote(symbol)}&interval=1h&limit=45&open={opening}"
        rows = [[str(row[name]) if name in row else "" for name in columns] for row in stage.read(asked)["candles"]]
        lines = content.decode().replace("true", "True").replace("false", "False").split("\r\n")
        assert [line.split(",") for line in lines] == [list(columns), *rows, [""]], opening
        opened.keys("Alt+e")


# Keeps the texts of the canvases.
RECORD = """() => {
  window.written = [];
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    written.push(text);
    return fillText.call(this, text, ...rest);
  };
}"""


def test_the_picture_has_the_chart_its_title_and_its_legend(tab: Tab) -> None:
    opened = tab(query(bars=50, indicators="sma.20,sides")).drawn()
    page = opened.page
    page.evaluate(RECORD)
    indicators = page.locator("#legend .indicator").all_text_contents()
    _, content = saved(opened, "Alt+s")
    chart = page.locator("#chart").bounding_box()
    assert chart is not None
    assert unpack(">II", content[16:24]) == (chart["width"], chart["height"] + 56 + 28), "room for title and notice"
    written = " ".join(page.evaluate("written"))
    for text in (f"{SYMBOL} · 1m · UTC", *indicators, "tradingview.com"):
        assert re.sub(" +", " ", text).strip() in written

    # Picture and link are copied, too.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    address = settled(opened)
    opened.keys("Alt+k")
    page.get_by_text("The link is copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == address
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Copy image").click()
    page.get_by_text("The picture is copied.").wait_for()
    assert page.evaluate("navigator.clipboard.read().then(([each]) => each.types)") == ["image/png"]
    assert page.locator("#more-menu").is_hidden()


def test_a_panel_beside_the_chart_keeps_the_range(tab: Tab) -> None:
    opened = tab(query()).drawn()
    opened.keys("ArrowLeft", "ArrowLeft", "ArrowLeft")
    before = shown(opened)
    opened.keys("Alt+w")
    opened.page.locator("#watchlist").wait_for()
    after = shown(opened)
    assert after["panels"] == "watchlist"
    assert (after["from"], after["to"]) == (before["from"], before["to"])
    opened.page.reload()
    opened.drawn()
    assert shown(opened) == after
