"""CSV: what is stored, rejected and refused, and that its fast path accepts what a tick in JSON may be."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from typing import Any, BinaryIO
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.api.content_coding import MAX_MEMBERS, whole
from marketdata.api.ingest_csv import BLOCK_LINES
from marketdata.errors import DatabaseUnavailable, InvalidValue, PartlyStored, TooLarge
from marketdata.http.reply import NDJSON
from marketdata.http.wsgi import RESERVE
from marketdata.limits import MAX_BODY_BYTES, MAX_CSV_BYTES, MAX_REJECTED_LINES
from marketdata.tick import Tick
from marketdata.tick_columns import reading
from marketdata.tick_csv import COLUMNS, tick_of
from tests.marketdata.api.conftest import Api

INGEST = "/v1/ingest/tick"
TYPE = {"Content-Type": "text/csv"}
GZIP = {"Content-Encoding": "gzip"}
HEADER = ",".join(COLUMNS)


def send(api: Api, text: str | bytes, *, status: int = 200, **headers: str) -> Any:
    raw = text.encode() if isinstance(text, str) else text
    return api("POST", INGEST, raw=raw, headers=TYPE | headers, status=status).json


def stored(api: Api, symbol: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/v1/ticks?symbol={quote(symbol)}")["ticks"]
    return found


def test_lines_are_ticks(api: Api) -> None:
    result = send(
        api,
        f"{HEADER}\nCSV:A,1,2024-01-01T00:00:00.000001Z,5,1.50,2,buy,7,0xaa,0x1\n"
        "CSV:A,2,1704067201000,,0.5,0,,,,\nCSV:A,1,2024-01-01T00:00:00.000001Z,5,1.5,2,buy,7,0xaa,0x1\n",
    )
    assert result == {"accepted": 2, "duplicates": 1, "rejected": [], "rejected_count": 0}
    first, second = stored(api, "CSV:A")
    assert first == {
        "symbol": "CSV:A", "id": "1", "ts": "2024-01-01T00:00:00.000001Z", "seq": 5, "price": "1.5", "size": "2",
        "side": "buy", "block": {"number": 7, "hash": "0xaa"}, "tx": "0x1",
    }  # fmt: skip
    assert (second["seq"], second["side"], second["block"], second["tx"]) == (0, None, None, None)


def test_rfc_4180(api: Api) -> None:
    """A byte order mark, CRLF, quotes, and a last line without a line end are accepted."""
    text = (
        '\ufeff"symbol",id,ts,price,size\r\n"CSV:RFC","a""b,c","2024-01-01T00:00:00Z",1,2\r\n'
        "CSV:RFC,d,1704067200001,1,2"
    )
    assert send(api, text)["accepted"] == 2
    assert [each["id"] for each in stored(api, "CSV:RFC")] == ['a"b,c', "d"]


def test_rejected_lines_are_counted_from_0_without_the_header(api: Api) -> None:
    """Blank lines are counted, but are not ticks. A line that ends inside quotes is rejected alone."""
    lines = [
        "CSV:R,0,1704067200000,1,2", "", "CSV:R,2,1704067200000,0,2", "CSV:R,3", '"CSV:R","4"x,1704067200000,1,2',
        'CSV:R,"5,1704067200000,1,2', "CSV:R,0,1704067200000,1,3", "CSV:R,7,1704067200000,1,2", "\r",
    ]  # fmt: skip
    result = send(api, "\n".join(["symbol,id,ts,price,size", *lines, ""]))
    assert (result["accepted"], result["duplicates"], result["rejected_count"]) == (2, 0, 5)
    codes = dict.fromkeys(range(2, 6), "invalid_value") | {6: "tick_conflict"}
    assert {each["index"]: each["code"] for each in result["rejected"]} == codes
    assert result["rejected"][0]["detail"] == "price must be greater than 0"
    assert result["rejected"][1]["detail"] == "has 2 fields, but the first line names 5 columns"


def test_at_most_1000_rejected_lines_are_listed(api: Api) -> None:
    text = "symbol,id,ts,price,size\n" + "".join(f"CSV:MANY,{n},1704067200000,0,1\n" for n in range(1500))
    result = send(api, text + "CSV:MANY,good,1704067200000,1,1\n")
    assert (result["accepted"], result["rejected_count"]) == (1, 1500)
    assert [each["index"] for each in result["rejected"]] == list(range(MAX_REJECTED_LINES))


def test_several_blocks_are_one_answer(api: Api) -> None:
    count, some = 2 * BLOCK_LINES + 10, BLOCK_LINES // 10
    rows = [f"CSV:B,{n},{1704067200000 + n},{n % some},1" for n in range(count)]
    result = send(api, "\n".join(["symbol,id,ts,price,size", *rows, rows[1]]))
    assert (result["accepted"], result["duplicates"], result["rejected_count"]) == (count - 21, 1, 21)
    assert [each["index"] for each in result["rejected"]] == list(range(0, count, some))


def test_a_block_of_which_a_part_is_stored_is_no_count_of_the_file(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def partly(_items: object) -> Any:
        raise PartlyStored("1 of 2 items", extra={"accepted": 1}) from DatabaseUnavailable("a node is down")

    monkeypatch.setattr(api.service.services.tick_writer, "store_part", partly)
    problem = send(api, f"{HEADER}\nCSV:P,1,1704067200000,,1,1,,,,\n", status=503)
    assert (problem["code"], problem["detail"]) == ("database_unavailable", "a node is down")
    assert "accepted" not in problem


def test_a_wrong_first_line_is_refused(api: Api) -> None:
    for text, detail in [
        ("", "the first line is empty"),
        ("\n", "the first line is empty"),
        ("symbol,id,ts,price\n", "size is missing"),
        ("symbol,id,ts,price,size,colour\n", "'colour' is unknown"),
        ("symbol,id,ts,price,size,id\n", "id is there twice"),
        ("symbol;id;ts;price;size\n", "'symbol;id;ts;price;size' is unknown"),
        ('"symbol"x,id\n', "the line is not CSV"),
        (b"\xff\xfe", "this is UTF-16"),
        ("symbol," * 10_000, "the first line has more than 16384 bytes"),
    ]:
        raw = text.encode() if isinstance(text, str) else text
        problem = api.problem("POST", INGEST, raw=raw, headers=TYPE, status=422, code="invalid_value")
        assert detail in problem["detail"], raw[:40]


def test_bytes_that_are_not_utf_8_are_rejected_with_their_line(api: Api) -> None:
    result = send(api, b"symbol,id,ts,price,size\nCSV:U,\xff,1704067200000,1,1\nCSV:U,\xc3\xa4,1704067200000,1,1\n")
    assert (result["accepted"], [each["index"] for each in result["rejected"]]) == (1, [0])


@pytest.mark.parametrize("format", ["csv", "ndjson"])
def test_what_is_read_can_be_sent(api: Api, format: str) -> None:
    """The lines of a symbol, sent to another one, are read back byte for byte."""
    symbol = f"CSV:FROM:{format}"
    ticks = [
        {"symbol": symbol, "id": f'{n},"é\\', "ts": 1704067200000 + n // 2, "seq": n % 3 - 1, "price": f"{n + 1}.250",
         "size": "0.10", "side": [None, "buy", "sell"][n % 3],
         "block": [None, {"number": n, "hash": f'0x{n}"'}][n % 2], "tx": [None, "0x,1"][n // 2 % 2]}
        for n in range(20)
    ]  # fmt: skip
    assert api.ingest(*ticks)["accepted"] == 20
    read = api("GET", f"/v1/ticks?symbol={symbol}&format={format}").body
    kind = {"Content-Type": "text/csv; charset=utf-8" if format == "csv" else NDJSON}
    assert api("POST", INGEST, raw=read, headers=kind, status=200).json["duplicates"] == 20
    moved = read.replace(b"CSV:FROM", b"CSV:TO")
    assert api("POST", INGEST, raw=moved, headers=kind, status=200).json["accepted"] == 20
    assert api("GET", f"/v1/ticks?symbol=CSV:TO:{format}&format={format}").body == moved


# -- gzip ------------------------------------------------------------------------------------------------------------

LINE = b"symbol,id,ts,price,size\nCSV:Z,1,1704067200000,1,1\n"
ONE = b'{"symbol": "CSV:Z", "id": "1", "ts": 1704067200000, "price": "1", "size": "1"}'
BODIES = {"text/csv": LINE, NDJSON: ONE, "application/json": b'{"ticks": [' + ONE + b"]}"}


@pytest.mark.parametrize("coding", ["gzip", "GZip", "x-gzip"])
def test_every_kind_of_body_may_be_packed(api: Api, coding: str) -> None:
    for kind, raw in BODIES.items():
        headers = {"Content-Type": kind, "Content-Encoding": coding}
        result = api("POST", INGEST, raw=gzip.compress(raw), headers=headers, status=200).json
        assert result["accepted"] + result["duplicates"] == 1
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    assert api("POST", INGEST, raw=gzip.compress(ONE), headers=headers, status=200).json["status"] == "duplicate"


@pytest.mark.parametrize("kind", BODIES)
def test_bad_gzip_is_refused_by_name(api: Api, kind: str) -> None:
    whole = gzip.compress(LINE)
    for what, packed in {
        "empty": b"", "plain": LINE, "without its last byte": whole[:-1], "truncated": whole[:-9],
        "with more": whole + b"more", "wrong checksum": whole[:-8] + bytes(8),
        "no deflate": b"\x1f\x8b\x08\x00" + b"\xff" * 40, "members": whole + gzip.compress(b"") * MAX_MEMBERS,
    }.items():  # fmt: skip
        found = api("POST", INGEST, raw=packed, headers={"Content-Type": kind, **GZIP})
        assert (found.status_int, found.json["code"]) == (400, "malformed_gzip"), what
        assert "gzip" in found.json["detail"], what


def test_another_coding_is_refused_and_the_answer_names_the_accepted_one(api: Api) -> None:
    for coding in ("br", "deflate", "gzip, gzip", "identity, gzip", "zstd"):
        found = api("POST", INGEST, raw=LINE, headers=TYPE | {"Content-Encoding": coding}, status=415)
        assert (found.headers["Accept-Encoding"], found.json["code"]) == ("gzip", "unsupported_media_type"), coding
    found = api("PUT", "/v1/coverage", raw=b"{}", headers={"Content-Encoding": "gzip"}, status=415)
    assert found.headers["Accept-Encoding"] == "identity"
    found = api("POST", INGEST, raw=LINE, headers={"Content-Type": "text/plain"}, status=415)
    assert "Accept-Encoding" not in found.headers


class Counted(io.BytesIO):
    """A body that knows how much of it was read."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        part = super().read(size)
        self.taken += len(part)
        return part


