"""Ingest of single ticks, batches and lines, and all its refusals."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import psycopg
from hypothesis import given
from hypothesis import strategies as st

from marketdata.api import schemas
from marketdata.api.request_validation import decoded
from marketdata.errors import InvalidValue
from marketdata.limits import MAX_BODY_BYTES
from marketdata.tick import parse_item
from tests.marketdata.api.conftest import Api, Make

INGEST = "/v1/ingest/tick"


def test_a_tick_is_created_once(api: Api, tick: Make) -> None:
    one = tick(symbol="TEST:ONE")
    assert api("POST", INGEST, one, status=201).json == {"id": "a", "status": "created"}
    assert api("POST", INGEST, one, status=200).json == {"id": "a", "status": "duplicate"}
    same = {**one, "price": "1.500", "ts": "2023-11-14T22:13:20.000000Z", "seq": 0, "side": None}
    assert api("POST", INGEST, same, status=200).json["status"] == "duplicate"
    api.problem("POST", INGEST, {**one, "price": "1.6"}, status=409, code="tick_conflict")


def test_what_turns_text_around_is_refused(api: Api, tick: Make) -> None:
    """A page or a terminal would show such an id as another one."""
    for character in "\x07\x7f\x85\u061c\u200e\u200f\u202a\u202e\u2066\u2069":
        for fault in ({"id": f"a{character}b"}, {"tx": f"a{character}b"}, {"symbol": f"TURNED:{character}B"}):
            api.problem("POST", INGEST, tick(**fault), status=422, code="invalid_value")
        path = f"/v1/ticks?symbol={quote(character)}"
        api.problem("GET", path, status=422, code="invalid_value")


def version_of(response: Any) -> int:
    return int(response.headers["Marketdata-Version"])


def test_the_answer_has_the_newest_counter_of_its_symbols(api: Api, tick: Make, admin: psycopg.Connection[Any]) -> None:
    for number in range(1, 6):
        assert version_of(api("POST", INGEST, tick(symbol="COUNT:A", id=f"{number}"), status=201)) == number
    assert version_of(api("POST", INGEST, tick(symbol="COUNT:A", id="1"), status=200)) == 6  # a duplicate
    both = {"ticks": [tick(symbol="COUNT:B"), tick(symbol="COUNT:A", id="7"), tick(symbol="COUNT:B", id="b")]}
    assert version_of(api("POST", INGEST, both)) == 7
    assert version_of(api("POST", INGEST, tick(symbol="COUNT:B", id="c"))) == 2
    block = {"block": {"number": 1, "hash": "0xc"}}
    admin.execute("INSERT INTO market_aliases (alias, symbol) VALUES ('COUNT', 'COUNT:A')")
    for item in (
        tick(symbol="COUNT:A", id="8", **block),
        {"retract": {"symbol": "COUNT", "block_hash": "0xc"}},
        {"restore": {"symbol": "COUNT:A", "block_hash": "0xc"}},
        {"finalize": {"symbol": "COUNT", "block": 1}},
        tick(symbol="COUNT", id="9"),
    ):
        sent = version_of(api("POST", INGEST, {"ticks": [tick(symbol="COUNT:B", id="d"), item]}))
        row = admin.execute("SELECT version FROM md_symbols_v1 WHERE symbol = 'COUNT:A'").fetchone()
        assert row == (sent,)


def test_an_answer_without_symbols_has_no_version(api: Api) -> None:
    chain = {"finalize": {"chain": "NOCOUNT", "block": 1, "ts": 1_700_000_000_000}}
    for ticks in ([chain], [], [{}]):
        assert "Marketdata-Version" not in api("POST", INGEST, {"ticks": ticks}, status=200).headers


def test_the_version_is_of_the_own_symbols_when_requests_share_a_transaction(api: Api, tick: Make) -> None:
    def client(number: int) -> list[int]:
        """Each client's counter begins at another number."""
        symbol = f"SHARED:{number}"
        for each in range(number):
            api("POST", INGEST, tick(symbol=symbol, id=f"before-{each}"), status=201)
        sent = (tick(symbol=symbol, id=f"{each}") for each in range(20))
        return [version_of(api("POST", INGEST, each, status=201)) - number for each in sent]

    with ThreadPoolExecutor(8) as clients:
        assert list(clients.map(client, range(8))) == [list(range(1, 21))] * 8


