"""The indicators of the chart page, computed in the system's Chromium, beside ta-lib's and beside exact arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import product
from typing import Any

import numpy as np
import pytest
import talib
from playwright.sync_api import Browser, Page

from marketdata.frontend.pages import FOLDER
from marketdata.limits import MAX_ROWS

pytestmark = pytest.mark.functional

ADDRESS = "http://page.test/"
Values = np.ndarray[Any, np.dtype[np.float64]]
Results = dict[str, Values]
Rows = list[dict[str, Any]]

# Given are always the indicators as the address has them, and the rows as the API sends them.
COMPUTE = """([text, rows]) => {
  const calculation = new indicators.Calculation(indicators.read(text).chosen);
  calculation.compute(JSON.parse(rows));
  return calculation.results.map(({ id, parameters, values }) => [indicators.written([{ id, parameters }]), values]);
}"""

# Computes all rows, then changes the last row, appends rows, changes an earlier row and removes the last row. Each time
# compares with a new computation of all rows.
TAIL = """([text, json]) => {
  const rows = JSON.parse(json);
  const { chosen } = indicators.read(text);
  const calculation = new indicators.Calculation(chosen);
  const known = rows.slice(0, -40);
  const faults = [];
  const compare = (what, from) => {
    calculation.compute(known, from);
    const whole = new indicators.Calculation(chosen);
    whole.compute(known);
    for (const [at, { id, values }] of whole.results.entries()) {
      const found = calculation.results[at].values;
      for (const [name, wanted] of Object.entries(values)) {
        const isSame = wanted.every((value, row) => Object.is(value, found[name][row]));
        if (!isSame || found[name].length !== known.length) faults.push(`${what}: ${id} ${name}`);
      }
    }
  };
  compare('all', 0);
  for (const row of rows.slice(-40, -3)) {
    known[known.length - 1] = { ...known.at(-1), c: row.o };
    compare('last', known.length - 1);
    known.push(row);
    compare('appended', known.length - 1);
  }
  known.push(...rows.slice(-3));
  compare('three appended', known.length - 1);
  known[100] = rows[3];
  compare('earlier', 100);
  known.splice(200, 0, rows[7]);
  compare('inserted', 200);
  known.pop();
  compare('removed', known.length);
  return faults;
}"""


@dataclass
class Module:
    """``indicators.js`` in a page without anything else."""

    page: Page

    def run(self, script: str, text: str, rows: Rows) -> Any:
        return self.page.evaluate(script, [text, json.dumps(rows)])

    def compute(self, text: str, rows: Rows) -> dict[str, Results]:
        """The values of each indicator that ``text`` names."""
        return {
            one: {name: np.array(values, float) for name, values in found.items()}
            for one, found in self.run(COMPUTE, text, rows)
        }


@pytest.fixture(scope="module")
def module(browser: Browser) -> Iterator[Module]:
    page = browser.new_page()
    page.route(f"{ADDRESS}**", lambda route: route.fulfill(path=FOLDER / route.request.url.removeprefix(ADDRESS)))
    page.route(ADDRESS, lambda route: route.fulfill(content_type="text/html", body="<!DOCTYPE html>"))
    page.goto(ADDRESS)
    page.evaluate("async () => { window.indicators = await import('/indicators.js'); }")
    page.evaluate("async () => { window.decimals = await import('/decimals.js'); }")
    yield Module(page)
    page.close()


def decimal(number: float) -> str:
    """All digits that make the number, without an exponent."""
    return f"{Decimal(repr(float(number))):f}"


def candles(prices: Values) -> Rows:
    """Candles with these closes, and with other texts that the indicators read."""
    texts = [decimal(price) for price in prices]
    return [
        {"t": 60_000 * at, "o": texts[at - 1], "c": text, "vwap": text, "v": f"{at + 1}.5", "bv": f"{at}.25"}
        for at, text in enumerate(texts)
    ]


def walk(count: int, seed: int = 1, *, start: float = 2500, volatility: float = 0.002) -> Values:
    steps = np.random.default_rng(seed).normal(0, volatility, count)
    return np.array([float(decimal(price)) for price in start * np.exp(np.cumsum(steps))])


def with_flat_parts(count: int) -> Values:
    """A walk that stands still again and again, and jumps after it."""
    found = walk(count)
    for first in range(100, count - 60, 200):
        found[first : first + 60] = found[first]
    return found


PRICES = {
    "a walk": walk(1000),
    "a price that hardly moves": walk(600, 3, start=1, volatility=1e-6),
    "a flat price": np.full(300, 0.1),
    "a walk with flat parts": with_flat_parts(600),
    "steps between two prices": np.where(np.arange(600) // 25 % 2, 0.7, 0.1),
    "tiny prices": walk(600, 4) * 2.0**-110,
    "huge prices": walk(600, 5) * 2.0**88,
    "33 rows": walk(33),
    "34 rows": walk(34),
    "a row": walk(1),
}


def bands(prices: Values, count: int, deviations: int) -> tuple[Values, ...]:
    return talib.BBANDS(prices, count, float(deviations), float(deviations))  # type: ignore[no-any-return]


# How ta-lib computes each output.
TALIB: dict[str, tuple[tuple[str, ...], Callable[[Values], Any]]] = {
    "sma.20": (("sma",), lambda prices: (talib.SMA(prices, 20),)),
    "sma.200": (("sma",), lambda prices: (talib.SMA(prices, 200),)),
    "ema.20": (("ema",), lambda prices: (talib.EMA(prices, 20),)),
    "ema.2": (("ema",), lambda prices: (talib.EMA(prices, 2),)),
    "bb.20.2": (("upper", "middle", "lower"), lambda prices: bands(prices, 20, 2)),
    "bb.5.3": (("upper", "middle", "lower"), lambda prices: bands(prices, 5, 3)),
    "rsi.14": (("rsi",), lambda prices: (talib.RSI(prices, 14),)),
    "rsi.2": (("rsi",), lambda prices: (talib.RSI(prices, 2),)),
    "macd.12.26.9": (("macd", "signal", "histogram"), lambda prices: talib.MACD(prices, 12, 26, 9)),
    "macd.3.10.16": (("macd", "signal", "histogram"), lambda prices: talib.MACD(prices, 3, 10, 16)),
    "macd.2.3.1": (("macd", "signal", "histogram"), lambda prices: talib.MACD(prices, 2, 3, 1)),
}


def assert_alike(name: str, found: Values, wanted: Values, scale: Values | float = 0) -> None:
    """The values agree within 1e-9. A difference of averages of the size ``scale`` has an error of that size."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), name)
    error = np.nan_to_num(np.abs(found - wanted))
    allowed = np.nan_to_num(1e-9 * np.abs(wanted)) + 1e-13 * scale
    assert np.all(error <= allowed), f"{name}: {found[error > allowed][0]!r} instead of {wanted[error > allowed][0]!r}"


