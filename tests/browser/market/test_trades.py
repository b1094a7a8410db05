"""The list of trades: what it shows, its filter, older trades, retractions, and the way to the candle of a trade."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.market.conftest import ChartPage, Tab, clock, query, settled, shown, time_of
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional

ROWS = "#trade-rows tr"
DAY = 24 * HOUR


def listed(opened: ChartPage) -> int:
    """The number of loaded trades, of which the document has only those in sight."""
    return int(opened.page.locator("#trade-table").get_attribute("aria-rowcount") or 0) - 1


def to_the_end(page: Page) -> None:
    page.locator("#trade-scroller").evaluate("(box) => { box.scrollTop = box.scrollHeight; }")


def prices(page: Page) -> list[str]:
    return [text.replace("\u202f", "") for text in page.locator(f"{ROWS} td:nth-child(2)").all_text_contents()]


def test_a_size_filters_the_trades_exactly_and_stays_in_the_address(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:SIZED", now() - MINUTE
    least, less, more = "100.000000000000000000000000000002", "100.000000000000000000000000000001", "1000"
    sizes = {"1": "9", "2": least, "3": less, "4": more}
    stage.write(*(tick(symbol, start, price, size, at=int(price)) for price, size in sizes.items()))
    opened = tab(query(symbol, panels="trades")).drawn()
    page = opened.page
    opened.becomes(lambda: prices(page) == ["4", "3", "2", "1"])
    page.get_by_label("Size from").fill(least)
    opened.becomes(lambda: prices(page) == ["4", "2"])
    assert f"min={least}&" in settled(opened)
    page.reload()
    opened.becomes(lambda: prices(page) == ["4", "2"])
    assert page.get_by_label("Size from").input_value() == least
    stage.write(tick(symbol, start + 1000, "5", less), tick(symbol, start + 1001, "6", more))
    opened.becomes(lambda: prices(page) == ["6", "4", "2"])
    page.get_by_label("Size from").fill("many")
    page.get_by_text("The size is a number like 0.5.").wait_for()
    page.get_by_label("Size from").fill("")
    opened.becomes(lambda: prices(page) == ["6", "5", "4", "3", "2", "1"])
    assert "min=" not in settled(opened)


def test_the_list_keeps_2000_trades_and_returns_to_the_newest(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:BOUNDED", now() - HOUR
    stage.write(*(tick(symbol, start, str(at), at=at) for at in range(1, 2301)))
    opened = tab(query(symbol, panels="trades")).drawn()
    page = opened.page
    opened.becomes(lambda: listed(opened) == 100)

    def scrolled_to_the_first() -> bool:
        to_the_end(page)
        return page.get_by_text("There are no older trades.").is_visible()

    opened.becomes(scrolled_to_the_first)
    to_the_end(page)
    opened.becomes(lambda: prices(page)[-1] == "1")
    opened.becomes(lambda: listed(opened) == 2000)
    stage.write(tick(symbol, start + 1000, "5000"))
    page.get_by_role("button", name="Newest trades").click()
    opened.becomes(lambda: prices(page)[0] == "5000" and listed(opened) == 100)
    assert page.get_by_role("button", name="Newest trades").is_hidden()


def test_a_chosen_trade_puts_the_crosshair_on_its_candle(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:CHOSEN", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end - at * 10 * HOUR + 65_000, str(100 + at)) for at in range(60)))
    opened = tab(query(symbol, panels="trades", bars=100)).drawn()
    page = opened.page
    for at in (55, 2):
        page.locator(ROWS).first.focus()
        page.keyboard.press("Home")
        for _ in range(at):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        opened.becomes(lambda at=at: opened.legend().get("C") == str(100 + at))
        time = end - at * 10 * HOUR + MINUTE
        assert page.locator("#legend-time").text_content() == clock(time)[:16]
        view = shown(opened)
        assert time_of(view["from"]) < time < time_of(view["to"])
        assert opened.legend()["C"] == str(100 + at), "the crosshair stays there"
        assert page.evaluate("document.activeElement.matches('#trade-rows tr')"), "the focus stays in the list"


def test_what_was_corrected_is_listed_and_leads_to_its_candle(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:CORRECTED", now() // MINUTE * MINUTE - 100 * MINUTE
    stage.write(
        *(tick(symbol, start + at * MINUTE, "100", block=at + 1) for at in range(100)),
        tick(symbol, start + 10 * MINUTE + 1000, "105.000000000000000001", "2", block=200),
    )
    opened = tab(query(symbol, bars=50)).drawn()
    page = opened.page
    page.keyboard.press("Alt+j")
    page.get_by_text("No candle was corrected while it was shown here.").wait_for()
    assert page.locator("#corrections-open").is_hidden()
    stage.write(*({"retract": {"symbol": symbol, "block_hash": each}} for each in ("0xc8", "0x15")))
    link = page.get_by_role("button", name="2 corrections since ")
    link.wait_for()
    page.keyboard.press("Alt+j")
    dialog = page.get_by_role("dialog", name="2 corrections since ")
    rows = {row.split("→")[0]: row for row in dialog.locator("tbody tr").all_inner_texts()}
    times = [clock(start + at * MINUTE)[:16] for at in (10, 20)]
    found = {key[:16]: row for key, row in rows.items()}
    assert found.keys() == set(times)
    assert "H 105.000000000000000001 → 100" in found[times[0]]
    assert "V 3 → 1" in found[times[0]]
    assert "n 2 → 1" in found[times[0]]
    assert "removed" in found[times[1]]
    page.keyboard.press("Escape")
    link.click()
    dialog.get_by_role("button", name=times[0]).press("Enter")
    opened.becomes(lambda: page.locator("#legend-time").text_content() == times[0])
    assert dialog.is_hidden()
    assert opened.legend()["H"] == "100"
