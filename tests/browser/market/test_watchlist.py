"""The watchlist: the user's symbols and the leading ones, with live values; and how a symbol is chosen from it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, query, settled
from tests.browser.market.stage import HOUR, Stage, now, tick

pytestmark = pytest.mark.functional

ROWS = "#watch-rows tr"
DOWN = """document.activeElement.dispatchEvent(
  new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true, cancelable: true }));"""
STORE = "(names) => localStorage.setItem('chart-watchlist', names)"


def listed(opened: ChartPage) -> list[str]:
    found: list[str] = opened.page.locator(ROWS).evaluate_all("(rows) => rows.map((row) => row.dataset.symbol)")
    return found


def opened_with(tab: Tab, names: str, symbol: str = SYMBOL) -> ChartPage:
    """The page with an open watchlist of these symbols."""
    opened = tab(query(symbol)).drawn()
    opened.page.evaluate(STORE, names)
    return opened.go(query(symbol, panels="watchlist")).drawn()


def test_the_watchlist_has_live_values_of_the_users_symbols(tab: Tab, stage: Stage) -> None:
    start = now()
    stage.write(
        tick("DEMO:RISEN", start - 30 * HOUR, "100"),
        tick("DEMO:RISEN", start - HOUR, "110.5", "2"),
        tick("DEMO:FALLEN", start - 30 * HOUR, "0.00000000000000000002"),
        tick("DEMO:FALLEN", start - HOUR, "0.00000000000000000001"),
    )
    opened = tab(query("DEMO:RISEN")).drawn()
    page = opened.page
    page.keyboard.press("Alt+w")
    risen = page.get_by_role("row").filter(has_text="DEMO:RISEN")
    expect(risen).to_contain_text("+10.50 %")
    assert listed(opened) == ["DEMO:RISEN"], "at first, the shown symbol"
    assert "panels=watchlist" in settled(opened)
    assert risen.get_attribute("aria-current") == "true"
    page.keyboard.type("fallen")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Add DEMO:FALLEN").click()
    fallen = page.get_by_role("row").filter(has_text="DEMO:FALLEN")
    expect(fallen).to_contain_text("−50.00 %")
    expect(fallen).to_contain_text("0.0₁₉1")
    # Read in one step, because a new summary replaces the rows.
    marks = "(cells) => cells.map((cell) => getComputedStyle(cell, '::before').content)"
    assert page.locator(f"{ROWS} .moved").evaluate_all(marks) == ['"▲"', '"▼"']
    assert fallen.locator("polyline").get_attribute("points").count(",") == 25
    assert listed(opened) == ["DEMO:RISEN", "DEMO:FALLEN"]
    stage.write(tick("DEMO:RISEN", now(), "121", "4"))
    expect(risen).to_contain_text("+21.00 %")
    expect(risen).to_contain_text("Vol 705")
    stage.write(tick("DEMO:RISEN", now(), "130"))
    expect(risen).to_contain_text("+30.00 %")
    stage.write(tick("DEMO:RISEN", now(), "130", "1500000"))
    expect(risen).to_contain_text("Vol 195.0M")
    page.reload()
    opened.becomes(lambda: listed(opened) == ["DEMO:RISEN", "DEMO:FALLEN"])
    page.get_by_role("button", name="DEMO:RISEN in my list").click()
    opened.becomes(lambda: listed(opened) == ["DEMO:FALLEN"])
    page.get_by_role("button", name="DEMO:FALLEN in my list").click()
    page.get_by_text("The list is empty.").wait_for()


def test_the_watchlist_shows_what_moved_most(tab: Tab, stage: Stage) -> None:
    start = now()
    stage.write(
        tick("DEMO:MOVED", start - 30 * HOUR, f"0.{'0' * 29}1"),
        tick("DEMO:MOVED", start - HOUR, "5000"),
        tick("DEMO:BUSY", start - HOUR, "1", "1" + "0" * 28),
    )
    opened = tab()
    page = opened.page
    opened.go(query(panels="watchlist")).drawn()
    for name, value, first in (("Most moved", "change", "DEMO:MOVED"), ("Most volume", "volume", "DEMO:BUSY")):
        page.get_by_label("Show").select_option(label=name)
        opened.becomes(lambda first=first: listed(opened)[:1] == [first])
        assert f"list={value}" in settled(opened)
    stage.write(tick("DEMO:YOUNGEST", now(), "3"))
    page.get_by_label("Show").select_option(label="Newest")
    opened.becomes(lambda: listed(opened)[:1] == ["DEMO:YOUNGEST"])
    page.reload()
    opened.becomes(lambda: listed(opened)[:1] == ["DEMO:YOUNGEST"])
    assert page.get_by_label("Show").input_value() == "newest"


def test_keys_and_clicks_choose_a_symbol_of_the_watchlist(tab: Tab, stage: Stage) -> None:
    names = [f"DEMO:W{at}" for at in range(4)]
    stage.write(*(tick(name, now(), str(at + 1)) for at, name in enumerate(names)))
    opened = opened_with(tab, ",".join(names), names[1])
    page = opened.page
    row = page.locator(f"{ROWS}[aria-current=true]")
    expect(row).to_contain_text("DEMO:W1")
    row.focus()
    page.evaluate(f"{DOWN} {DOWN}")  # two keys in quick succession choose only the second symbol
    opened.becomes(lambda: opened.legend().get("C") == "4")
    assert f"symbol={names[3]}" in settled(opened)
    expect(row).to_contain_text("DEMO:W3")
    assert page.evaluate("document.activeElement.dataset.symbol") == names[3], "the focus stays in the list"
    page.go_back()
    opened.becomes(lambda: opened.legend().get("C") == "2")
    page.locator(ROWS).first.click()
    opened.becomes(lambda: opened.legend().get("C") == "1")


def test_an_unknown_symbol_leaves_the_watchlist(tab: Tab) -> None:
    opened = opened_with(tab, f"NO:SUCH,{SYMBOL},NO:OTHER")
    page = opened.page
    page.get_by_text("NO:SUCH does not exist and was removed from the list.").wait_for()
    page.get_by_text("NO:OTHER does not exist and was removed from the list.").wait_for()
    opened.becomes(lambda: listed(opened) == [SYMBOL])
    assert page.evaluate("localStorage.getItem('chart-watchlist')") == SYMBOL
