"""Prices, sizes and sides of swaps."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import Deltas
from marketdata.source.swaps import NotATrade, Trade, rounded, trade
from marketdata.tick import DECIMAL

E18 = 10**18


def word(number: int) -> bytes:
    return (number % (1 << 256)).to_bytes(32, "big")


def test_the_base_is_token0_and_a_buy_takes_it_out() -> None:
    # 2 whole tokens with 18 decimals for 5000 with 6 decimals
    assert trade(Deltas(-2 * E18, 5000 * 10**6), (18, 6), invert=False) == Trade("2500", "2", "buy")
    assert trade(Deltas(2 * E18, -5000 * 10**6), (18, 6), invert=False) == Trade("2500", "2", "sell")


def test_with_invert_the_base_is_token1() -> None:
    assert trade(Deltas(5000 * 10**6, -2 * E18), (6, 18), invert=True) == Trade("2500", "2", "buy")
    assert trade(Deltas(-5000 * 10**6, 2 * E18), (6, 18), invert=True) == Trade("2500", "2", "sell")
    assert trade(Deltas(-5000 * 10**6, 2 * E18), (6, 18), invert=False) == Trade("0.0004", "5000", "buy")


def test_a_swap_without_an_exchange_is_not_a_trade() -> None:
    for deltas in ((0, 0), (1, 0), (0, -1), (1, 1), (-1, -1)):
        with pytest.raises(NotATrade, match="no token was exchanged"):
            trade(Deltas(*deltas), (18, 18), invert=False)


ROUNDED = (
    (1, 3, "0.333333333333333333333333333333"),  # the limit of 30 places applies first
    (2, 3, "0.666666666666666666666666666667"),
    (10**7, 3, "3333333.33333333333333333333333333333"),  # here the limit of 36 digits applies first
    (10**20 * 2, 3, "66666666666666666666.6666666666666667"),
    (1, 10**30, "0.000000000000000000000000000001"),
    (5, 10**31 * 2, None),  # 2.5e-31 is below half a place
    (15, 10**31, "0.000000000000000000000000000002"),  # a tie goes to the even digit: 1.5 is rounded up
    (25, 10**31, "0.000000000000000000000000000002"),  # and 2.5 is rounded down
    (5, 10**31, None),  # 0.5 is rounded down to 0
    (10**30 - 1, 1, "9" * 30),
    (10**30, 1, None),
    (10**36 - 1, 10**6, "9" * 30 + ".999999"),
    (10**37 - 1, 10**7, None),  # rounds up to 31 digits
)
"""Numerator, denominator, and the text with at most 36 digits; None if the value is too small or too large."""


def test_fractions_are_rounded_half_even() -> None:
    for numerator, denominator, expected in ROUNDED:
        if expected is None:
            with pytest.raises(NotATrade):
                rounded(numerator, denominator, 36)
        else:
            assert rounded(numerator, denominator, 36) == expected


@given(st.integers(1, 10**60), st.integers(1, 10**60))
def test_rounding_agrees_with_the_decimal_module(numerator: int, denominator: int) -> None:
    exact = Fraction(numerator, denominator)
    most = Context(prec=400).divide(Decimal(numerator), Decimal(denominator))
    places = min(30, 36 - (most.adjusted() + 1))
    expected = Decimal(round(exact * Fraction(10) ** places)).scaleb(-places, Context(prec=400))
    try:
        found = rounded(numerator, denominator, 36)
    except NotATrade:
        assert expected == 0 or expected >= 10**30
    else:
        assert DECIMAL.fullmatch(found)
        assert Decimal(found) == expected


def test_a_size_is_exact() -> None:
    amount = 123456789012345678901234567890123456789
    assert trade(Deltas(-amount, 10**30), (18, 18), invert=False).size == "123456789012345678901.234567890123456789"


def v3(amount0: int, amount1: int, root: int) -> bytes:
    return word(amount0) + word(amount1) + word(root) + word(1) + word(-5)


def test_v3_amounts_must_fit_the_price_after_the_swap() -> None:
    at_2500 = math.isqrt(2500 << 192)
    assert KINDS["uniswap-v3"].decode(v3(-2 * E18, 5000 * E18, at_2500)) == (-2 * E18, 5000 * E18)
    assert KINDS["uniswap-v3"].decode(v3(2 * E18, -5000 * E18, at_2500)) == (2 * E18, -5000 * E18)
    # A sale moves the price down, so its mean price is never below the price after it.
    assert KINDS["uniswap-v3"].decode(v3(2 * E18, -9000 * E18, at_2500))
    with pytest.raises(ValueError, match="contradict"):
        KINDS["uniswap-v3"].decode(v3(2 * E18, -2000 * E18, at_2500))
    with pytest.raises(ValueError, match="contradict"):
        KINDS["uniswap-v3"].decode(v3(-2 * E18, 9000 * E18, at_2500))
    assert KINDS["uniswap-v3"].decode(v3(-2, 9, at_2500)) == (-2, 9)  # too small to compare
    with pytest.raises(ValueError, match="160 bits"):
        KINDS["uniswap-v3"].decode(v3(-2, 9, 1 << 160))
