"""A trade from what a swap changed in its pool: exact price, size and side."""

from __future__ import annotations

from typing import NamedTuple

PLACES = 30
"""Decimal places, and digits before the point, that a tick can have."""
SIGNIFICANT = 36


class NotATrade(ValueError):
    """The swap has no price, or one that a tick cannot have; the message says which."""


class Deltas(NamedTuple):
    """What the pool gained (positive) or paid out (negative) of each token, in the token's smallest unit."""

    token0: int
    token1: int


class Trade(NamedTuple):
    """``price`` in quote per base and ``size`` in base, both in whole units as decimal text; ``side`` buy or sell."""

    price: str
    size: str
    side: str


def trade(deltas: Deltas, decimals: tuple[int, int], *, invert: bool) -> Trade:
    """The base is token0, inverted token1; a buy takes base out of the pool. NotATrade when there is no price."""
    if (deltas.token0 > 0) == (deltas.token1 > 0) or not deltas.token0 or not deltas.token1:
        raise NotATrade("no token was exchanged for the other one")
    (base, base_decimals), (quote, quote_decimals) = zip(deltas, decimals, strict=True)
    if invert:
        (base, base_decimals), (quote, quote_decimals) = (quote, quote_decimals), (base, base_decimals)
    return Trade(
        price=rounded(abs(quote) * 10**base_decimals, abs(base) * 10**quote_decimals, SIGNIFICANT),
        size=rounded(abs(base), 10**base_decimals),
        side="buy" if base < 0 else "sell",
    )


def rounded(numerator: int, denominator: int, significant: int = 2 * PLACES) -> str:
    """The fraction as decimal text, rounded half-even to ``significant`` digits and at most 30 places.

    NotATrade when it rounds to 0 or has more than 30 digits before the point.
    """
    places = min(PLACES, significant - _digits_before_point(numerator, denominator))
    up, down = (10**places, 1) if places >= 0 else (1, 10**-places)
    scaled, rest = divmod(numerator * up, denominator * down)
    twice = 2 * rest - denominator * down
    if twice > 0 or (twice == 0 and scaled % 2):
        scaled += 1
    if not scaled:
        raise NotATrade(f"it rounds to 0 at {PLACES} decimal places")
    if places < 0 or scaled >= 10 ** (PLACES + places):
        raise NotATrade(f"it has more than {PLACES} digits before the point")
    text = str(scaled).rjust(places + 1, "0")
    whole, fraction = text[: len(text) - places], text[len(text) - places :].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _digits_before_point(numerator: int, denominator: int) -> int:
    """3 for 123.4, 0 for 0.5, -1 for 0.05: the number of the first digit that counts."""
    digits = len(str(numerator)) - len(str(denominator))
    at_least = numerator >= denominator * 10**digits if digits >= 0 else numerator * 10**-digits >= denominator
    return digits + 1 if at_least else digits
