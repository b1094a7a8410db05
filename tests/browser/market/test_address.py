"""The times that the chart shows for an address, a symbol and an interval; and the view that a link reproduces."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, query, settled
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional


def test_the_address_reproduces_the_view(tab: Tab, stage: Stage) -> None:
    last = now() // HOUR * HOUR
    opened = tab(query(interval="5m", zone="+05:30", scale="log")).drawn()
    page = opened.page
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    opened.becomes(lambda: "from=" in opened.url)
    opened.page.wait_for_timeout(600)  # longer than the delay with which the address follows the view
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


def test_an_alias_in_the_address_becomes_its_symbol_and_is_live(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:CANONICAL"
    stage.write(tick(symbol, now() - 1000, "100"))
    with connect(conninfo(stage.state_dir)) as connection:
        connection.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('SHORT-NAME', %s)", (symbol,))
    opened = tab(query("SHORT-NAME", "1d")).drawn()
    opened.becomes(lambda: f"symbol={symbol}&" in opened.url)
    stage.write(tick(symbol, now(), "120.5"))
    opened.becomes(lambda: opened.legend()["C"] == "120.5")


@pytest.mark.parametrize("address", ["", query(bars=50_000), pytest.param(query(bars=300), marks=pytest.mark.full)])
def test_the_candles_are_requested_once_and_before_the_page_is_loaded(tab: Tab, stage: Stage, address: str) -> None:
    opened = tab()
    page = opened.page
    held: list[Route] = []
    page.route("**/static/page.js", lambda route: held.append(route))  # noqa: PLW0108 - Playwright calls no built-in
    page.goto(stage.address + address, wait_until="commit")
    opened.becomes(lambda: page.evaluate("0") or (held and opened.chart_requests))
    (early,) = opened.chart_requests
    held[0].continue_()
    opened.drawn()
    assert opened.chart_requests.count(early) == 1


@pytest.mark.full
@pytest.mark.parametrize("interval", ["1m", "4h"])
def test_a_link_shows_the_same_picture(tab: Tab, stage: Stage, interval: str) -> None:
    """This also holds if the view begins within a bar, or lies in a long time without trades."""
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


@pytest.mark.full
def test_a_link_to_a_range_after_more_candles_than_an_answer_has_shows_the_range(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:THEN-QUIET", now() // HOUR * HOUR
    dense = end - 200 * 24 * HOUR
    stage.write(*(tick(symbol, dense - at * MINUTE, "100") for at in range(11_000)), tick(symbol, end, "7"))
    opened = tab(query(symbol, "1m", **{"from": iso(dense - 30 * MINUTE), "to": iso(end - 24 * HOUR)})).drawn()
    page = opened.page
    address = settled(opened)
    page.mouse.move(600, 300)
    page.mouse.wheel(0, 120)
    opened.becomes(lambda: settled(opened) != address)
    first, last = (page.evaluate("(text) => Date.parse(text)", each) for each in times(opened.url))
    assert dense - 2 * HOUR < first < dense + 24 * HOUR
    assert last > end - 30 * 24 * HOUR


@pytest.mark.full
def test_a_link_to_a_range_without_trades_says_so(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:NOTHING", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, "100") for at in range(300)))
    empty = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-05T00:00:00Z"}
    opened = tab(query(symbol, "1h", **empty))
    message = opened.page.get_by_role("heading", name="No trades in this range")
    message.wait_for()
    assert times(settled(opened)) == (empty["from"], empty["to"])
    assert opened.page.locator("#legend").is_hidden(), "there is no candle to describe"
    opened.page.get_by_text("has none here").wait_for()
    stage.cover(symbol, end - 300 * HOUR, end + HOUR)
    opened.page.reload()
    opened.page.get_by_text("was not indexed here").wait_for()
    opened.page.get_by_role("button", name="Show the newest").click()
    opened.becomes(lambda: "bars=160" in opened.url)
    message.wait_for(state="hidden")


def test_faults_of_an_address_are_reported(tab: Tab) -> None:
    opened = tab(query(interval="7m", zone="+99:00")).drawn()
    notice = opened.page.get_by_role("alert")
    for text in ("There is no interval “7m”. There are 1s, 1m, 3m,", "no time zone “+99:00”", "Shown: 1h, UTC."):
        assert text in (notice.text_content() or "")
    opened.page.get_by_role("button", name="Dismiss").click()
    notice.wait_for(state="hidden")
    opened.go(query(interval="1m")).drawn()
    assert notice.is_hidden()


@pytest.mark.full
def test_the_newest_candles_are_visible_even_if_they_are_old(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:STOPPED", now() // HOUR * HOUR - 20 * 24 * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, str(100 + at % 7)) for at in range(300)))
    stage.cover(symbol, end - 300 * HOUR, end + HOUR)
    opened = tab(query(symbol, "1h")).drawn()
    opened.becomes(lambda: "bars=160" in opened.url)
    assert opened.page.locator("#newest").is_hidden()
    assert min(opened.pixels("var(--up-volume)", start, start + 0.1, 24) for start in (0.1, 0.5, 0.8)) > 100
    address = settled(opened)
    opened.page.reload()
    assert settled(opened.drawn()) == address


@pytest.mark.full
def test_a_view_of_few_candles_has_few_bars(tab: Tab, stage: Stage) -> None:
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


@pytest.mark.full
def test_new_candles_stay_visible_as_time_passes(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:FOLLOWED"
    stage.write(tick(symbol, now(), "100"))
    opened = tab(query(symbol, "1s", bars=8)).drawn()
    for price in range(101, 106):
        opened.page.wait_for_timeout(1000)
        stage.write(tick(symbol, now(), str(price)))
        opened.becomes(lambda price=price: opened.legend().get("C") == str(price))
    assert "bars=8" in settled(opened)
    assert opened.page.locator("#newest").is_hidden()


@pytest.mark.full
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


@pytest.mark.full
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


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def times(address: str) -> tuple[str, str]:
    found = parse_qs(urlsplit(address).query)
    return found["from"][0], found["to"][0]


def choose(opened: ChartPage, symbol: str) -> None:
    opened.page.get_by_role("button", name="DEMO:").click()
    opened.page.get_by_role("option", name=symbol).click()


@pytest.mark.full
def test_a_symbol_whose_trades_were_all_retracted_says_so_until_the_next_trade(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:EMPTIED"
    stage.write(tick(symbol, now() - 1000, "5", block=7), {"retract": {"symbol": symbol, "block_hash": "0x7"}})
    opened = tab(query(symbol, "1h"))
    opened.page.get_by_text("has no trades now: each one that was stored was retracted.").wait_for()
    assert opened.page.locator("#legend").is_hidden()
    stage.write(tick(symbol, now(), "6", block=8))
    opened.becomes(lambda: opened.legend().get("C") == "6")
    opened.page.locator("#message").wait_for(state="hidden")


@pytest.mark.full
def test_a_range_in_the_future_has_no_trades(tab: Tab) -> None:
    future = {"from": "2035-01-01T00:00:00Z", "to": "2035-01-05T00:00:00Z"}
    opened = tab(query(interval="1h", **future))
    opened.page.get_by_role("heading", name="No trades in this range").wait_for()
    assert times(settled(opened)) == (future["from"], future["to"])
    opened.page.keyboard.press("Shift+ArrowLeft")
    opened.becomes(lambda: opened.legend().get("C"))
    opened.page.keyboard.press("Escape")
    opened.page.keyboard.press("End")
    opened.becomes(lambda: "bars=" in settled(opened))
    assert opened.page.locator("#message").is_hidden()


@pytest.mark.full
def test_times_and_symbols_that_the_service_refuses_are_named(tab: Tab) -> None:
    opened = tab(query(**{"from": "0001-01-01T00:00:00Z", "to": "9999-01-01T00:00:00Z"}, bars="null")).drawn()
    notice = opened.page.get_by_role("alert").first.text_content() or ""
    assert "from 1970 to 2999" in notice
    assert "The number of bars “null” is not from 2 to 50000." in notice
    opened.go(query(**{"from": "1970-01-01T00:00:00Z", "to": "2999-12-31T00:00:00Z"})).drawn()
    opened.go("?symbol=%00").page.get_by_role("heading", name="Unknown symbol").wait_for()


@pytest.mark.full
def test_the_message_over_an_empty_range_goes_with_the_first_candle(tab: Tab) -> None:
    """It lies where a pointer would start to drag the chart."""
    opened = tab(query(**{"from": "2020-01-01T00:00:00Z", "to": "2020-01-01T03:00:00Z"}))
    opened.page.get_by_role("heading", name="No trades in this range").wait_for()
    opened.page.keyboard.press("Shift+ArrowRight")
    frames = "(done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))"
    assert opened.page.evaluate(f"new Promise({frames}).then(() => document.querySelector('#message').hidden)")
