"""The indicators in the chart: their menu, their values, their panes, and their speed."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, query, settled
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional

ALL = "sma.20,ema.50,vwap,bb.20.2,rsi.14,macd.12.26.9,sides"


def values(opened: ChartPage) -> list[str]:
    """The legend's indicators, like ``SMA 20 101.5``."""
    texts = opened.page.locator("#legend-values .indicator").all_inner_texts()
    return [" ".join(text.replace("\u202f", "").split()) for text in texts]


def last_of(text: str) -> float:
    return float(text.rsplit(" ", 1)[1].replace("−", "-"))


def closes(stage: Stage, symbol: str, interval: str, count: int) -> list[float]:
    found = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval={interval}&limit={count}")["candles"]
    return [float(row["c"]) for row in found]


def test_an_indicator_is_chosen_in_the_menu_and_stays_in_the_address(tab: Tab, stage: Stage) -> None:
    opened = tab(query(interval="5m")).drawn()
    page = opened.page
    page.keyboard.press("Alt+n")
    page.get_by_label("SMA", exact=True).check()
    opened.becomes(lambda: "indicators=sma.20&" in opened.url)
    page.get_by_label("SMA period").fill("10")
    page.get_by_label("SMA period").press("Enter")
    page.get_by_role("button", name="Another SMA").click()
    opened.becomes(lambda: "indicators=sma.10,sma.20&" in opened.url)
    page.get_by_label("MACD fast").fill("30")
    page.get_by_label("MACD", exact=True).check()
    page.get_by_text("fast below slow").wait_for()
    page.get_by_label("MACD", exact=True).uncheck()
    page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    wanted = sum(closes(stage, SYMBOL, "5m", 10)) / 10
    opened.becomes(lambda: abs(last_of(values(opened)[0]) - wanted) < 0.001)
    page.reload()
    opened.drawn()
    opened.becomes(lambda: [each.rsplit(" ", 1)[0] for each in values(opened)] == ["SMA 10", "SMA 20"])
    page.keyboard.press("Alt+n")
    assert page.get_by_label("SMA", exact=True).first.is_checked()
    assert not page.get_by_label("RSI", exact=True).is_checked()


def test_all_indicators_are_drawn_in_their_panes_and_in_the_legend(tab: Tab) -> None:
    opened = tab(query(indicators=ALL, scale="log")).drawn()
    opened.becomes(lambda: len(values(opened)) == 7)
    names = [each.split(" ")[0] for each in values(opened)]
    assert names == ["SMA", "EMA", "VWAP", "Bollinger", "RSI", "MACD", "buy"]
    assert " sell " in values(opened)[-1]
    assert not [each for each in values(opened) if "–" in each], "each has a value"
    heights = opened.page.evaluate(
        "[...document.querySelectorAll('#chart tr')].map((row) => row.offsetHeight).filter((each) => each > 40)"
    )
    assert len(heights) == 4, "three panes are below the candles"
    assert heights[0] > 2 * heights[1]
    for colour in ("var(--line-1)", "var(--line-2)", "var(--line-3)"):
        assert opened.has_pixels(colour) > 50


def test_a_trade_changes_the_newest_values(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:LIVE-SMA", now()
    stage.write(*(tick(symbol, start - at * HOUR, "100") for at in range(1, 60)), tick(symbol, start, "100"))
    opened = tab(query(symbol, "1h", indicators="sma.20,rsi.14,macd")).drawn()
    opened.becomes(lambda: values(opened)[0] == "SMA 20 100.000")
    stage.write(tick(symbol, now() + 1, "120"))
    opened.becomes(lambda: values(opened)[0] == "SMA 20 101.000")
    assert values(opened)[1] == "RSI 14 100.000"


def test_values_do_not_move_when_the_view_moves_and_exist_where_trades_are_rare(tab: Tab, stage: Stage) -> None:
    """The candles that the values need are read before, although they are far outside the view."""
    symbol, end = "DEMO:STILL", now() // MINUTE * MINUTE
    stage.write(*(tick(symbol, end - at * MINUTE, str(100 + (at * at) % 37)) for at in range(3000)))
    chosen = "ema.100,rsi.100"
    opened = tab(query(symbol, bars=30, indicators=chosen)).drawn()
    opened.becomes(lambda: len(values(opened)) == 2 and "–" not in "".join(values(opened)))
    before = values(opened)
    opened.keys("-", "-", "-")
    settled(opened)
    assert values(opened) == before
    stage.write(*(tick("DEMO:SELDOM", end - at * 20 * MINUTE, str(100 + at % 9)) for at in range(600)))
    opened.go(query("DEMO:SELDOM", "1m", indicators="sma.200")).drawn()
    opened.becomes(lambda: values(opened) and "SMA 200" in values(opened)[0] and "–" not in values(opened)[0])