def test_a_bomb_is_unpacked_only_up_to_the_limit(api: Api) -> None:
    """A body of 1 GiB, compressed to 1 MiB."""
    packed = gzip.compress(bytes(1 << 20))
    for kind, limit in (("text/csv", MAX_CSV_BYTES), (NDJSON, MAX_BODY_BYTES), ("application/json", MAX_BODY_BYTES)):
        headers = {"Content-Type": kind, **GZIP}
        problem = api.problem("POST", INGEST, raw=packed * 1024, headers=headers, status=413, code="too_large")
        assert str(limit) in problem["detail"], kind
    body = Counted(packed * 1024)
    with pytest.raises(TooLarge):
        whole({"wsgi.input": body, "HTTP_CONTENT_ENCODING": "gzip", RESERVE: lambda _size: True}, 8 << 20)
    assert body.taken < 128 << 10


@pytest.mark.parametrize("kind", ["text/csv", NDJSON])
def test_members_with_padding_and_long_headers_are_read(api: Api, kind: str) -> None:
    """Byte by byte, the name would take 40 s."""
    # A header with a file name of 7 MiB (RFC 1952, FNAME), then padding, then an empty member.
    packed = gzip.compress(BODIES[kind])
    named = packed[:3] + b"\x08" + packed[4:10] + b"a" * (7 << 20) + b"\0" + packed[10:]
    raw = named + bytes(100_000) + gzip.compress(b"") + bytes(5)
    result = api("POST", INGEST, raw=raw, headers={"Content-Type": kind, **GZIP}, status=200).json
    assert result["accepted"] + result["duplicates"] == 1


