"""Validates ingested ticks and the other items of a batch.

An item is a JSON object decoded with ``parse_float=JsonNumber``. So prices and sizes stay text all the way to
PostgreSQL, and no value is ever a float. A batch has up to 10 000 items, so a valid tick must be checked in a few
microseconds. The detailed search for faults runs only for an invalid tick.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from marketdata.errors import FieldError, InvalidValue

SYMBOL = re.compile(r"[A-Za-z0-9:._/-]{1,64}")
CHAIN = re.compile(r"[A-Za-z0-9._/-]{1,62}")
NAME = re.compile(r"[^\x00-\x20\x7f-\xa0\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]{1,128}")
"""The form of ids and hashes: no white space, no control characters, no surrogates, and none of the characters that
change the direction of text, because a shown id could then read like another one."""
DECIMAL = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?")
RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
MILLISECONDS = re.compile(r"(-?[0-9]{1,15})(?:\.([0-9]+))?")
INT64 = 1 << 63
SIDES = ("buy", "sell")
EARLIEST = 0
LATEST = 32_503_680_000_000_000
"""3000-01-01 in microseconds since 1970, exclusive."""
_SECONDS_BELOW = 100_000_000_000_000
"""A number for a time before this limit (in microseconds) was probably sent in seconds instead of milliseconds. Until
the year 5138, the number of seconds since 1970 is smaller than the limit in milliseconds."""

_MAX_EXPONENT = 40
"""Numbers beyond 10 to this power, or below its inverse, keep their exponent, because they are out of range anyway."""

_DIGITS = "digits with a point before a fraction, like 2500.25, at most 30 on either side, no exponent"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REQUIRED = ("symbol", "id", "ts", "price", "size")
_KNOWN = frozenset((*_REQUIRED, "seq", "side", "block", "tx"))


class JsonNumber(str):
    """The text of a JSON number with a point or an exponent. Text fields refuse it, because its type is not ``str``."""

    __slots__ = ()


def plain(number: str | Decimal) -> str:
    """Write a number without exponent: ``1.5E-7`` becomes ``0.00000015``. A number far out of range keeps its
    exponent."""
    if isinstance(number, str):
        if "e" not in number and "E" not in number:
            return str(number)
        try:
            number = Decimal(number)
        except ArithmeticError:  # an exponent beyond what Decimal can hold
            return str(number)
    return format(number, "f") if abs(number.adjusted()) <= _MAX_EXPONENT else str(number)


class Tick(NamedTuple):
    """A trade. ``ts`` is in microseconds since 1970. ``price`` > 0 and ``size`` >= 0 are decimal text without
    exponent."""

    symbol: str
    id: str
    ts: int
    seq: int
    price: str
    size: str
    side: str | None
    block_number: int | None
    block_hash: str | None
    tx: str | None


class Retract(NamedTuple):
    """The block left the chain: its ticks are deleted, and refused until the block is restored."""

    symbol: str
    block_hash: str


class Restore(NamedTuple):
    """The block is part of the chain again: its ticks may be sent again."""

    symbol: str
    block_hash: str


class Finalize(NamedTuple):
    """Every block up to the number ``block`` is final. ``ts`` is the time of this block in microseconds since 1970. If
    it is None, the newest time of the ticks up to this block is used."""

    symbol: str
    block: int
    ts: int | None = None


class FinalizeChain(NamedTuple):
    """Every block of the chain up to the number ``block`` is final, for all symbols of the chain. ``ts`` is the time of
    this block in microseconds since 1970."""

    chain: str
    block: int
    ts: int


Item = Tick | Retract | Restore | Finalize | FinalizeChain


def chain_of(symbol: str) -> str | None:
    """The chain of a symbol ``CHAIN:NAME``. A symbol without a colon has none."""
    chain, colon, _ = symbol.partition(":")
    return chain or None if colon else None


def parse_item(value: Any, pointer: str = "") -> Item:
    """Parse a tick, ``{"retract"|"restore": {symbol, block_hash}}``, ``{"finalize": {symbol, block, ts?}}`` or
    ``{"finalize": {chain, block, ts}}``.

    Raises InvalidValue, which names every invalid field by its JSON pointer below ``pointer``.
    """
    if isinstance(value, Mapping) and len(value) == 1:
        [(word, body)] = value.items()
        if word == "retract":
            _check(body, f"{pointer}/{word}", _BY_HASH, tuple(_BY_HASH))
            return Retract(body["symbol"], body["block_hash"])
        if word == "restore":
            _check(body, f"{pointer}/{word}", _BY_HASH, tuple(_BY_HASH))
            return Restore(body["symbol"], body["block_hash"])
        if word == "finalize" and isinstance(body, Mapping) and "chain" in body:
            _check(body, f"{pointer}/{word}", _FINALIZE_CHAIN, tuple(_FINALIZE_CHAIN))
            return FinalizeChain(body["chain"], body["block"], sent_time(body["ts"]))
        if word == "finalize":
            _check(body, f"{pointer}/{word}", _FINALIZE, ("symbol", "block"))
            return Finalize(body["symbol"], body["block"], sent_time(body["ts"]) if "ts" in body else None)
    return parse_tick(value, pointer)


def parse_tick(value: Any, pointer: str = "") -> Tick:
    """Parse a tick: ``{symbol, id, ts, seq?, price, size, side?, block?: {number, hash}, tx?}``.

    Raises InvalidValue, which names every invalid field by its JSON pointer below ``pointer``.
    """
    try:
        if not value.keys() <= _KNOWN:
            raise ValueError
        block = value.get("block")
        number, block_hash = (None, None) if block is None else _block(block)
        seq, side, tx = value.get("seq", 0), value.get("side"), value.get("tx")
        return Tick(
            _matching(SYMBOL, value["symbol"]),
            _matching(NAME, value["id"]),
            sent_time(value["ts"]),
            0 if seq == 0 and seq is not False else _bigint(seq),
            _price(value["price"]),
            decimal(value["size"]),
            None if side is None else _side(side),
            number,
            block_hash,
            tx if tx is None else _matching(NAME, tx),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _explained(value, pointer) from error


def decimal(value: Any) -> str:
    """Convert an amount, given as text or as a JSON number, to decimal text without leading or trailing zeros.

    A JSON number may have an exponent (``1e3`` is 1000), text must not. Raises ValueError for anything else.
    """
    if type(value) is JsonNumber:
        value = plain(value)
    elif type(value) is int and value >= 0:
        value = str(value)
    if type(value) is not str or not DECIMAL.fullmatch(value):
        raise ValueError(f"must be a decimal number, 0 or more: {_DIGITS}")
    text: str = value
    if text[0] == "0" and len(text) > 1:
        text = text.lstrip("0") or "0"
        text = "0" + text if text[0] == "." else text
    return text.rstrip("0").rstrip(".") if text[-1] == "0" and "." in text else text


def microseconds(value: Any) -> int:
    """Convert a time to microseconds since 1970. Digits beyond microseconds are cut off.

    The time is RFC 3339 text or epoch milliseconds (a number or its text). Raises ValueError for anything else.
    """
    if type(value) is int:
        return value * 1000
    if type(value) is JsonNumber or type(value) is Decimal:
        value = plain(value)
    if isinstance(value, str):
        if (found := RFC3339.fullmatch(value)) is not None:
            day, clock, fraction, zone = found.groups()
            moment = _existing(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
            since = moment - _EPOCH
            part = int(fraction[:6].ljust(6, "0")) if fraction else 0
            return (since.days * 86400 + since.seconds) * 1_000_000 + part
        if (found := MILLISECONDS.fullmatch(value)) is not None:
            whole, fraction = found.groups()
            part = int(fraction[:3].ljust(3, "0")) if fraction else 0
            return int(whole) * 1000 + (-part if whole[0] == "-" else part)
    raise ValueError("must be a time: RFC 3339 with its offset, like 2026-01-31T12:00:00.5Z, or epoch milliseconds")


def _existing(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("must be an existing time: a day, hour, minute, second or offset is out of range") from error


def tick_time(value: Any) -> int:
    """Convert like :func:`microseconds`. Raises ValueError for a time outside the years 1970 to 2999, because no tick
    may have such a time."""
    us = microseconds(value)
    if not EARLIEST <= us < LATEST:
        raise ValueError("must be a time between the years 1970 and 2999 (epoch times are in milliseconds)")
    return us


def sent_time(value: Any) -> int:
    """Convert the time of an ingested tick like :func:`tick_time`. A number that looks like epoch seconds is refused,
    because a stored tick cannot be corrected."""
    us = tick_time(value)
    if looks_like_seconds(us, value):
        raise ValueError(
            "looks like seconds, but milliseconds are expected; send a time before 1973-03-03T09:46:40Z as RFC 3339"
        )
    return us


def looks_like_seconds(us: int, value: Any) -> bool:
    """Whether ``value`` is a number, or the text of one, that was probably meant as seconds. ``us`` is the time that it
    means, in microseconds."""
    return us < _SECONDS_BELOW and not (isinstance(value, str) and RFC3339.fullmatch(value))


_FORMS = {
    SYMBOL: "must be 1 to 64 characters of A-Z a-z 0-9 : . _ / -",
    CHAIN: "must be 1 to 62 characters of A-Z a-z 0-9 . _ / -",
    NAME: "must be a string of 1 to 128 characters without white space, control and bidirectional characters",
}


def _matching(pattern: re.Pattern[str], value: object) -> str:
    if type(value) is not str or not pattern.fullmatch(value):
        raise ValueError(_FORMS[pattern])
    return value


def _bigint(value: Any) -> int:
    if type(value) is not int or not -INT64 <= value < INT64:
        raise ValueError("must be an integer of at most 64 bits")
    return value


def _natural(value: Any) -> int:
    if type(value) is not int or not 0 <= value < INT64:
        raise ValueError("must be an integer from 0 to 9223372036854775807")
    return value


def _price(value: Any) -> str:
    try:
        price = decimal(value)
    except ValueError as error:
        raise ValueError(f"must be a decimal number greater than 0: {_DIGITS}") from error
    if price == "0":
        raise ValueError("must be greater than 0")
    return price


def _block(value: Any) -> tuple[int, str]:
    if not isinstance(value, Mapping) or value.keys() != {"number", "hash"}:
        raise ValueError("must be an object with exactly number and hash")
    return _natural(value["number"]), _matching(NAME, value["hash"])


def _side(value: object) -> str:
    if type(value) is not str or value not in SIDES:
        raise ValueError("must be buy, sell or null")
    return value


_READERS: dict[str, Any] = {
    "symbol": lambda value: _matching(SYMBOL, value),
    "id": lambda value: _matching(NAME, value),
    "ts": sent_time,
    "seq": _bigint,
    "price": _price,
    "size": decimal,
    "side": lambda value: None if value is None else _side(value),
    "block": _block,
    "tx": lambda value: None if value is None else _matching(NAME, value),
    "block_hash": lambda value: _matching(NAME, value),
}


_BLOCK_READERS: dict[str, Any] = {"number": _natural, "hash": _READERS["block_hash"]}


_BY_HASH: dict[str, Any] = {"symbol": _READERS["symbol"], "block_hash": _READERS["block_hash"]}
_FINALIZE: dict[str, Any] = {"symbol": _READERS["symbol"], "block": _natural, "ts": sent_time}
_FINALIZE_CHAIN: dict[str, Any] = {"chain": lambda value: _matching(CHAIN, value), "block": _natural, "ts": sent_time}


def _check(body: Any, pointer: str, readers: Mapping[str, Any], required: tuple[str, ...]) -> None:
    faults = _faults(body, pointer, readers, required)
    if faults:
        raise _invalid(faults)


def _explained(value: Any, pointer: str) -> InvalidValue:
    readers = {name: reader for name, reader in _READERS.items() if name in _KNOWN}
    return _invalid(_faults(value, pointer, readers, _REQUIRED))


def _invalid(faults: list[FieldError]) -> InvalidValue:
    return InvalidValue("; ".join(f"{f.pointer or 'the item'} {f.message}" for f in faults), errors=tuple(faults))


def _faults(value: Any, pointer: str, readers: Mapping[str, Any], required: tuple[str, ...]) -> list[FieldError]:
    if not isinstance(value, Mapping):
        return [FieldError(pointer, "must be an object")]
    faults = [FieldError(f"{pointer}/{name}", "is missing") for name in required if name not in value]
    for name, given in value.items():
        place = f"{pointer}/{_escaped(name)}"
        if name not in readers:
            faults.append(FieldError(place, f"is unknown; known: {', '.join(readers)}"))
        elif name == "block" and readers[name] is _block:
            faults += [] if given is None else _faults(given, place, _BLOCK_READERS, tuple(_BLOCK_READERS))
        else:
            faults += _fault(readers[name], given, place)
    return faults


def _fault(reader: Any, value: Any, pointer: str) -> list[FieldError]:
    try:
        reader(value)
    except ValueError as error:
        return [FieldError(pointer, str(error))]
    return []


def _escaped(name: str) -> str:
    """A name as a part of a JSON pointer (RFC 6901), cut to 80 characters."""
    return name[:80].replace("~", "~0").replace("/", "~1")
