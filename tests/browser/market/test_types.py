"""The types of the chart: how up, down and candles that can still change look."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.browser.market.conftest import Tab, query, settled, shown
from tests.browser.market.stage import MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional

CONTRASTS = """() => import('/static/palette.js').then(({ palette }) => {
  const light = (text) => {
    const [red, green, blue] = text.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const contrast = (one, other) => Math.max(light(one) / light(other), light(other) / light(one));
  const { up, down, paper, upVolume, downVolume, upVolumeOpen, downVolumeOpen } = palette();
  const onPaper = (text) => {
    const [[red, green, blue, alpha], under] = [text, paper].map((each) => each.match(/[\\d.]+/g).map(Number));
    return [red, green, blue].map((part, at) => alpha * part + (1 - alpha) * under[at]).join(' ');
  };
  const [rise, fall, openRise, openFall] = [upVolume, downVolume, upVolumeOpen, downVolumeOpen].map(onPaper);
  return {
    bodies: contrast(up, down), up: contrast(up, paper), down: contrast(down, paper),
    volume: contrast(rise, fall), openVolume: contrast(openRise, openFall),
    ofPaper: [rise, fall, openRise, openFall].map((each) => contrast(each, paper)),
  };
})"""

POINTS = """async (rows) => {
  const { palette } = await import('/static/palette.js');
  const { SERIES, volumeBar } = await import('/static/series.js');
  const colours = palette();
  const beside = rows.map((row, at) => ({ row, before: rows[at - 1], after: rows[at + 1] }));
  const points = { volume: rows.map((row) => volumeBar(row, colours)) };
  for (const type in SERIES) points[type] = beside.map((each) => SERIES[type].point(each, colours, Number));
  return { colours, points };
}"""


def row(opened: str, close: str, finalized: bool = True) -> dict[str, Any]:
    return {"o": opened, "h": "130", "l": "90", "c": close, "v": "5", "finalized": finalized}


def test_up_and_down_differ_by_lightness(tab: Tab) -> None:
    page = tab(query()).page
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(CONTRASTS)
        assert found["bodies"] >= 1.6, scheme
        assert min(found["up"], found["down"]) >= 3, scheme
        assert found["volume"] >= 1.6, scheme
        assert found["openVolume"] >= 1.25, scheme
        rise, fall, open_rise, open_fall = found["ofPaper"]
        assert open_rise < rise, "a bar that can still change is nearer to the background"
        assert open_fall < fall, scheme


def test_a_rising_candle_is_hollow_and_a_falling_one_is_filled(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:BODIES", now() // MINUTE * MINUTE
    ups_and_downs = [("100", "110"), ("110", "100")]
    stage.write(
        *(tick(symbol, end - at * MINUTE + part, price, at=part, block=1000 - at)
          for at in range(40) for part, price in enumerate(ups_and_downs[at % 2])),
        {"finalize": {"symbol": symbol, "block": 1001}},
    )  # fmt: skip
    opened = tab(query(symbol, bars=30)).drawn()
    rising, falling = opened.has_pixels("var(--up)"), opened.has_pixels("var(--down)")
    assert rising < falling / 4
    opened.page.keyboard.press("Alt+y")
    assert opened.has_pixels("var(--up)") == rising, "the type hollow shows a rise after a fall in the same way"
    assert "bars=30" in settled(opened), "the view stays"


def test_each_type_has_its_own_signs(tab: Tab) -> None:
    rows = [row("100", "110"), row("120", "115"), row("100", "108"), row("108", "108")]
    page = tab(query()).page
    found = page.evaluate(POINTS, rows)
    colours, points = found["colours"], found["points"]
    up, down, paper = (colours[name] for name in ("up", "down", "paper"))
    assert [(each["borderColor"], each["color"]) for each in points["candles"]] == [
        (up, paper), (down, down), (up, paper), (up, paper),
    ]  # fmt: skip
    assert [(each["borderColor"], each["color"]) for each in points["hollow"]] == [
        (up, paper), (up, up), (down, paper), (up, up),
    ], "coloured by the close before, hollow if the close is above the open"  # fmt: skip
    assert [each["color"] for each in points["bars"]] == [up, down, up, up]
    final, open_ones = ([row("100", "110", is_final), row("110", "100", is_final)] for is_final in (True, False))
    one, other = page.evaluate(POINTS, final), page.evaluate(POINTS, open_ones)
    assert set(one["points"]) == {"candles", "hollow", "bars", "line", "area", "volume"}
    for kind, points in one["points"].items():
        for before, after in zip(points, other["points"][kind], strict=True):
            colours = ({each.get(key) for key in each if key.endswith("olor")} for each in (before, after))
            assert before != after, kind
            assert next(colours) != next(colours), f"{kind}: a candle that can still change is lighter"


def test_each_type_is_drawn_on_each_scale(tab: Tab) -> None:
    opened = tab()
    for kind in ("candles", "hollow", "bars", "line", "area"):
        opened.go(query(type=kind, inverted=1)).drawn()
        colour = "var(--accent)" if kind in ("line", "area") else "var(--up)"
        for key, scale in (("Alt+i", "linear"), ("Alt+l", "log"), ("Alt+p", "percent")):
            opened.keys(key)
            assert shown(opened).get("scale", "linear") == scale
            opened.becomes(lambda: opened.pixels(colour, 0.3, 0.5, 24) > 50)  # noqa: B023
