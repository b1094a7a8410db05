"""The chart: what it draws, live and of the past, and what the address, the keys and the exports do."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import APIResponse, Page, Response, Route

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from tests.browser.market.conftest import SYMBOL, ChartPage
from tests.browser.market.stage import HOUR, MINUTE, Stage, minutes, now, tick

pytestmark = pytest.mark.functional

Tab = Callable[[str], ChartPage]
LIGHTER_UP = "color-mix(in srgb, var(--up) 45%, var(--paper))"


def query(symbol: str = SYMBOL, interval: str = "1m", **more: object) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in {"symbol": symbol, "interval": interval, **more}.items())


def test_candles_with_every_digit_and_who_is_logged_in(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:LONG-DIGITS"
    price = "2503.123456789012345678901234567891"
    stage.write(tick(symbol, now() - HOUR, "0.000000000000000001"), tick(symbol, now(), price, "0.000000000000000007"))
    opened = tab(query(symbol, "1h")).drawn()
    last = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1h&limit=1")["candles"][0]
    assert opened.legend() == {name.upper(): last[name] for name in "ohlcv"} | {"n": "1"}
    assert last["c"] == price
    assert opened.page.locator("#user").text_content() == stage.user
    assert opened.page.locator("#demo").is_visible()
    assert opened.page.get_by_role("link", name="Apache License 2.0").is_visible()
    assert opened.page.locator("#chart a[href*='tradingview.com']").is_visible(), "the library's own attribution"


def test_a_trade_appears_live_and_its_retraction_corrects_the_candle(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:LIVE"
    start = now()
    stage.write(tick(symbol, start - 1000, "100", block=1))
    opened = tab(query(symbol, "1d")).drawn()
    opened.page.keyboard.press("Alt+t")
    opened.page.locator("#trade-rows tr").wait_for()
    before = opened.legend()
    stage.write(tick(symbol, start, "120.5", "2", block=2))
    opened.becomes(lambda: opened.legend()["C"] == "120.5")
    assert (opened.legend()["n"], opened.legend()["V"]) == ("2", "3")
    assert (
        opened.page.locator("#trade-rows tr").first.text_content()
        == (opened.page.locator("#trade-rows tr td").first.text_content() or "") + "120.52"
    )
    stage.write({"retract": {"symbol": symbol, "block_hash": "0x2"}})
    opened.becomes(lambda: opened.legend() == before)
    opened.page.locator("#legend .corrected").wait_for()
    opened.page.locator("#trade-rows tr.retracted").wait_for()
    assert opened.page.locator("#trade-rows tr").count() == 2


def test_a_trade_that_comes_while_the_view_is_read_again_is_kept(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:AGAIN", now()
    stage.write(tick(symbol, start - 1000, "100"))
    page = tab("").page
    frames: list[str] = []
    page.on("websocket", lambda made: made.on("framereceived", lambda frame: frames.append(str(frame))))
    page.goto(stage.address + query(symbol, "1d"))
    opened = ChartPage(page, stage).drawn()
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/api/v1/chart?*", lambda route: held.append((route, route.fetch())), times=1)
    page.keyboard.press("Alt+r")
    opened.becomes(lambda: held or page.evaluate("0"))
    stage.write(tick(symbol, start, "120.5"))
    opened.becomes(lambda: page.evaluate("0") or any("120.5" in each for each in frames))
    page.route("**/api/v1/chart?*", lambda route: route.abort())  # so that only live messages can bring it
    held[0][0].fulfill(response=held[0][1])
    opened.becomes(lambda: opened.legend()["C"] == "120.5")
    page.unroute("**/api/v1/chart?*")


def test_an_alias_in_the_address_becomes_its_symbol_and_is_live(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:CANONICAL"
    stage.write(tick(symbol, now() - 1000, "100"))
    with connect(conninfo(stage.state_dir)) as connection:
        connection.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('SHORT-NAME', %s)", (symbol,))
    opened = tab(query("SHORT-NAME", "1d")).drawn()
    opened.becomes(lambda: f"symbol={symbol}&" in opened.url)
    stage.write(tick(symbol, now(), "120.5"))
    opened.becomes(lambda: opened.legend()["C"] == "120.5")


@pytest.mark.full
def test_a_candle_that_can_still_change_is_lighter(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:FINALITY", now() // MINUTE * MINUTE - 200 * MINUTE
    stage.write(
        *(tick(symbol, start + at * MINUTE + part, str(100 + at % 7 + part), block=at + 1, at=part)
          for at in range(200) for part in (0, 1)),
        {"finalize": {"symbol": symbol, "block": 100}},
    )  # fmt: skip
    opened = tab(query(symbol, bars=220)).drawn()
    final, open_ones = (0.05, 0.4), (0.55, 0.9)
    assert opened.has_pixels("var(--up)", *final)
    assert opened.pixels("var(--up)", *open_ones) == 0, "nothing there is final"
    stage.write({"finalize": {"symbol": symbol, "block": 190}})
    assert opened.has_pixels("var(--up)", *open_ones), "finality arrives live"


@pytest.mark.full
def test_the_past_is_read_before_it_is_reached_and_only_once(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:PAST"
    stage.write(*minutes(symbol, now(), 4000))
    oldest = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1m&startTime=0&limit=1")["candles"][0]["t"]
    opened = tab(query(symbol, bars=500)).drawn()

    def drag_to_the_right() -> bool:
        opened.page.mouse.move(150, 300)
        opened.page.mouse.down()
        opened.page.mouse.move(1050, 300, steps=6)
        opened.page.mouse.up()
        assert opened.pixels("var(--up)", 0, 0.5), "a pan shows an empty screen"
        shown = opened.page.evaluate("Date.parse(new URLSearchParams(location.search).get('from'))")
        return shown is not None and shown < oldest + 700 * MINUTE

    opened.becomes(drag_to_the_right)
    asked = [parse_qs(urlsplit(each).query) for each in opened.chart_requests]
    assert len(asked) >= 4
    ends = [int(each["endTime"][0]) for each in asked if "endTime" in each]
    assert ends == sorted(set(ends), reverse=True), "each part is asked for once"
    again = [each for each in asked if "startTime" in each]
    assert len(again) <= 1, "what is known is asked for again after the subscription only"


@pytest.mark.full
def test_what_was_not_indexed_is_hatched_and_what_had_no_trades_is_not(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:GAPS", now() // MINUTE * MINUTE
    start = end - 200 * MINUTE
    traded = [*range(40), *range(80, 120), *range(160, 200)]
    stage.write(*(tick(symbol, start + at * MINUTE, str(100 + at % 5)) for at in traded))
    stage.cover(symbol, start, start + 120 * MINUTE)
    stage.cover(symbol, start + 160 * MINUTE, end + HOUR)
    time = "(ms) => new Date(ms).toISOString()"
    page = tab("").page
    opened = tab(query(symbol, **{"from": page.evaluate(time, start), "to": page.evaluate(time, end)})).drawn()
    hatch = ("color-mix(in srgb, var(--ink-soft) 30%, var(--paper))", 40)
    opened.becomes(lambda: hatched(opened, 0.62, 0.78, hatch) > 500)
    assert hatched(opened, 0.24, 0.36, hatch) < hatched(opened, 0.62, 0.78, hatch) / 4
    opened.page.mouse.move(300, 300)
    x = opened.page.locator("#chart").bounding_box()
    assert x
    opened.page.mouse.move(x["width"] * 0.28, 300)
    opened.page.locator("#legend", has_text="no trades").wait_for()
    opened.page.mouse.move(x["width"] * 0.66, 300)
    opened.page.locator("#legend", has_text="not indexed").wait_for()


def test_hatching_is_explained_where_it_is_in_sight(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:COVERED", now() // MINUTE * MINUTE
    stage.write(*(tick(symbol, end - at * MINUTE, "100") for at in range(300)))
    stage.cover(symbol, end - 250 * MINUTE, end + HOUR)
    opened = tab(query(symbol)).drawn()
    key = opened.page.locator("#hatched-key")
    settled(opened)
    assert key.is_hidden()
    for _ in range(20):
        opened.page.keyboard.press("ArrowLeft")
    key.wait_for()
    opened.page.keyboard.press("End")
    key.wait_for(state="hidden")


def hatched(opened: ChartPage, start: float, end: float, colour: tuple[str, int]) -> int:
    return opened.pixels(colour[0], start, end, colour[1])


def test_the_address_reproduces_the_view(tab: Tab, stage: Stage) -> None:
    last = now() // HOUR * HOUR
    opened = tab(query(interval="5m", zone="+05:30", scale="log")).drawn()
    page = opened.page
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    opened.becomes(lambda: "from=" in opened.url)
    opened.page.wait_for_timeout(600)  # longer than the address lags behind
    address, legend = opened.url, opened.legend()
    page.reload()
    opened.drawn()
    opened.becomes(lambda: opened.legend() == legend)
    assert opened.url == address
    shown = parse_qs(urlsplit(address.replace("+", "%2B")).query)
    assert (shown["symbol"], shown["interval"], shown["zone"], shown["scale"]) == (
        [SYMBOL],
        ["5m"],
        ["+05:30"],
        ["log"],
    )
    assert page.locator("#log").get_attribute("aria-pressed") == "true"
    assert page.evaluate("(text) => Date.parse(text)", shown["from"][0]) < last


def test_the_newest_candles_are_in_sight_however_old_they_are(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:STOPPED", now() // HOUR * HOUR - 20 * 24 * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, str(100 + at % 7)) for at in range(300)))
    stage.cover(symbol, end - 300 * HOUR, end + HOUR)
    opened = tab(query(symbol, "1h")).drawn()
    opened.becomes(lambda: "bars=160" in opened.url)
    assert opened.page.locator("#newest").is_hidden()
    assert min(opened.pixels(LIGHTER_UP, start, start + 0.1, 24) for start in (0.1, 0.5, 0.8)) > 100
    address = settled(opened)
    opened.page.reload()
    assert settled(opened.drawn()) == address


@pytest.mark.parametrize("interval", ["4h", "1m"])
def test_a_link_shows_the_same_picture(tab: Tab, stage: Stage, interval: str) -> None:
    """Also where the view begins within a bar, and where it lies in a long time without trades."""
    symbol, end = f"DEMO:PICTURE-{interval}", now() // HOUR * HOUR - 20 * 24 * HOUR
    length = {"4h": 4 * HOUR, "1m": MINUTE}[interval]
    stage.write(*(tick(symbol, end - at * length, str(100 + at % 7)) for at in (*range(20), *range(2000, 2200))))
    opened = tab(query(symbol, interval, bars=200)).drawn()
    page = opened.page
    page.mouse.move(600, 300)
    page.mouse.wheel(0, 120)
    page.mouse.down()
    page.mouse.move(901, 300, steps=5)
    page.mouse.up()
    page.mouse.move(600, 20)
    address, picture = settled(opened), page.locator("#chart").screenshot()
    page.reload()
    page.locator("#live.live").wait_for()
    assert settled(opened) == address
    assert "from=" in address
    assert page.locator("#chart").screenshot() == picture


def test_few_candles_are_as_wide_as_they_can_be_read(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:YOUNG", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, "100") for at in range(60)))
    opened = tab(query(symbol, "4h")).drawn()
    assert "bars=40" in settled(opened)
    opened.page.get_by_role("button", name="1h", exact=True).click()
    opened.becomes(lambda: "interval=1h" in opened.url)
    assert "bars=69" in settled(opened), "the sixty and some room"
    opened.page.keyboard.press("-")
    zoomed = settled(opened)
    opened.page.get_by_role("button", name="4h", exact=True).click()
    opened.becomes(lambda: "interval=4h" in opened.url)
    assert settled(opened) == zoomed.replace("=1h", "=4h"), "a number of bars that was chosen stays"


def test_new_candles_stay_in_sight_as_time_passes(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:FOLLOWED"
    stage.write(tick(symbol, now(), "100"))
    opened = tab(query(symbol, "1s", bars=8)).drawn()
    for price in range(101, 106):
        opened.page.wait_for_timeout(1000)
        stage.write(tick(symbol, now(), str(price)))
        opened.becomes(lambda price=price: opened.legend().get("C") == str(price))
    assert "bars=8" in settled(opened)
    assert opened.page.locator("#newest").is_hidden()


def test_a_symbol_or_interval_without_trades_in_the_range_shows_its_newest(tab: Tab, stage: Stage) -> None:
    before, after, end = "DEMO:BEFORE", "DEMO:AFTER", now() // HOUR * HOUR
    stage.write(*(tick(before, end - (500 + at) * HOUR, "100") for at in range(200)))
    stage.write(*(tick(after, end - at * HOUR, "7") for at in range(300)))
    opened = tab(query(before, "1h")).drawn()
    page = opened.page
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    kept = times(settled(opened))
    choose(opened, after)
    opened.becomes(lambda: opened.legend().get("C") == "7")
    assert "bars=160" in settled(opened)
    assert page.locator("#message").is_hidden()
    page.goto(opened.url.split("bars")[0].replace(after, before) + f"from={kept[0]}&to={kept[1]}")
    opened.becomes(lambda: opened.legend().get("C") == "100")
    page.keyboard.type("15")
    page.keyboard.press("Enter")
    opened.becomes(lambda: "interval=15m" in settled(opened))
    assert opened.legend()["C"] == "100"
    assert page.locator("#message").is_hidden(), "the range ends where the last candle in sight did"


def test_a_symbol_that_has_trades_in_the_range_keeps_it(tab: Tab, stage: Stage) -> None:
    for symbol in ("DEMO:ONE", "DEMO:OTHER"):
        stage.write(*(tick(symbol, now() - at * HOUR, "100") for at in range(300)))
    opened = tab(query("DEMO:ONE", "1h")).drawn()
    for _ in range(3):
        opened.page.keyboard.press("ArrowLeft")
    kept = times(settled(opened))
    choose(opened, "DEMO:OTHER")
    opened.becomes(lambda: "DEMO:OTHER" in opened.url)
    assert times(settled(opened)) == kept


def test_a_link_to_a_range_without_trades_says_so(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:NOTHING", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, "100") for at in range(300)))
    empty = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-05T00:00:00Z"}
    opened = tab(query(symbol, "1h", **empty))
    message = opened.page.get_by_role("heading", name="No trades in this range")
    message.wait_for()
    assert times(settled(opened)) == (empty["from"], empty["to"])
    opened.page.get_by_role("button", name="Show the newest").click()
    opened.becomes(lambda: "bars=160" in opened.url)
    message.wait_for(state="hidden")


def times(address: str) -> tuple[str, str]:
    found = parse_qs(urlsplit(address).query)
    return found["from"][0], found["to"][0]


def choose(opened: ChartPage, symbol: str) -> None:
    opened.page.get_by_role("button", name="DEMO:").click()
    opened.page.get_by_role("option", name=symbol).click()


def settled(opened: ChartPage) -> str:
    """The address, after the time by which it lags behind the view."""
    opened.page.wait_for_timeout(600)
    return opened.url


def test_a_chosen_time_zone_is_that_of_every_label(tab: Tab, stage: Stage) -> None:
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
        page.select_option("#zone", label=zone)
        time = page.evaluate(local, [end, minutes_ahead])
        opened.becomes(lambda time=time: labels() == (time[:16], time[11:]))
        pictures.add(page.locator("#chart td:nth-child(2)").last.screenshot())
    assert len(pictures) == 3, "the axis of the times"
    assert "zone=-03:30" in settled(opened)


@pytest.mark.full
def test_a_time_zone_shifts_the_buckets(tab: Tab, stage: Stage) -> None:
    opened = tab(query(interval="1d")).drawn()
    opened.page.select_option("#zone", label="UTC+05:30")
    path = f"/v1/chart?symbol={quote(SYMBOL)}&interval=1d&timeZone=%2B05:30&limit=1"
    candle = stage.read(path)["candles"][0]
    opened.becomes(lambda: opened.legend().get("n") == str(candle["n"]))
    local = opened.page.evaluate("(ms) => new Date(ms + 330 * 60000).toISOString().slice(0, 10)", candle["t"])
    assert local in (opened.page.locator("#legend-time").text_content() or "")


def test_letters_find_a_symbol_and_digits_an_interval(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:WBTC-ETH", now(), "38.5"))
    opened = tab(query()).drawn()
    page = opened.page
    page.keyboard.type("wbtc")
    page.get_by_role("option", name="DEMO:WBTC-ETH").wait_for()
    page.keyboard.press("Enter")
    opened.becomes(lambda: "symbol=DEMO:WBTC-ETH" in opened.url)
    for typed, interval in (("15", "15m"), ("240", "4h"), ("1d", "1d"), ("1M", "1M"), (",w", "1w"), ("1h", "1h")):
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


def test_a_click_leaves_no_ring_and_no_width_changes(tab: Tab) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    rings, width = "document.querySelectorAll(':focus-visible').length", "document.querySelector('#controls').clientWidth"
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
    page.select_option("#zone", label="UTC+05:30")
    sheet.wait_for(state="hidden")
    page.get_by_role("button", name="View and export").click()
    page.locator("#chart").click()
    sheet.wait_for(state="hidden")
    page.get_by_role("button", name="View and export").click()
    page.locator("#help").click()
    page.get_by_role("dialog", name="Touch").get_by_text("Pinch").wait_for()
    assert page.get_by_text("Alt").count() == 0


def test_what_is_wrong_with_an_address_is_said(tab: Tab) -> None:
    opened = tab(query(interval="7m", zone="+99:00")).drawn()
    notice = opened.page.get_by_role("alert")
    for text in ("There is no interval “7m”. There are 1s, 1m, 3m,", "no time zone “+99:00”", "Shown: 1h, UTC."):
        assert text in (notice.text_content() or "")
    opened.page.get_by_role("button", name="Dismiss").click()
    notice.wait_for(state="hidden")
    opened.go(query(interval="1m")).drawn()
    assert notice.is_hidden()


def test_the_saved_csv_has_the_candles_in_sight_with_every_digit(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:CSV", now() // HOUR * HOUR - 24 * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, f"{100 + at}.000000000000000000000000000001") for at in range(300)))
    opened = tab(query(symbol, "1h", bars=50)).drawn()
    settled(opened)
    with opened.page.expect_download() as saving:
        opened.page.keyboard.press("Alt+c")
    day = opened.page.evaluate("(ms) => new Date(ms).toISOString().slice(0, 10)", end)
    assert saving.value.suggested_filename == f"DEMO-CSV_1h_{day}.csv"
    saved = Path(saving.value.path()).read_bytes().decode()
    columns = ("t", "T", "o", "h", "l", "c", "v", "q", "n", "vwap", "closed", "finalized")
    newest = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1h&limit=45")["candles"]
    rows = [[str(row[name]) if name in row else "" for name in columns] for row in newest]
    cells = [line.replace("true", "True").replace("false", "False").split(",") for line in saved.split("\r\n")]
    assert cells == [list(columns), *rows, [""]]


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


# The size of a PNG file, and how many of its pixels have which colour; its title has the given height.
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


def test_what_is_known_is_asked_for_again_by_its_tag(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:TAGGED"
    stage.write(tick(symbol, now() - 1000, "100"))
    page = tab("").page
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer) if "/api/v1/chart?" in answer.url else None)
    page.goto(stage.address + query(symbol, "1d"))
    opened = ChartPage(page, stage).drawn()

    def asked() -> list[tuple[int, str | None]]:
        page.evaluate("0")
        of_symbol = [each for each in answers if quote(symbol) in each.url or symbol in each.url]
        return [(each.status, each.request.all_headers().get("if-none-match")) for each in of_symbol]

    opened.becomes(lambda: len(asked()) == 2)
    tag = answers[-2].all_headers()["etag"]
    assert asked() == [(200, None), (304, tag)]


@pytest.mark.full
def test_the_colours_follow_the_system_and_a_choice(tab: Tab, stage: Stage) -> None:
    opened = tab(query()).drawn()

    def paper(page: Page) -> str:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    light = paper(opened.page)
    opened.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    opened.becomes(lambda: paper(opened.page) != light)
    assert opened.has_pixels("var(--paper)") > 100_000
    opened.page.select_option("#theme", "light")
    opened.page.reload()
    opened.drawn()
    assert paper(opened.page) == light


def test_the_api_goes_down_and_comes_back(tab: Tab, stage: Stage) -> None:
    opened = tab(f"?symbol={SYMBOL}&interval=1d").drawn()
    page = opened.page
    before = opened.legend()
    stage.api.stop()
    page.locator("#live.offline", has_text="offline, last").wait_for()
    assert opened.legend() == before
    page.keyboard.type("15")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="The data API does not answer").wait_for()
    stage.restart_api()
    stage.write(tick(SYMBOL, now(), "777.25"))
    opened.becomes(lambda: opened.legend().get("C") == "777.25")
    page.locator("#live.live").wait_for()
    assert page.locator("#message").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_after_the_logout_has_its_style_and_a_way_back(tab: Tab, scheme: Literal["light", "dark"]) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    page.emulate_media(color_scheme=scheme)
    look = """(query) => {
      const { backgroundColor, color, fontFamily } = getComputedStyle(document.querySelector(query));
      return [backgroundColor, color, fontFamily];
    }"""
    chart = page.evaluate(look, "body")
    page.get_by_role("link", name="Log out").click()
    back = page.get_by_role("link", name="Log in again")
    back.wait_for()
    assert page.evaluate(look, "body") == chart
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).fontSize") == "15px"
    back.click()
    opened.drawn()


def test_a_login_that_expired_is_asked_for_on_top_of_the_view(tab: Tab, stage: Stage) -> None:
    opened = tab(f"?symbol={SYMBOL}&interval=1m")
    page = opened.drawn().page
    before = opened.legend()
    stage.change_password("another one entirely")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Log in again")
    dialog.wait_for()
    assert opened.legend().keys() == before.keys(), "the view stays"
    dialog.get_by_label("Password").fill("a wrong one")
    page.keyboard.press("Enter")
    dialog.get_by_text("Wrong user name or password.").wait_for()
    dialog.get_by_label("Password").fill(stage.password)
    page.keyboard.press("Enter")
    dialog.wait_for(state="hidden")
    opened.drawn()
    opened.becomes(lambda: "interval=5m" in opened.url)
    stage.write(tick(SYMBOL, now(), "555.5"))
    opened.becomes(lambda: opened.legend()["C"] == "555.5")
