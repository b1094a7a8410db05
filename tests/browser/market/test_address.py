"""The times that the chart shows for an address, a symbol and an interval; and the view that a link reproduces."""

from __future__ import annotations

import pytest

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, query, settled, shown, time_of
from tests.browser.market.stage import HOUR, Stage, now, tick
from tests.browser.requests import held
from tests.functional.serving import until

pytestmark = pytest.mark.functional

DAY = 24 * HOUR
PAST = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-05T00:00:00Z"}
FUTURE = {"from": "2035-01-01T00:00:00Z", "to": "2035-01-05T00:00:00Z"}
NOTHING = "No trades in this range"


def of_range(address: dict[str, str]) -> dict[str, str]:
    return {name: address[name] for name in ("from", "to")}


def test_the_address_reproduces_the_view(tab: Tab) -> None:
    opened = tab(query(interval="5m", zone="+05:30", scale="log")).drawn()
    page = opened.page
    assert page.locator("#log").get_attribute("aria-pressed") == "true"
    opened.keys("ArrowLeft", "ArrowLeft", "ArrowLeft")
    address = shown(opened)
    assert (address["symbol"], address["interval"], address["zone"], address["scale"]) == (
        SYMBOL, "5m", "+05:30", "log",
    )  # fmt: skip
    assert time_of(address["from"]) < now() // HOUR * HOUR
    opened.keys("Alt+y", "Alt+y", "Alt+p", "Alt+i")
    address = shown(opened)
    assert (address["type"], address["scale"], address["inverted"]) == ("bars", "percent", "1")
    legend = opened.legend()
    page.reload()
    opened.drawn()
    opened.becomes(lambda: opened.legend() == legend)
    assert shown(opened) == address
    assert page.locator("#type").input_value() == "bars"
    pressed = [page.locator(name).get_attribute("aria-pressed") for name in ("#percent", "#log", "#invert")]
    assert pressed == ["true", "false", "true"]


