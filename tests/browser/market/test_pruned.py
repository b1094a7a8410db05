"""Where ticks were removed: candles of a second and trades end there, in words and with a way to candles of 1m."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tests.browser.market.conftest import ChartPage, Tab, iso, query, settled
from tests.browser.market.stage import HOUR, Stage, minutes, now, tick

pytestmark = pytest.mark.functional

SYMBOL, GONE = "DEMO:PRUNED", "DEMO:ALL-PRUNED"
LINE = now() // (24 * HOUR) * 24 * HOUR - 24 * HOUR
"""Midnight of yesterday."""
DAY = f"{datetime.fromtimestamp(LINE / 1000, UTC):%-d %b %Y}"
SENTENCE = f"Ticks before {DAY} were removed; candles of 1m and longer remain."


@pytest.fixture(scope="module", autouse=True)
def pruned(stage: Stage) -> None:
    """One symbol with trades before and after the line, and one with trades before it alone."""
    for symbol in (SYMBOL, GONE):
        stage.write(*minutes(symbol, LINE - 1, 200))
    stage.write(*(tick(SYMBOL, LINE + at * 1000, str(100 + at % 7)) for at in range(200)))
    for symbol in (SYMBOL, GONE):
        stage.prune(symbol, LINE)


def refused(opened: ChartPage) -> list[str]:
    """The requests that the API refuses as pruned, from now on."""
    found: list[str] = []
    opened.page.on("response", lambda answer: found.append(answer.url) if answer.status == 409 else None)
    return found


def test_scrolling_back_ends_at_the_line_and_leads_to_minutes(tab: Tab) -> None:
    opened = tab()
    answers = refused(opened)
    opened.go(query(SYMBOL, "1s", bars=100)).drawn()
    page, note = opened.page, opened.page.locator("#pruned")
    assert note.is_hidden(), "its end is not in sight"
    opened.keys(*["ArrowLeft"] * 30)
    expect(note).to_contain_text(SENTENCE)
    settled(opened)
    opened.keys(*["ArrowLeft"] * 10)
    settled(opened)
    assert len(answers) <= 1, "the refused request is not sent again"
    assert page.locator("#live.failing").count() == 0
    opened.keys("End")
    expect(note).to_be_hidden()
    opened.keys(*["ArrowLeft"] * 30)
    note.get_by_role("button", name="Show 1m candles").click()
    opened.becomes(lambda: "interval=1m" in opened.url)
    opened.drawn()
    expect(note).to_be_hidden()


def test_a_link_and_a_date_below_the_line_say_so_in_words(tab: Tab) -> None:
    opened = tab(query(SYMBOL, "1s", **{"from": iso(LINE - HOUR), "to": iso(LINE - HOUR + 120_000)}))
    page, message = opened.page, opened.page.locator("#message")
    expect(message.get_by_role("heading")).to_have_text(SENTENCE)
    page.locator("#live.live").wait_for()
    message.get_by_role("button", name="Show 1m candles").click()
    opened.becomes(lambda: "interval=1m" in opened.url)
    expect(message).to_be_hidden()
    assert opened.drawn().legend()["n"] == "2"
    opened.go(query(GONE, "1s", panels="trades"))
    expect(message.get_by_role("heading")).to_have_text(SENTENCE)
    expect(page.locator("#trade-note")).to_have_text(SENTENCE)


def test_the_list_of_trades_ends_at_the_line(tab: Tab) -> None:
    opened = tab()
    answers = refused(opened)
    opened.go(query(SYMBOL, "1m", panels="trades")).drawn()
    page, note = opened.page, opened.page.locator("#trade-note")

    def is_at_the_end() -> bool:
        page.locator("#trade-scroller").evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
        return note.text_content() == SENTENCE

    opened.becomes(is_at_the_end)
    assert page.locator("#older-trades").is_hidden()
    expect(page.locator("#trade-table")).to_have_attribute("aria-rowcount", "201")
    settled(opened)
    assert len(answers) <= 1
