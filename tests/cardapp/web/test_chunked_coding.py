"""The chunked coding: valid coding is decoded from pieces of any size, everything else is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.web.chunked_coding import LINE_BYTES, TRAILER_BYTES, ChunkedDecoder

NEXT = b"GET / HTTP/1.1\r\n"
"""The next request on the connection, which follows the body."""

VALID = {
    b"0\r\n\r\n": b"",
    b"000\r\n\r\n": b"",
    b"5\r\nhello\r\n0\r\n\r\n": b"hello",
    b"5\r\nhello\r\n00A\r\n, world...\r\n0\r\n\r\n": b"hello, world...",
    b"2\r\n\r\n\r\n0\r\n\r\n": b"\r\n",
    b'5;a;b=c;d="e \\" ;f"\r\nhello\r\n0;x=y\r\n\r\n': b"hello",
    b"1\r\nx\r\n0\r\nName: value\r\nEmpty:\r\n\r\n": b"x",
}

INVALID = [
    b"\r\n5\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n", b"5\n\r\nhello\r\n0\r\n\r\n",
    b"5\r\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"5_0\r\n", b"\xb2\r\n", b"5;\r\nhello\r\n0\r\n\r\n",
    b"5;a=\r\nhello\r\n0\r\n\r\n", b'5;a="\r\nhello\r\n0\r\n\r\n', b"5;a\n\r\nhello\r\n0\r\n\r\n",
    b"5;a\x00\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"0" * (LINE_BYTES + 1), b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n", b"4\r\nhello\r\n0\r\n\r\n", b"5\r\nhell\r\n0\r\n\r\n\r\n", b"0\r\n\n", b"0\r\n \r\n\r\n",
    b"0\r\nno colon\r\n\r\n", b"0\r\nName : value\r\n\r\n", b"0\r\nName: a\nb\r\n\r\n", b"0\r\nName: a\r\n b\r\n\r\n",
    b"0\r\n" + b"a: b\r\n" * (TRAILER_BYTES // 6 + 1) + b"\r\n",
]  # fmt: skip


def decoded(*pieces: bytes) -> tuple[bytes, int, bool]:
    """Returns the data, the number of bytes of the last piece that belong to the body, and whether it is complete."""
    kept: list[bytes] = []
    decoder = ChunkedDecoder(kept.append)
    used = 0
    for piece in pieces:
        used = decoder.feed(piece)
    return b"".join(kept), used, decoder.is_complete


def test_a_valid_body_is_decoded_up_to_its_end_whatever_its_pieces() -> None:
    for body, data in VALID.items():
        assert decoded(body + NEXT) == (data, len(body), True)
        assert decoded(body) == (data, len(body), True)
        for place in range(1, len(body)):
            found, _, is_complete = decoded(body[:place], body[place:] + NEXT)
            assert (found, is_complete) == (data, True), (body, place)
            assert not decoded(body[:place])[2], (body, place)
        found, _, is_complete = decoded(*(bytes([byte]) for byte in body))
        assert (found, is_complete) == (data, True), body


def test_invalid_coding_is_refused() -> None:
    for body in INVALID:
        for pieces in ([body], [bytes([byte]) for byte in body]):
            with pytest.raises(ValueError, match=r"chunk|trailer"):
                pytest.fail(f"{body!r} became {decoded(*pieces)}")


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 300), max_size=6))
def test_any_data_is_decoded_unchanged(chunks: list[bytes], cuts: list[int]) -> None:
    body = b"".join(b"%X\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[begin:end] for begin, end in itertools.pairwise(places)]
    data, _, is_complete = decoded(*pieces)
    assert (data, is_complete) == (b"".join(chunks), True)