def test_an_alias_in_the_address_becomes_its_symbol_and_is_live(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:CANONICAL"
    stage.write(tick(symbol, now() - 1000, "100"))
    with connect(conninfo(stage.state_dir)) as connection:
        connection.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('SHORT-NAME', %s)", (symbol,))
    opened = tab(query("SHORT-NAME", "1d")).drawn()
    opened.becomes(lambda: f"symbol={symbol}&" in opened.url)
    stage.write(tick(symbol, now(), "120.5"))
    opened.closes_at("120.5")


def test_the_candles_are_requested_once_and_before_the_page_is_loaded(tab: Tab, stage: Stage) -> None:
    for address in ("", query(bars=50_000)):
        opened = tab()
        scripts = held(opened.page, "**/static/page.js")
        opened.page.goto(stage.address + address, wait_until="commit")
        opened.becomes(lambda: opened.page.evaluate("0") or (scripts and opened.chart_requests))  # noqa: B023
        (early,) = opened.chart_requests
        scripts[0].continue_()
        opened.drawn()
        assert opened.chart_requests.count(early) == 1, address


def test_a_link_to_a_range_without_trades_says_so(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:NOTHING", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * HOUR, "100") for at in range(300)))
    opened = tab(query(symbol, "1h", **PAST))
    page = opened.page
    message = page.get_by_role("heading", name=NOTHING)
    message.wait_for()
    assert of_range(shown(opened)) == PAST
    assert page.locator("#legend").is_hidden(), "there is no candle to describe"
    page.get_by_text("has none here").wait_for()
    stage.cover(symbol, end - 300 * HOUR, end + HOUR)
    page.reload()
    page.get_by_text("was not indexed here").wait_for()
    page.get_by_role("button", name="Show the newest").click()
    opened.becomes(lambda: "bars=160" in opened.url)
    message.wait_for(state="hidden")
    opened.go(query(symbol, "1h", **FUTURE))
    message.wait_for()
    assert of_range(shown(opened)) == FUTURE
    opened.keys("Shift+ArrowLeft")
    opened.closes_at("100")
    opened.keys("Escape", "End")
    opened.becomes(lambda: "bars=" in settled(opened))
    assert page.locator("#message").is_hidden()


def test_faults_of_an_address_are_reported(tab: Tab) -> None:
    opened = tab(query(interval="7m", zone="+99:00", indicators="sma.20,foo,rsi.999", bars="null")).drawn()
    notice = opened.page.get_by_role("alert").first
    for text in (
        "There is no interval “7m”. There are 1s, 1m, 3m,", "no time zone “+99:00”", "Shown: 1h, UTC.",
        "There is no indicator “foo”", "“rsi.999” is not valid",
        "The number of bars “null” is not from 2 to 50000.",
    ):  # fmt: skip
        assert text in (notice.text_content() or "")
    opened.page.get_by_role("button", name="Dismiss").click()
    notice.wait_for(state="hidden")
    opened.go(query(**{"from": "0001-01-01T00:00:00Z", "to": "9999-01-01T00:00:00Z"})).drawn()
    assert "from 1970 to 2999" in (notice.text_content() or "")
    opened.go(query(**{"from": "1970-01-01T00:00:00Z", "to": "2999-12-31T00:00:00Z"})).drawn()
    assert notice.is_hidden()
    opened.go("?symbol=%00").page.get_by_role("heading", name="Unknown symbol").wait_for()


def test_the_newest_candles_are_visible_even_if_they_are_old_or_few(tab: Tab, stage: Stage) -> None:
    old, end = "DEMO:STOPPED", now() // HOUR * HOUR - 20 * DAY
    stage.write(*(tick(old, end - at * HOUR, str(100 + at % 7)) for at in range(300)))
    stage.cover(old, end - 300 * HOUR, end + HOUR)
    opened = tab(query(old, "1h")).drawn()
    opened.becomes(lambda: "bars=160" in opened.url)
    assert opened.page.locator("#newest").is_hidden()
    address = settled(opened)
    opened.page.reload()
    assert settled(opened.drawn()) == address

    young, end = "DEMO:YOUNG", now() // HOUR * HOUR
    stage.write(*(tick(young, end - at * HOUR, "100") for at in range(60)))
    opened.go(query(young, "4h")).drawn()
    assert shown(opened)["bars"] == "40"
    opened.page.get_by_role("button", name="1h", exact=True).click()
    opened.becomes(lambda: "interval=1h" in opened.url)
    assert shown(opened)["bars"] == "69", "the sixty and some room"


def test_new_candles_stay_visible_as_time_passes(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:FOLLOWED", now() // 1000
    stage.write(tick(symbol, now(), "100"))
    opened = tab(query(symbol, "1s", bars=2)).drawn()
    for second in range(1, 4):
        until(lambda: now() // 1000 >= start + second)  # noqa: B023
        stage.write(tick(symbol, now(), str(100 + second)))
        opened.closes_at(str(100 + second))
    assert shown(opened)["bars"] == "2"
    assert opened.page.locator("#newest").is_hidden()


def pick(opened: ChartPage, symbol: str) -> None:
    opened.page.get_by_role("button", name="DEMO:").click()
    opened.page.locator("#search").fill(symbol)
    opened.page.get_by_role("option", name=symbol).wait_for()
    opened.keys("Enter")  # a click would leave the pointer on the chart, and the legend then shows what is there


def test_a_symbol_keeps_the_range_only_if_it_has_trades_there(tab: Tab, stage: Stage) -> None:
    before, after, both, end = "DEMO:BEFORE", "DEMO:AFTER", "DEMO:BOTH", now() // HOUR * HOUR
    stage.write(*(tick(before, end - (500 + at) * HOUR, "100") for at in range(200)))
    stage.write(*(tick(after, end - at * HOUR, "7") for at in range(300)))
    stage.write(*(tick(both, end - at * HOUR, "8") for at in range(800)))
    opened = tab(query(before, "1h")).drawn()
    page = opened.page
    opened.keys("ArrowLeft", "ArrowLeft", "ArrowLeft")
    kept = of_range(shown(opened))
    pick(opened, both)
    opened.closes_at("8")
    assert of_range(shown(opened)) == kept
    pick(opened, after)
    opened.closes_at("7")
    assert shown(opened)["bars"] == "160"
    assert page.locator("#message").is_hidden()


def test_a_symbol_whose_trades_were_all_retracted_says_so_until_the_next_trade(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:EMPTIED"
    stage.write(tick(symbol, now() - 1000, "5", block=7), {"retract": {"symbol": symbol, "block_hash": "0x7"}})
    opened = tab(query(symbol, "1h"))
    opened.page.get_by_text("has no trades now: each one that was stored was retracted.").wait_for()
    assert opened.page.locator("#legend").is_hidden()
    stage.write(tick(symbol, now(), "6", block=8))
    opened.closes_at("6")
    opened.page.locator("#message").wait_for(state="hidden")