# -- the fast path ---------------------------------------------------------------------------------------------------

_VALUES: dict[str, list[str]] = {
    "symbol": ["A", "CHAIN:A/B-C_d.e", "a" * 64, "a" * 65, "a b", "ü"],
    "id": ["1", "0xab:1", "a,b", 'a"b', "é" * 128, "a" * 129, " ", "\x7f", "\x1f", "\x1e", "\xa0",
           "\x00", "a\u202eb", "\u2066", "\u061c"],
    "ts": [
        "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000001Z", "2024-02-30T00:00:00Z", "1969-12-31T23:59:59Z",
        "2999-12-31T23:59:59.999999Z", "3000-01-01T00:00:00Z", "2024-01-01 00:00:00+05:30", "2024-01-01T24:00:00Z",
        "1700000000000", "1700000000", "99999999999", "100000000000", "099999999999999", "32503679999999",
        "32503680000000", "1700000000000.5", "-1", "1,2", "x",
    ],
    "seq": ["0", "5", "-5", "-0", "007", "9" * 18, "9223372036854775807", "9223372036854775808", "9" * 31, "1.0", "+1",
            "x"],
    "price": ["1", "1.5", "1.50", "007", "0", "0.0", "9" * 30, "9" * 31, "1." + "1" * 30, "1." + "1" * 31, "1.", ".5",
              "1e3", "-1", "٣"],
    "size": ["0", "1", "0.10", "00", "-0", "1,2", " 1"],
    "side": ["buy", "sell", "BUY", "null"],
    "block_number": ["0", "7", "-1", "9223372036854775807", "9223372036854775808", "1.0", "x"],
    "block_hash": ["0xaa", "a b", "b" * 129],
    "tx": ["0x1", "a b", "c" * 129],
}  # fmt: skip
_SOUND = {name: values[0] for name, values in _VALUES.items()}