def test_a_number_is_stored_with_every_digit_of_its_text(api: Api) -> None:
    widest = "9" * 30 + "." + "9" * 30
    for number, text in (
        ("1.50", "1.5"), ("1e3", "1000"), ("1.5E+2", "150"), ("0.00001e30", "1" + "0" * 25),
        ("15e-30", "0." + "0" * 28 + "15"), (widest, widest), ("7", "7"),
    ):  # fmt: skip
        symbol = f"TEST:DIGITS:{number[:20].replace('+', 'p')}"
        raw = f'{{"symbol":"{symbol}","id":"a","ts":1700000000000,"price":{number},"size":{number}}}'.encode()
        assert api("POST", INGEST, raw=raw, status=201)
        (stored,) = api.get(f"/v1/ticks?symbol={symbol}")["ticks"]
        assert (stored["price"], stored["size"]) == (text, text), number


def test_a_number_that_a_field_cannot_hold_is_refused_with_its_item_alone(api: Api, tick: Make) -> None:
    huge = "9" * 5000  # more digits than the interpreter converts to an integer
    for name, value in (
        ("price", "1e31"), ("price", "1e-31"), ("price", "1e999999999999999999999"), ("size", "-0.5"), ("price", "0.0"),
        ("price", '"1e3"'), ("id", "1.5"), ("symbol", "1.5"), ("tx", "1.5"), ("side", "1.5"), ("seq", "0.0"),
        ("seq", "1e3"), ("block", '{"number":1.0,"hash":"x"}'), ("block", '{"number":1,"hash":1.5}'), ("price", huge),
        ("size", huge), ("ts", huge), ("ts", f"-{huge}"), ("seq", huge), ("seq", f"-{huge}"), ("id", huge),
        ("block", f'{{"number":{huge},"hash":"x"}}'), ("more", f'{{"deep":[{huge}]}}'),
    ):  # fmt: skip
        good = json.dumps(tick(symbol="TEST:FAULT", id=f"{name}:{value}"[:40]))
        others = {key: each for key, each in tick(symbol="TEST:FAULT").items() if key != name}
        raw = f'{{"ticks": [{good}, {json.dumps(others)[:-1]}, "{name}":{value}}}]}}'.encode()
        found = api("POST", INGEST, raw=raw, status=200).json
        assert (found["accepted"], [each["index"] for each in found["rejected"]]) == (1, [1]), (name, value)
        assert f"/{name}" in found["rejected"][0]["detail"], (name, value)


def test_a_batch_stores_its_valid_items_and_lists_the_others(api: Api, tick: Make) -> None:
    first = tick(symbol="TEST:BATCH", id="1")
    result = api.ingest(
        first, {**first, "id": "2", "price": "0"}, first, {**first, "size": "3"}, "no tick", {**first, "id": "3"},
        {**first, "block": {"number": "1", "hash": "0x1"}},
    )  # fmt: skip
    assert (result["accepted"], result["duplicates"]) == (2, 1)
    codes = {1: "invalid_value", 3: "tick_conflict", 4: "invalid_value", 6: "invalid_value"}
    assert {each["index"]: each["code"] for each in result["rejected"]} == codes
    assert result["rejected"][3]["detail"].startswith("/block/number ")
    assert "/price" in result["rejected"][0]["detail"]


def test_a_block_is_retracted_and_restored(api: Api, tick: Make) -> None:
    inside = tick(symbol="TEST:REORG", block={"number": 7, "hash": "0xaa"})
    gone = {"symbol": "TEST:REORG", "block_hash": "0xaa"}
    found = api.ingest(inside, {"retract": gone}, {**inside, "id": "b"})
    assert (found["accepted"], found["duplicates"]) == (2, 0)
    detail = "its block is retracted; if it is part of the chain again, restore it first"
    assert found["rejected"] == [{"index": 2, "code": "retracted", "detail": detail}]
    api.problem("POST", INGEST, inside, status=409, code="retracted")
    assert api.ingest({"restore": gone}, inside, {"finalize": {"symbol": "TEST:REORG", "block": 7}})["accepted"] == 3


