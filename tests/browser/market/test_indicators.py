"""The indicators in the chart: their menu, their values, their panes, and their speed."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, drawn_texts, query, settled
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
    assert [each.rsplit(" ", 1)[0] for each in values(opened)] == ["SMA 10", "SMA 20"]
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


@pytest.mark.full
def test_vwap_has_every_digit_of_the_api(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:VWAP", now() // HOUR * HOUR
    stage.write(*(tick(symbol, end + at, f"2503.12345678901234567{at}") for at in range(3)))
    opened = tab(query(symbol, "1h", indicators="vwap")).drawn()
    candle = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1h&limit=1")["candles"][0]
    assert len(candle["vwap"]) > 20
    assert values(opened) == [f"VWAP {candle['vwap']}"]


@pytest.mark.full
def test_the_axis_of_a_pane_has_labels_of_its_magnitude(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:TINY-SIDES", now() // MINUTE * MINUTE
    stage.write(
        *(tick(symbol, end - at * MINUTE, f"{100 + at % 9}", f"{(1 + at % 7) * 1e-18:.20f}") for at in range(100))
    )
    opened = tab(query(symbol, indicators="sides")).drawn()
    texts = drawn_texts(opened)
    assert {"0.0₁₇2", "0.0₁₇4", "0"} <= set(texts), [text for text, each in texts.items() if each["x"] > 1100]


def test_a_trade_changes_the_newest_values(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:LIVE-SMA", now()
    stage.write(*(tick(symbol, start - at * HOUR, "100") for at in range(1, 60)), tick(symbol, start, "100"))
    opened = tab(query(symbol, "1h", indicators="sma.20,rsi.14,macd")).drawn()
    opened.becomes(lambda: values(opened)[0] == "SMA 20 100.000")
    stage.write(tick(symbol, now() + 1, "120"))
    opened.becomes(lambda: values(opened)[0] == "SMA 20 101.000")
    assert values(opened)[1] == "RSI 14 100.000"


@pytest.mark.full
def test_values_do_not_move_when_the_view_moves(tab: Tab, stage: Stage) -> None:
    """The candles that the values need are read before, although they are far outside the view."""
    symbol, end = "DEMO:STILL", now() // MINUTE * MINUTE
    stage.write(*(tick(symbol, end - at * MINUTE, str(100 + (at * at) % 37)) for at in range(3000)))
    chosen = "ema.100,rsi.100"
    opened = tab(query(symbol, bars=30, indicators=chosen)).drawn()
    opened.becomes(lambda: values(opened) and "–" not in "".join(values(opened)))
    before = values(opened)
    for _ in range(3):
        opened.page.keyboard.press("-")
    settled(opened)
    assert values(opened) == before
    time = opened.page.evaluate("(ms) => new Date(ms).toISOString()", end - 500 * MINUTE)
    until = opened.page.evaluate("(ms) => new Date(ms).toISOString()", end)
    other = tab(query(symbol, indicators=chosen, **{"from": time, "to": until})).drawn()
    other.becomes(lambda: values(other) == before)


@pytest.mark.full
def test_faults_of_indicators_in_an_address_are_reported(tab: Tab) -> None:
    opened = tab(query(indicators="sma.20,foo,rsi.999")).drawn()
    notice = opened.page.get_by_role("alert").first.text_content() or ""
    assert "There is no indicator “foo”" in notice
    assert "“rsi.999” is not valid" in notice
    assert [each.rsplit(" ", 1)[0] for each in values(opened)] == ["SMA 20"]


# Draws 50 000 rows with indicators, then 25 changes a second of the newest one. Returns the frames of each second.
FRAMES = """async (chosen) => {
  const chart = await import('/static/chart.js');
  const { Candles } = await import('/static/candles.js');
  const indicators = await import('/static/indicators.js');
  const [minute, count] = [60_000, 50_000];
  const end = Math.floor(Date.now() / minute) * minute;
  const candles = new Candles('1m', 'UTC');
  Object.assign(candles, { hasOlder: true, hasNewer: false });
  candles.rows = Array.from({ length: count }, (_, at) => ({
    t: end - (count - 1 - at) * minute, o: '100', h: '112', l: '89', c: String(100 + 10 * Math.sin(at / 50)),
    v: '3', bv: '1', vwap: '100', n: 1, closed: true, finalized: true,
  }));
  chart.clear();
  chart.open(candles);
  chart.setIndicators(indicators.read(chosen).chosen);
  chart.draw(candles.first.t, end);
  chart.showNewest(160);
  await new Promise((resolve) => { setTimeout(resolve, 1500); });
  const live = setInterval(() => {
    const { last } = candles;
    chart.drawOne(candles.put({ ...last, c: String(100 + 10 * Math.random()), n: last.n + 1 }));
  }, 40);
  const seconds = [];
  for (let second = 0; second < 4; second += 1) {
    const start = performance.now();
    let frames = 0;
    while (performance.now() - start < 1000) {
      await new Promise(requestAnimationFrame);
      frames += 1;
    }
    seconds.push(frames);
  }
  clearInterval(live);
  return seconds;
}"""


@pytest.mark.full
def test_live_trades_with_three_indicators_and_50000_candles_keep_50_frames_a_second(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:FRAMES"
    stage.write(tick(symbol, now(), "100"))
    opened = tab(query(symbol, "1w")).drawn()
    seconds = opened.page.evaluate(FRAMES, "sma.20,rsi.14,macd.12.26.9")
    assert max(seconds) >= 50, seconds
