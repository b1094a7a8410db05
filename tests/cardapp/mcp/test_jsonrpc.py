from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Batch,
    Failure,
    Frame,
    LineDecoder,
    Malformed,
    Message,
    Notification,
    Request,
    Result,
    encode,
    is_id,
    parse,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)
ids = st.integers() | st.text()
# On the wire, an error without data is the same as one with null data.
data = json_values
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Request, ids, st.text(), objects),
    st.builds(Notification, st.text(), objects),
    st.builds(Result, ids, objects),
    st.builds(Failure, ids | st.none(), st.integers(), st.text(), data),
)


def decode(*pieces: bytes, max_line: int = 10_000_000) -> list[Frame]:
    decoder = LineDecoder(max_line)
    return [frame for piece in pieces for frame in decoder.feed(piece)]


@given(st.lists(messages, max_size=5), st.data())
def test_messages_in_pieces_of_any_size_are_decoded_unchanged(sent: list[Message], data: st.DataObject) -> None:
    stream = b"".join(encode(message) for message in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decode(*pieces) == sent
    assert len(stream.decode("ascii").splitlines()) == len(sent)
    if sent:
        assert parse(encode(sent)) == Batch(tuple(sent))


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_line_raises_an_exception(noise: bytes) -> None:
    decoder = LineDecoder(max_line=50)
    for frame in decoder.feed(noise) + decoder.feed(b"\n"):
        assert frame is not None
    assert not decoder.mid_line
    assert parse(noise) is not None


def test_blank_lines_and_carriage_returns_are_ignored() -> None:
    assert decode(b"\n  \r\n\t\n") == []
    assert decode(b'{"jsonrpc":"2.0","method":"m"}\r\n') == [Notification("m")]


def test_a_line_above_the_maximum_is_dropped_and_the_next_one_read() -> None:
    line = encode(Notification("m"))
    frames = decode(b"x" * 50, b"x" * 50, b"x" * 50 + b"\n" + line, max_line=60)
    assert frames == [Malformed(INVALID_REQUEST, "the line is longer than 60 bytes"), Notification("m")]
    assert decode(line, max_line=len(line) - 1) == [Notification("m")]
    assert isinstance(decode(line, max_line=len(line) - 2)[0], Malformed)


def test_mid_line_is_true_only_within_a_message() -> None:
    decoder = LineDecoder()
    decoder.feed(b'{"json')
    assert decoder.mid_line
    decoder.feed(b"\n")
    assert not decoder.mid_line


INVALID = {
    PARSE_ERROR: (
        b"\xff\xfe",
        b"{",
        b"NaN",
        b'{"jsonrpc":"2.0","method":"m","params":{"x":1e999}}',
        b'{"jsonrpc":"2.0","method":"m","params":{"x":-Infinity}}',
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"m"}',
    ),
    INVALID_REQUEST: (
        b"1",
        b"[]",
        b"{}",
        b'{"id":1,"method":"m"}',
        b'{"jsonrpc":"1.0","id":1,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":null,"method":"m"}',
        b'{"jsonrpc":"2.0","id":true,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
        b'{"jsonrpc":"2.0","id":1,"result":[]}',
        b'{"jsonrpc":"2.0","id":1,"result":null}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":""}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}',
        b'{"jsonrpc":"2.0","id":[],"error":{"code":1,"message":""}}',
    ),
    INVALID_PARAMS: (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}',),
}


def test_an_invalid_message_gets_the_code_of_its_fault() -> None:
    for code, lines in INVALID.items():
        for line in lines:
            found = parse(line)
            assert isinstance(found, Malformed), line[:100]
            assert found.code == code, line[:100]


def test_the_id_of_a_malformed_request_is_kept_and_that_of_an_error_may_be_missing() -> None:
    found = parse(b'{"jsonrpc":"2.0","id":"a","method":"m","params":[]}')
    assert isinstance(found, Malformed)
    assert found.id == "a"
    expected = Failure(None, -32700, "what?")
    assert parse(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}') == expected
    assert parse(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}') == expected


def test_an_invalid_message_in_a_batch_does_not_affect_the_others() -> None:
    found = parse(b'[{"jsonrpc":"2.0","method":"m"},1]')
    assert found == Batch((Notification("m"), Malformed(INVALID_REQUEST, "a message must be an object")))


def test_a_value_that_is_not_json_is_not_sent() -> None:
    for value in (float("nan"), object(), {1, 2}):
        with pytest.raises(ValueError, match="JSON"):
            encode(Notification("m", {"x": value}))


def test_an_id_is_a_string_or_an_integer() -> None:
    assert [is_id(value) for value in (1, "", True, 1.0, None)] == [True, True, False, False, False]
