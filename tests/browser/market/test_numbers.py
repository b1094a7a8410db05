"""The labels of the price axis, at every magnitude and on every scale."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.market.conftest import Tab, drawn_texts, query
from tests.browser.market.stage import HOUR, MINUTE, Stage, now, tick

pytestmark = pytest.mark.functional

SCALE = """(cases) => import('/static/price_scale.js').then(({ PriceScale }) => cases.map(([kind, low, high, base]) => {
  const scale = new PriceScale();
  scale.kind = kind;
  scale.base = base;
  const marks = scale.marks(scale.drawn(low), scale.drawn(high), 500);
  const ends = [low, high].map((price) => [price, scale.label(scale.drawn(price))]);
  return { marks: marks.map(({ at, text }) => [scale.price(at), text]), ends };
}))"""

SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def number(text: str) -> Decimal:
    """The number of a label like ``2 503.20``, ``0.0₁₇1234``, ``1.5e18`` or ``−5``."""
    plain = text.replace("\u202f", "").replace("−", "-")
    head, point, tail = plain.partition("0.0")
    zeros = "".join(each for each in tail if each in "₀₁₂₃₄₅₆₇₈₉")
    if point and zeros:
        return Decimal(f"{head}0.{'0' * int(zeros.translate(SUBSCRIPTS))}{tail[len(zeros) :]}")
    return Decimal(plain)


def is_close(text: str, wanted: float, part: str) -> bool:
    return abs(number(text) - Decimal(wanted)) <= abs(Decimal(wanted)) * Decimal(part)


def labels(page: Page, kind: str, low: float, high: float, base: float = 1) -> Any:
    return page.evaluate(SCALE, [[kind, low, high, base]])[0]


def test_labels_of_every_magnitude_tell_their_numbers(blank: Page) -> None:
    ranges = product(("linear", "log"), range(-30, 31), ((1, 3), (1.23456, 1.2346), (0.9, 11)))
    cases = [[kind, low * 10.0**power, high * 10.0**power, 1] for kind, power, (low, high) in ranges]
    for case, found in zip(cases, blank.evaluate(SCALE, cases), strict=True):
        assert 4 <= len(found["marks"]) <= 18, (case, found)
        texts = [text for _, text in found["marks"]]
        assert len(set(texts)) == len(texts)
        assert all(is_close(text, at, "1e-9") for at, text in found["marks"]), found
        assert all(is_close(text, end, "1e-5") for end, text in found["ends"]), found
        assert all(len(text) <= 14 for text in texts), found
    found = labels(blank, "log", 1e-30, 1e30)
    assert len(found["marks"]) > 10
    assert all(number(text) == Decimal(f"{at:.3g}") for at, text in found["marks"])
    linear = labels(blank, "linear", 1e-30, 1e30)
    assert [text for _, text in linear["ends"]] == ["0.0₂₉100000", "1.00000e30"]
    assert "5e29" in [text for _, text in linear["marks"]]


def test_marks_have_only_the_digits_that_tell_them_apart(blank: Page) -> None:
    def marks(kind: str, low: float, high: float, base: float = 1) -> list[str]:
        return [text.replace("\u202f", " ") for _, text in labels(blank, kind, low, high, base)["marks"]]

    assert marks("linear", 2400, 2490)[:3] == ["2 400", "2 410", "2 420"]
    assert marks("linear", 1, 1.9)[:3] == ["1.0", "1.1", "1.2"]
    assert marks("linear", 1e-18, 3e-18)[:3] == ["0.0₁₇10", "0.0₁₇12", "0.0₁₇14"]
    assert marks("log", 0.000002, 80)[:3] == ["0.0₅3", "0.00001", "0.00003"]
    assert marks("log", 90, 1100)[:4] == ["100", "150", "200", "300"]
    assert marks("percent", 100, 200, 100)[:3] == ["0 %", "+10 %", "+20 %"]
    amounts = ["0.0001", "0.00001", "0.0000123456", "0.000001", "0.00000123456"]
    short, text = blank.evaluate(
        """(amounts) => import('/static/decimals.js').then(({ short, text }) =>
          [amounts.map(short), amounts.map((each) => text(Number(each), each.length - 2))])""",
        amounts,
    )
    assert short == text == ["0.0001", "0.00001", "0.0000123456", "0.0₅1", "0.0₅123456"], "zeros from the fifth on"


def test_a_price_that_fell_from_80_to_0_00002_is_a_straight_line_on_a_log_scale(tab: Tab, stage: Stage) -> None:
    symbol, end, count = "DEMO:STEEP", now() // HOUR * HOUR, 100
    prices = (f"{80 * (0.00002 / 80) ** (at / count):.12f}" for at in range(count + 1))
    stage.write(*(tick(symbol, end - (count - at) * MINUTE, price) for at, price in enumerate(prices)))
    opened = tab(query(symbol, "1m", scale="log")).drawn()
    texts = drawn_texts(opened)
    places = [texts[text]["y"] for text in ("10", "0.1", "0.001", "0.00001")]
    steps = [after - before for before, after in pairwise(places)]
    assert max(steps) - min(steps) < 2, steps
    assert min(steps) > 20, steps
    label = opened.page.locator("#last-price")
    expect(label).to_have_text("0.0000200000")
    opened.keys("Alt+l")
    linear = drawn_texts(opened)
    assert {"40", "80"} <= set(linear)
    expect(label).to_have_text("0.0000200000")
    assert not [text for text in linear if text.startswith("−")], "no price is below zero"
    opened.keys("Alt+p")
    assert {"−50 %", "0 %"} <= set(drawn_texts(opened))
    expect(label).to_have_text("−100.00 %")
