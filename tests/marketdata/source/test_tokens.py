"""The names of pools, for any answers of their tokens."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from marketdata.source.tokens import TokenInfo, free_name, is_inverted, pool_name, token_info

A, B, USD, COIN = ("0x" + f"{at:040x}" for at in (10, 11, 12, 13))
WORD = 32


def abi(text: bytes) -> bytes:
    return (
        (32).to_bytes(WORD, "big") + len(text).to_bytes(WORD, "big") + text.ljust(-(-len(text) // WORD) * WORD, b"\0")
    )


SYMBOLS = {
    abi(b"WETH"): "WETH",
    b"MKR".ljust(WORD, b"\0"): "MKR",
    abi("U\u202eSD\nT".encode()): "USDT",
    b"": "",
    abi(b"x" * 1000): "x" * 32,
    (32).to_bytes(WORD, "big") + b"\xff" * WORD + b"A" * WORD: "A" * 32,
}


def test_a_symbol_is_read_as_text_or_as_a_word() -> None:
    for symbol, expected in SYMBOLS.items():
        assert token_info((18).to_bytes(WORD, "big"), symbol) == TokenInfo(expected, 18)


def test_unusable_decimals_are_none() -> None:
    for decimals in (b"", b"\x12", b"\xff" * WORD, (78).to_bytes(WORD, "big")):
        assert token_info(decimals, b"").decimals is None, decimals
    assert token_info((77).to_bytes(WORD, "big"), b"").decimals == 77


def test_the_quote_is_a_dollar_else_the_native_currency_else_token1() -> None:
    usd, natives = {USD}, {COIN}
    assert not is_inverted((A, B), usd, natives)
    assert is_inverted((USD, A), usd, natives)
    assert not is_inverted((A, USD), usd, natives)
    assert is_inverted((COIN, A), usd, natives)
    assert is_inverted((USD, COIN), usd, natives)
    assert not is_inverted((COIN, USD), usd, natives)


def named(base: str, quote: str) -> str:
    return pool_name(TokenInfo(base, 18), A, TokenInfo(quote, 6), B)


def test_characters_outside_the_set_are_left_out() -> None:
    assert named("WETH", "USDC.e") == "WETH-USDC.e"
    assert named("a/b:c d", "$QUOTE-THAT-IS-LONG") == "abcd-QUOTETHATISL"
    assert named("\N{PILE OF POO}", "") == "00000a-00000b"


@given(st.text(), st.text())
def test_every_name_fits_into_a_symbol(base: str, quote: str) -> None:
    pool = "0x" + "ab" * 20
    taken = {named(base, quote), f"{named(base, quote)}-ababab"}
    found = free_name(named(base, quote), pool, lambda name: name in taken)
    assert re.fullmatch(r"[A-Za-z0-9._/-]{1,47}", found)
    assert found == f"{named(base, quote)}-abababababab"