NDJSON = {"Content-Type": "application/x-ndjson"}


def test_ndjson_lines_are_stored_and_rejected_by_number(api: Api, tick: Make) -> None:
    """A rejected item has the number of its line; blank lines are counted, but are not items."""
    lines = [json.dumps(tick(symbol="TEST:LINES", id=str(n))) for n in range(3)]
    huge = json.dumps(tick(id="huge")).replace("1700000000000", "9" * 5000)
    raw = "\n".join([lines[0], "{", lines[1], "", " \t\r", lines[2], huge, "\v", "", ""]).encode()
    result = api("POST", INGEST, raw=raw, headers=NDJSON, status=200).json
    assert result["accepted"] == 3
    codes = {1: "malformed_json", 6: "invalid_value", 7: "malformed_json"}
    assert {each["index"]: each["code"] for each in result["rejected"]} == codes


def test_a_single_tick_with_a_fault_inside_its_block(api: Api, tick: Make) -> None:
    problem = api.problem("POST", INGEST, tick(block={"number": -1}), status=422, code="invalid_value")
    assert [each["pointer"] for each in problem["errors"]] == ["/block/hash", "/block/number"]


def test_big_batches_and_small_ones_end_alike(api: Api, tick: Make) -> None:
    many = [tick(symbol="TEST:BIG", id=str(n), ts=1_700_000_000_000 + n) for n in range(1000)]
    assert api.ingest(*many) == {"accepted": 1000, "duplicates": 0, "rejected": []}
    assert api.ingest(*many[:100]) == {"accepted": 0, "duplicates": 100, "rejected": []}
    assert api.ingest() == {"accepted": 0, "duplicates": 0, "rejected": []}


def test_a_faulty_body_is_refused_with_its_status(api: Api) -> None:
    for raw, status, code in [
        (b"", 400, "malformed_json"),
        (b"{", 400, "malformed_json"),
        (b"[1, NaN]", 400, "malformed_json"),
        (b'{"a": 1e999999999999999999999}', 422, "invalid_value"),
        (b'{"a": ' + b"9" * 5000 + b"}", 422, "invalid_value"),
        (b'{"\\ud800": 1}', 422, "invalid_value"),
        (b'{"ticks": [], "\\ud800": 1}', 422, "invalid_value"),
        (b"\xff\xfe", 400, "malformed_json"),
        (b"[" * 100_000, 400, "malformed_json"),
        (b"{}", 422, "invalid_value"),
        (b"[]", 422, "invalid_value"),
        (b"null", 422, "invalid_value"),
        (b'{"ticks": {}}', 422, "invalid_value"),
        (b'{"ticks": [], "more": 1}', 422, "invalid_value"),
        (b'{"retract": {"symbol": "A", "block_hash": "0x"}}', 422, "invalid_value"),
        (b'{"ticks": [' + b"1," * 10_000 + b"1]}", 413, "too_large"),
        (b" " * (MAX_BODY_BYTES + 1), 413, "too_large"),
    ]:
        found = api("POST", INGEST, raw=raw)
        assert (found.status_int, found.json["code"]) == (status, code), raw[:40]


def test_other_media_types_are_refused(api: Api, tick: Make) -> None:
    for kind, coding in (
        ("text/plain", ""), ("", ""), ("application/json; charset=latin-1", ""), ("application/json", "br"),
    ):  # fmt: skip
        headers = {"Content-Type": kind} | ({"Content-Encoding": coding} if coding else {})
        api.problem("POST", INGEST, tick(), headers=headers, status=415, code="unsupported_media_type")


# -- the fast path and the schema ------------------------------------------------------------------------------------

