"""The controls of the chart: keys, clicks, touches, choices, and saved files."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route

from tests.browser.market.conftest import SYMBOL, Tab, choose_zone, query, settled
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional


def test_letters_find_a_symbol_and_digits_an_interval(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:WBTC-ETH", now(), "38.5"))
    opened = tab(query()).drawn()
    page = opened.page
    page.keyboard.type("wbtc")
    page.get_by_role("option", name="DEMO:WBTC-ETH").wait_for()
    page.keyboard.press("Enter")
    opened.becomes(lambda: "symbol=DEMO:WBTC-ETH" in opened.url)
    for typed, interval in (("15", "15m"), ("1M", "1M"), (",w", "1w"), ("240", "4h")):
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        opened.becomes(lambda interval=interval: f"interval={interval}&" in opened.url)
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+l")
    opened.becomes(lambda: "scale=log" in opened.url)
    page.keyboard.press("Shift+ArrowLeft")
    assert "close 38.5" in (page.locator("#spoken").text_content() or "")


def test_a_search_that_is_open_before_the_symbols_arrive_finds_them(tab: Tab) -> None:
    opened = tab()
    page = opened.page
    held: list[Route] = []
    page.route("**/api/v1/symbols", lambda route: held.append(route))  # noqa: PLW0108 - Playwright calls no built-in
    opened.go(query()).drawn()
    page.keyboard.type("usdc")
    page.get_by_role("option", name="No symbol has that in its name.").wait_for()
    for route in held:
        route.continue_()
    page.get_by_role("option", name=SYMBOL).wait_for()
    page.keyboard.press("Escape")


def test_a_click_leaves_no_focus_ring_and_changes_no_width(tab: Tab) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    rings = "document.querySelectorAll(':focus-visible').length"
    width = "document.querySelector('#controls').clientWidth"
    before = page.evaluate(width)
    page.get_by_role("button", name="5m", exact=True).click()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(rings) == 0
    page.keyboard.press("Tab")
    assert page.evaluate(rings) == 1, "the keyboard still has one"
    page.select_option("#more-intervals", "1M")
    opened.becomes(lambda: "interval=1M" in opened.url)
    assert page.evaluate(width) == before
    assert page.locator("#more-intervals").input_value() == "1M"


@pytest.mark.full
def test_a_telephone_has_room_for_the_symbol_and_closes_its_sheet(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:WBTC-USDC", now() - 70_000, "67000"))
    opened = tab(query("DEMO:WBTC-USDC", "15m")).drawn()
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 844})
    name = page.locator("#symbol-name")
    assert name.evaluate("(name) => name.scrollWidth <= name.clientWidth")
    sheet = page.locator("#controls")
    for control in ("#log", "#trades-toggle", "[data-interval='5m']"):
        page.get_by_role("button", name="View and export").click()
        page.locator(control).click()
        sheet.wait_for(state="hidden")
    page.get_by_role("button", name="View and export").click()
    page.locator("#zone").click()
    sheet.wait_for(state="hidden")
    page.get_by_role("option", name="UTC").first.click()
    page.get_by_role("button", name="View and export").click()
    page.locator("#chart").click()
    sheet.wait_for(state="hidden")
    page.get_by_role("button", name="View and export").click()
    page.locator("#help").click()
    page.get_by_role("dialog", name="Touch").get_by_text("Pinch").wait_for()
    assert page.get_by_text("Alt").count() == 0


@pytest.mark.full
def test_every_label_has_the_chosen_time_zone(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:ZONED", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * MINUTE, "100") for at in range(200)))
    opened = tab(query(symbol, "1m")).drawn()
    page = opened.page
    page.keyboard.press("Alt+t")
    pictures = set()
    local = "([ms, minutes]) => new Date(ms + minutes * 60000).toISOString().replace('T', ' ').slice(0, 19)"

    def labels() -> tuple[str, str]:
        first = page.locator("#trade-rows tr td").first
        return page.locator("#legend-time").text_content() or "", first.text_content() or ""

    for zone, minutes_ahead in (("UTC", 0), ("UTC+05:45", 345), ("UTC−03:30", -210)):
        choose_zone(page, zone)
        time = page.evaluate(local, [end, minutes_ahead])
        opened.becomes(lambda time=time: (labels()[0], labels()[1][-8:]) == (time[:16], time[11:]))
        pictures.add(page.locator("#chart td:nth-child(2)").last.screenshot())
    assert len(pictures) == 3, "the axis of the times"
    assert "zone=-03:30" in settled(opened)


@pytest.mark.full
def test_a_time_zone_shifts_the_buckets(tab: Tab, stage: Stage) -> None:
    opened = tab(query(interval="1d")).drawn()
    choose_zone(opened.page, "+05:30")
    path = f"/v1/chart?symbol={quote(SYMBOL)}&interval=1d&timeZone=%2B05:30&limit=1"
    candle = stage.read(path)["candles"][0]
    opened.becomes(lambda: opened.legend().get("n") == str(candle["n"]))
    local = opened.page.evaluate("(ms) => new Date(ms + 330 * 60000).toISOString().slice(0, 10)", candle["t"])
    assert local in (opened.page.locator("#legend-time").text_content() or "")


@pytest.mark.full
def test_the_colours_follow_the_system_until_the_user_chooses(tab: Tab, stage: Stage) -> None:
    opened = tab(query()).drawn()

    def paper(page: Page) -> str:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    light = paper(opened.page)
    opened.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    opened.becomes(lambda: paper(opened.page) != light)
    assert opened.has_pixels("var(--paper)") > 100_000
    opened.page.keyboard.press("Alt+o")
    opened.page.select_option("#theme", "light")
    opened.page.reload()
    opened.drawn()
    assert paper(opened.page) == light


def test_the_saved_csv_has_the_visible_candles_with_every_digit(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:CSV", now() // HOUR * HOUR - 24 * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, f"{100 + at}.000000000000000000000000000001") for at in range(300)))
    opened = tab(query(symbol, "1h", bars=50)).drawn()
    settled(opened)
    with opened.page.expect_download() as saving:
        opened.page.keyboard.press("Alt+c")
    day = opened.page.evaluate("(ms) => new Date(ms).toISOString().slice(0, 10)", end)
    assert saving.value.suggested_filename == f"DEMO-CSV_1h_{day}.csv"
    saved = Path(saving.value.path()).read_bytes().decode()
    columns = ("t", "T", "o", "h", "l", "c", "v", "q", "n", "vwap", "bv", "closed", "finalized")
    newest = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1h&limit=45")["candles"]
    rows = [[str(row[name]) if name in row else "" for name in columns] for row in newest]
    cells = [line.replace("true", "True").replace("false", "False").split(",") for line in saved.split("\r\n")]
    assert cells == [list(columns), *rows, [""]]


@pytest.mark.full
def test_the_saved_picture_shows_the_chart_and_its_title(tab: Tab, stage: Stage) -> None:
    opened = tab(query(bars=50)).drawn()
    settled(opened)
    with opened.page.expect_download() as saving:
        opened.page.keyboard.press("Alt+s")
    picture = Path(saving.value.path()).read_bytes()
    found = opened.page.evaluate(PICTURE, [b64encode(picture).decode(), 56])
    chart = opened.page.locator("#chart").bounding_box()
    assert chart
    assert (found["width"], found["height"]) == (chart["width"], chart["height"] + 56 + 28)
    assert found["title"] > 500, "pixels of letters over the chart"
    assert found["up"] > 1000
    assert found["down"] > 1000


@pytest.mark.full
def test_the_saved_picture_has_the_legend_at_every_magnitude_and_width(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:PICTURED", now() // MINUTE * MINUTE
    stage.write(*(tick(symbol, end - at * MINUTE, f"0.00000000000000000000123{at % 7}", "7") for at in range(300)))
    opened = tab(query(symbol, bars=50)).drawn()
    page = opened.page
    page.evaluate(RECORD)
    for width, is_one_line in ((1280, True), (390, False)):
        page.set_viewport_size({"width": width, "height": 720})
        settled(opened)
        with page.expect_download() as saving:
            page.keyboard.press("Alt+s")
        picture = page.evaluate(PICTURE, [b64encode(Path(saving.value.path()).read_bytes()).decode(), 56])
        written = page.evaluate("written.splice(0)")
        after_title = written[written.index(f"{symbol} · 1m · UTC") + 1 :]
        end = next(at for at, text in enumerate(after_title) if text.startswith("Charts:"))
        lines, notice = after_title[:end], after_title[end : end + (1 if is_one_line else 2)]
        assert notice[-1].endswith("tradingview.com"), "the notice fits, too"
        assert (len(lines) == 1) == is_one_line
        chart = page.locator("#chart").bounding_box()
        assert chart
        assert picture["height"] == chart["height"] + 56 + 18 * (len(lines) - 1) + 28 + 18 * (len(notice) - 1)
        legend, shown = "   ".join(lines), opened.legend()
        assert (page.locator("#legend-time").text_content() or "") in legend
        assert [name for name in "OHLCV" if f"{name} {shown[name]}" not in legend] == []


@pytest.mark.full
def test_the_saved_picture_has_the_values_of_the_indicators(tab: Tab) -> None:
    opened = tab(query(bars=50, indicators="sma.20,sides")).drawn()
    page = opened.page
    page.evaluate(RECORD)
    settled(opened)
    shown = page.locator("#legend .indicator").all_text_contents()
    assert len(shown) == 2
    with page.expect_download():
        page.keyboard.press("Alt+s")
    legend = " ".join(page.evaluate("written"))
    assert [each for each in shown if re.sub(" +", " ", each).strip() not in legend] == []


# Keeps the texts of the canvases.
RECORD = """() => {
  window.written = [];
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    written.push(text);
    return fillText.call(this, text, ...rest);
  };
}"""


@pytest.mark.full
def test_an_export_of_nothing_says_so(tab: Tab) -> None:
    opened = tab(query(**{"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}))
    page = opened.page
    page.get_by_role("heading", name="No trades in this range").wait_for()
    saved: list[object] = []
    page.on("download", lambda download: saved.append(download))  # noqa: PLW0108 - Playwright marks the function
    for key in ("Alt+c", "Alt+s", "Alt+m"):
        page.keyboard.press(key)
        page.get_by_text("There are no candles in sight.").wait_for()
        page.evaluate("document.querySelector('#toast').textContent = ''")
    assert saved == []


# The size of a PNG file, and the number of its pixels of each colour. The title has the given height.
PICTURE = """async ([encoded, head]) => {
  const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
  const { width, height } = picture;
  const context = new OffscreenCanvas(width, height).getContext('2d');
  context.drawImage(picture, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const found = { width, height, title: 0, up: 0, down: 0 };
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue] = data.subarray(at, at + 3);
    if (at / 4 < width * head) found.title += red + green + blue < 600;
    else found[green > red + 30 ? 'up' : red > green + 30 ? 'down' : 'other'] += 1;
  }
  return found;
}"""