_NO_BREAK = st.characters(codec="utf-8", exclude_characters="\r\n")


def _cells(name: str) -> st.SearchStrategy[str]:
    sound = st.just(_SOUND[name])
    return st.one_of(
        sound, sound, sound, sound, st.just(""), st.sampled_from(_VALUES[name]), st.text(_NO_BREAK, max_size=3)
    )


_ROWS = st.lists(st.fixed_dictionaries({name: _cells(name) for name in COLUMNS}), min_size=1, max_size=4)


def written(rows: Iterable[dict[str, str]], quoting: Any = csv.QUOTE_ALL) -> BinaryIO:
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator="\n")
    writer.writerows([COLUMNS, *([row[name] for name in COLUMNS] for row in rows)])
    return io.BytesIO(text.getvalue().encode(errors="surrogatepass"))


def assert_like_json(rows: list[dict[str, str]], quoting: Any) -> None:
    """The check by column accepts only values that are valid in a tick as they are."""
    wanted: list[Tick | str] = []
    for row in rows:
        try:
            wanted.append(tick_of(row))
        except InvalidValue as error:
            wanted.append(error.detail)
    found: dict[int, Tick | str] = {}
    with reading(written(rows, quoting)) as reader:
        for block in reader.blocks(2):
            found.update(zip(block.indexes, block.ticks, strict=True))
            found.update({index: error.detail for index, error in block.rejected})
    assert [found[index] for index in sorted(found)] == wanted, rows


@given(_ROWS, st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
def test_the_columns_give_the_ticks_that_json_gives(rows: list[dict[str, str]], quoting: Any) -> None:
    assert_like_json(rows, quoting)