_TEXTS = st.one_of(
    st.sampled_from(
        ["A", "CHAIN:A/B-C_d.e", "a" * 64, "a" * 65, "", " ", "a b", "a\n", "ü", "\u2028", "\x7f", "0xab:1", "é" * 128]
    ),
    st.text(max_size=5),
)
_AMOUNT_TEXTS = [
    "0", "0.0", "1", "007.50", "9" * 30, "9" * 31, "1." + "1" * 30, "1." + "1" * 31, "1.", ".5", "-1", "1e3", "٣",
    "1\n", " 1", "",
]  # fmt: skip
_AMOUNT_NUMBERS = [0.5, 1.0, 1e-7, 1e29, 1e30, 1e300, 1e-31, 0.0, -0.0, -2.5, 0, 1, 10**29, 10**30, -1, True, None]
_AMOUNTS = st.one_of(
    st.sampled_from(_AMOUNT_TEXTS),
    st.sampled_from(_AMOUNT_NUMBERS),
    st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,4})?", fullmatch=True),
)
_TIME_TEXTS = [
    "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2024-01-01 00:00:00.123456789+05:30", "2024-01-01T00:00:00",
    "2024-01-01t24:00:00z", "1969-12-31T23:59:59Z", "2999-12-31T23:59:59.999999Z", "3000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2024-01-01T00:00:00+99:99", "1700000000000",
    "1700000000000.5", "-1", "-0.5", "x", "", "1700000000", "099999999999.9", "100000000000", "1970-01-01T00:00:00Z",
]  # fmt: skip
_TIME_NUMBERS = [
    None, True, 1.5, -1, 0, 1e12, 10**11 - 1, 10**11, 99_999_999_999.5, 32_503_679_999_999, 32_503_680_000_000,
    32_503_679_999_999.5,
]  # fmt: skip
_TIMES = st.one_of(st.sampled_from(_TIME_TEXTS), st.sampled_from(_TIME_NUMBERS), st.integers(-5, 2**45))
_NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65), st.sampled_from([True, None, 1.0, "1", 2**63, 2**63 - 1, -(2**63), -(2**63) - 1])
)
_BLOCKS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"number": _NUMBERS, "hash": _TEXTS}),
    st.sampled_from([{}, {"number": 1}, {"number": 1, "hash": "a", "more": 1}, [], "x", 1]),
)
_TICKS = st.fixed_dictionaries(
    {},
    optional={
        "symbol": st.one_of(st.just("A"), _TEXTS, st.sampled_from([1, None, 1.5])),
        "id": st.one_of(st.just("a"), _TEXTS, st.sampled_from([1, None, 1.5])),
        "ts": st.one_of(st.just(10**12), _TIMES),
        "seq": _NUMBERS,
        "price": st.one_of(st.just("1"), _AMOUNTS),
        "size": st.one_of(st.just("1"), _AMOUNTS),
        "side": st.sampled_from(["buy", "sell", None, "BUY", "", 1, []]),
        "block": _BLOCKS,
        "tx": st.one_of(st.none(), _TEXTS),
        "more": st.just(1),
    },
)
_GOOD = {"symbol": "A", "id": "a", "ts": 10**12, "price": "1", "size": "0"}
_CONTROLS = st.one_of(
    st.fixed_dictionaries({"symbol": _TEXTS}, optional={"block_hash": _TEXTS, "block": _NUMBERS, "ts": _TIMES}),
    st.fixed_dictionaries({"chain": _TEXTS, "block": _NUMBERS, "ts": _TIMES}, optional={"symbol": _TEXTS}),
    st.just(1),
)


@st.composite
def _items(draw: st.DrawFn) -> Any:
    """A good tick with at most two members changed, a control item, or something else altogether."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(_TICKS)
    if kind == 1:
        return {draw(st.sampled_from(["retract", "restore", "finalize"])): draw(_CONTROLS)}
    if kind == 2:
        odd = draw(_TICKS)
        return _GOOD | {name: odd[name] for name in draw(st.permutations(sorted(odd)))[:2]}
    return draw(st.sampled_from([None, 1, "x", [], {}]))


@given(_items())
def test_the_fast_path_takes_what_the_schema_takes(item: Any) -> None:
    raw = json.dumps(item).encode()
    try:
        parse_item(decoded(raw, for_ingest=True))
        refused = ""
    except InvalidValue as error:
        refused = error.detail
    faults = schemas.faults("IngestItem", decoded(raw))
    assert bool(refused) == bool(faults), f"the fast path says {refused!r}, the schema says {faults}"
