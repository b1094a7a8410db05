"""Ticks as clients send them: which are accepted, in which form they are kept, and the messages about invalid ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.errors import FieldError, InvalidValue
from marketdata.tick import (
    Finalize,
    FinalizeChain,
    Restore,
    Retract,
    Tick,
    chain_of,
    decimal,
    microseconds,
    parse_item,
    parse_tick,
)

GOOD: dict[str, Any] = {"symbol": "eth:A/B", "id": "0xb:1", "ts": 1_700_000_000_000, "price": "1.5", "size": "2"}


def test_the_least_that_is_a_tick() -> None:
    assert parse_tick(GOOD) == Tick("eth:A/B", "0xb:1", 1_700_000_000_000_000, 0, "1.5", "2", None, None, None, None)


def test_all_that_a_tick_can_hold() -> None:
    more = {"seq": -1, "side": "sell", "block": {"number": 0, "hash": "0xb"}, "tx": "0xt"}
    assert parse_tick(GOOD | more)[3:] == (-1, "1.5", "2", "sell", 0, "0xb", "0xt")
    assert parse_tick(GOOD | {"side": None, "block": None, "tx": None}) == parse_tick(GOOD)


def test_decimals_have_one_form() -> None:
    for given_, kept in (
        ("1", "1"), ("1.0", "1"), ("1.50", "1.5"), ("001.5", "1.5"), ("0.10", "0.1"), ("00.1", "0.1"), ("0", "0"),
        ("0.0", "0"), ("000", "0"), ("100", "100"), (100, "100"), (0, "0"),
        ("9" * 30 + "." + "9" * 30, "9" * 30 + "." + "9" * 30),
    ):  # fmt: skip
        assert decimal(given_) == kept


@given(st.from_regex(r"[0-9]{1,30}(\.[0-9]{1,30})?", fullmatch=True).filter(str.isascii))
def test_the_one_form_is_the_same_number(text: str) -> None:
    kept = decimal(text)
    assert Decimal(kept) == Decimal(text)
    assert decimal(kept) == kept
    assert kept == "0" or not (kept.startswith("00") or ("." in kept and kept.endswith(("0", "."))))


def test_an_invalid_decimal_is_refused() -> None:
    for value in (
        "", "-1", "+1", "1e5", ".5", "5.", "1,5", "0x1", "NaN", " 1", "1\n", "٣", "1" * 31, "0." + "1" * 31, 1.5, -1,
        True, None, [], {},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="decimal number"):
            decimal(value)


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2999, 12, 30)), st.integers(-14 * 60, 14 * 60), st.sampled_from("Tt ")
)
def test_rfc_3339_is_read_to_the_microsecond(naive: datetime, offset: int, between: str) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=offset)))
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    assert microseconds(moment.isoformat(between)) == since // timedelta(microseconds=1)


def test_a_time_is_read_in_microseconds() -> None:
    for value, us in (
        (0, 0), (1, 1000), ("1", 1000), ("1.5", 1500), ("1.0001", 1000), ("1.2345678", 1234), ("-1.5", -1500),
        ("1970-01-01T00:00:00Z", 0), ("1970-01-01t00:00:00z", 0), ("1970-01-01 01:00:00.5+01:00", 500_000),
        ("1970-01-01T00:00:00.1234567891Z", 123_456), ("1969-12-31T23:59:59.9Z", -100_000),
    ):  # fmt: skip
        assert microseconds(value) == us


def test_an_invalid_time_is_refused() -> None:
    for value in (
        "", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z", "20260101T000000Z", "2026-W01-1T00:00:00Z", "2026-01-01T00:00:00+25:00",
        "1e3", "1" * 16, "1\n", "٣", 1.5, True, None, [],
    ):  # fmt: skip
        with pytest.raises(InvalidValue) as refused:
            parse_tick(GOOD | {"ts": value})
        assert [fault.pointer for fault in refused.value.errors] == ["/ts"]


BAD: list[tuple[str, Any]] = [
    ("symbol", ""), ("symbol", "a b"), ("symbol", "a" * 65), ("symbol", "é"), ("symbol", "a\n"),
    ("symbol", 5), ("symbol", None),
    ("id", ""), ("id", "a b"), ("id", "\x00"), ("id", "a" * 129), ("id", "\ud800"), ("id", "a\x1f"), ("id", 7),
    ("ts", -1), ("ts", 32_503_680_000_000),
    ("seq", 1.0), ("seq", "1"), ("seq", True), ("seq", False), ("seq", 2**63), ("seq", -(2**63) - 1), ("seq", None),
    ("price", "0"), ("price", "0.000"), ("price", 0), ("price", "-1"), ("price", 1.5), ("size", "-1"), ("size", None),
    ("side", "Buy"), ("side", ""), ("side", 1), ("side", []), ("side", {}),
    ("block", []), ("block", "x"), ("block", True), ("tx", ""), ("tx", 1), ("tx", "a b"), ("unknown", 1),
]  # fmt: skip


def test_a_fault_is_named_by_its_place() -> None:
    for name, value in BAD:
        with pytest.raises(InvalidValue) as refused:
            parse_item(GOOD | {name: value}, "/ticks/3")
        assert [fault.pointer for fault in refused.value.errors] == [f"/ticks/3/{name}"]
        assert f"/ticks/3/{name}" in refused.value.detail


def test_a_fault_inside_the_block_is_named_by_its_place() -> None:
    for block, pointers in (
        ({}, ["number", "hash"]), ({"number": 1}, ["hash"]), ({"number": 1, "hash": "x", "more": 1}, ["more"]),
        ({"number": -1, "hash": "x"}, ["number"]), ({"number": True, "hash": "x"}, ["number"]),
        ({"number": 2**63, "hash": "x"}, ["number"]), ({"number": 1, "hash": ""}, ["hash"]),
        ({"number": "1", "hash": None}, ["number", "hash"]),
    ):  # fmt: skip
        with pytest.raises(InvalidValue) as refused:
            parse_item(GOOD | {"block": block}, "/ticks/3")
        assert [fault.pointer for fault in refused.value.errors] == [f"/ticks/3/block/{name}" for name in pointers]


def test_an_unknown_name_is_escaped_in_its_pointer_and_cut() -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_tick(GOOD | {"a/b~c": 1, "x" * 1000: 2})
    assert [fault.pointer for fault in refused.value.errors] == ["/a~1b~0c", "/" + "x" * 80]


def test_a_refused_amount_gets_a_message_with_the_remedy() -> None:
    for name, value, words in (
        ("price", "0", "greater than 0"), ("price", "-1", "greater than 0"),
        ("price", "2500,25", "digits with a point"), ("size", "-1", "0 or more"), ("size", "1e5", "no exponent"),
    ):  # fmt: skip
        with pytest.raises(InvalidValue, match=words):
            parse_tick(GOOD | {name: value})


SECONDS = [0, 1_769_860_860, "1769860860", "1769860860.5", Decimal("1.5"), 99_999_999_999, "099999999999.9"]


def test_epoch_seconds_are_not_taken_for_january_1970() -> None:
    for value in SECONDS:
        with pytest.raises(InvalidValue, match="/ts looks like seconds, but milliseconds are expected"):
            parse_tick(GOOD | {"ts": value})


def test_a_number_too_large_for_seconds_is_milliseconds() -> None:
    for value, us in ((100_000_000_000, 10**14), ("100000000000", 10**14), ("1970-01-01T00:00:00.000001Z", 1)):
        assert parse_tick(GOOD | {"ts": value}).ts == us


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_tick({"id": "a", "price": "x", "colour": 1})
    assert {fault.pointer for fault in refused.value.errors} == {"/symbol", "/ts", "/size", "/price", "/colour"}


def test_a_value_that_is_no_object_is_refused() -> None:
    for value in (None, 1, "x", [], [GOOD], {}, {"retract": None}, {"finalize": {"symbol": "a"}}, {"drop": {}}):
        with pytest.raises(InvalidValue):
            parse_item(value)


def test_items_that_are_no_ticks() -> None:
    assert parse_item({"retract": {"symbol": "a", "block_hash": "h"}}) == Retract("a", "h")
    assert parse_item({"restore": {"symbol": "a", "block_hash": "h"}}) == Restore("a", "h")
    assert parse_item({"finalize": {"symbol": "a", "block": 0}}) == Finalize("a", 0)
    assert parse_item({"finalize": {"symbol": "a", "block": 7, "ts": 1_700_000_000_000}}) == Finalize(
        "a", 7, 1_700_000_000_000_000
    )
    of_chain = {"chain": "ETH", "block": 7, "ts": 1_700_000_000_000}
    assert parse_item({"finalize": of_chain}) == FinalizeChain("ETH", 7, 1_700_000_000_000_000)
    for named in ({"symbol": "a"}, {"chain": "ETH"}):
        for ts in (None, 1_700_000_000, "now", -1, True):
            with pytest.raises(InvalidValue, match="/finalize/ts "):
                parse_item({"finalize": {**named, "block": 7, "ts": ts}})
    for chain in ("", "A:B", "a b", None, "a" * 63):
        with pytest.raises(InvalidValue, match="/finalize/chain must be 1 to 62 characters"):
            parse_item({"finalize": of_chain | {"chain": chain}})
    with pytest.raises(InvalidValue, match="/finalize/symbol is unknown"):
        parse_item({"finalize": of_chain | {"symbol": "ETH:A"}})


def test_the_chain_of_a_symbol_is_before_its_first_colon() -> None:
    for symbol, chain in (
        ("ETH:A-B", "ETH"),
        ("ETH:A:B", "ETH"),
        ("ETH:", "ETH"),
        ("ETH", None),
        (":A", None),
        ("::", None),
    ):
        assert chain_of(symbol) == chain


def test_other_members_of_items_are_refused() -> None:
    with pytest.raises(InvalidValue, match="/retract/ts is unknown"):
        parse_item({"retract": {"symbol": "a", "block_hash": "h", "ts": 1}})
    for word, body in (("retract", {"symbol": "a", "block": 1}), ("finalize", {"symbol": "a", "block": -1})):
        with pytest.raises(InvalidValue, match=f"/{word}/block"):
            parse_item({word: body})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(anything, st.sampled_from([*GOOD, "seq", "side", "block", "tx", None]))
def test_anything_is_either_taken_or_refused(value: Any, place: str | None) -> None:
    faults: tuple[FieldError, ...] | None = None
    try:
        parse_item(value if place is None else GOOD | {place: value})
    except InvalidValue as refused:
        faults = refused.errors
    assert faults != (), "a refusal names what is wrong"