def test_the_values_are_those_of_ta_lib(module: Module) -> None:
    for row, prices in PRICES.items():
        for text, values in module.compute(",".join(TALIB), candles(prices)).items():
            names, reference = TALIB[text]
            for name, wanted in zip(names, reference(prices), strict=True):
                scale = prices if text.startswith("macd") else 0
                assert_alike(f"{row}: {text} {name}", values[name], wanted, scale)


# -- digits ------------------------------------------------------------------------------------------------------------


def mixed(count: int) -> Values:
    """Prices from 1e-30 to 1e30: calm for a while, then at another magnitude."""
    generator = np.random.default_rng(9)
    magnitudes = np.repeat(generator.uniform(-30, 30, count // 50), 50)
    return np.array([float(decimal(price)) for price in 10.0**magnitudes * generator.uniform(1, 1.001, count)])


def exact_bands(prices: Values, count: int) -> tuple[Values, Values]:
    """Mean and population standard deviation of each full window."""
    exact = [Decimal(price) for price in prices]
    means, deviations = [], []
    with localcontext(prec=200):
        for end in range(count, len(exact) + 1):
            window = exact[end - count : end]
            mean = sum(window) / count
            means.append(float(mean))
            deviations.append(float((sum((price - mean) ** 2 for price in window) / count).sqrt()))
    return np.array(means), np.array(deviations)


def test_mean_and_deviation_lose_no_digits(module: Module) -> None:
    for prices, count in product((mixed(1000), walk(1000, 7, start=1e6, volatility=1e-9)), (2, 20, 150)):
        found = module.compute(f"sma.{count},bb.{count}.1", candles(prices))
        means, deviations = exact_bands(prices, count)
        bollinger = found[f"bb.{count}.1"]
        assert_alike("sma", found[f"sma.{count}"]["sma"][count - 1 :], means)
        assert_alike("middle", bollinger["middle"][count - 1 :], means)
        for name, sign in (("upper", 1), ("lower", -1)):
            assert_alike(name, bollinger[name][count - 1 :], means + sign * deviations, means)


# -- volume ------------------------------------------------------------------------------------------------------------


def test_vwap_and_volume_by_side_are_those_of_the_candles(module: Module) -> None:
    volumes = [
        ("3.5", "1.25"),
        ("2", "2"),
        ("2", "0"),
        ("10000000000000000000000.0000000001", "10000000000000000000000"),
    ]
    rows: Rows = [{"c": "1", "vwap": "1.5", "v": volume, "bv": bought} for volume, bought in volumes]
    rows.append({"c": "1", "vwap": None, "v": "7"})
    found = module.compute("vwap,sides", rows)
    assert_alike("vwap", found["vwap"]["vwap"], np.array([1.5, 1.5, 1.5, 1.5, np.nan]))
    assert_alike("buy", found["sides"]["buy"], np.array([1.25, 2, 0, 1e22, np.nan]))
    assert_alike("sell", found["sides"]["sell"], np.array([2.25, 0, 2, 1e-10, np.nan]))


def test_the_difference_of_decimals_is_exact(module: Module) -> None:
    rows = [
        ("3", "1", "2"), ("10", "10", "0"), ("20", "10", "10"), ("3.50", "1.25", "2.25"), ("1", "0.999", "0.001"),
        ("1.5", "0.5", "1"), ("100000000000000000000.1", "0.1", "100000000000000000000"),
    ]  # fmt: skip
    for one, other, wanted in rows:
        assert module.page.evaluate("([one, other]) => decimals.minus(one, other)", [one, other]) == wanted


# -- parts of the rows -------------------------------------------------------------------------------------------------

OUTPUTS = "(text) => indicators.INDICATORS.get(text.split('.')[0]).outputs.map(({ name }) => name)"
SEVERAL = "sma.20,sma.7,ema.50,vwap,bb.20.2,rsi.14,macd.12.26.9,macd.3.10.16,sides"


WARM_UP = "(text) => indicators.warmUp(indicators.read(text).chosen)"


def test_older_rows_do_not_change_values_after_the_warm_up(module: Module) -> None:
    prices = walk(2500, 6, volatility=0.01)
    rows, first = candles(prices), len(prices) - 50
    for text, whole in module.compute("sma.200,ema.50,bb.20.2,rsi.14,macd.12.26.9,vwap,sides", rows).items():
        warm_up = module.page.evaluate(WARM_UP, text)
        part = module.compute(text, rows[first - warm_up :])[text]
        for name in module.page.evaluate(OUTPUTS, text):
            found = part[name][warm_up:]
            assert not np.isnan(found).any(), text
            assert_alike(f"{text} {name}", found, whole[name][first:], prices[first:] if text.startswith("macd") else 0)
    largest = ("sma.500", "ema.500", "bb.500.2", "rsi.200", "macd.199.200.100")
    assert [text for text in largest if module.page.evaluate(WARM_UP, text) > MAX_ROWS] == []


def test_the_values_of_the_tail_are_those_of_all_rows(module: Module) -> None:
    assert module.run(TAIL, SEVERAL, candles(with_flat_parts(500))) == []


# -- the address -------------------------------------------------------------------------------------------------------


def read(module: Module, text: str) -> tuple[str, list[str]]:
    """The chosen indicators as text, and the faults."""
    found = module.page.evaluate("(text) => indicators.read(text)", text)
    return module.page.evaluate("(chosen) => indicators.written(chosen)", found["chosen"]), found["faults"]


def test_the_address_names_indicators(module: Module) -> None:
    for text, written in {
        "": "",
        SEVERAL: SEVERAL,
        "sma": "sma.20",
        "bb.30": "bb.30.2",
        "sma.020,sma,,sma.20": "sma.20",
        "macd.5": "macd.5.26.9",
        "sma.2,sma.500": "sma.2,sma.500",
    }.items():
        assert read(module, text) == (written, []), text


def test_a_parameter_out_of_bounds_is_a_fault(module: Module) -> None:
    for part in ("sma.1", "sma.501", "sma.", "sma.2.3", "sma.-5", "sma.1e2", "sma.20.", "sma.9" + "9" * 400):
        says = f"“{part}” is not valid. SMA is written like sma.20: period from 2 to 500."
        assert read(module, f"ema.9,{part},rsi") == ("ema.9,rsi.14", [says])


def test_each_fault_has_a_sentence(module: Module) -> None:
    written, faults = read(module, "wma.20,constructor,vwap.3,macd.26.12.9")
    known = "There are sma, ema, vwap, bb, rsi, macd, sides."
    assert written == ""
    assert faults == [
        f"There is no indicator “wma”. {known}",
        f"There is no indicator “constructor”. {known}",
        "“vwap.3” is not valid. VWAP of the candle has no parameters.",
        "“macd.26.12.9” is not valid. MACD is written like macd.12.26.9: fast from 2 to 200, slow from 2 to 200, "
        "signal from 1 to 100, fast below slow.",
    ]
