"""The decoder accepts the chunked coding of RFC 9112, split at any place, and refuses everything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.api.serve import Service
from marketdata.http.chunked_coding import MAX_LINE_BYTES, MAX_TRAILER_BYTES, ChunkedDecoder, MalformedChunk
from tests.marketdata.http.wire import ask

END = b"0\r\n\r\n"
ROOM = MAX_LINE_BYTES - len(b"5;\r\n")
TRAILER = MAX_TRAILER_BYTES - len(b"A:\r\n\r\n")
WELL_FORMED = [
    (END, b""),
    (b"5\r\nabcde\r\n" + END, b"abcde"),
    (b"05\r\nabcde\r\n00\r\n\r\n", b"abcde"),
    (b"0" * 15 + b"5\r\nabcde\r\n" + END, b"abcde"),
    (b"a\r\n0123456789\r\nA\r\n0123456789\r\n" + END, b"0123456789" * 2),
    (b"2\r\n\r\n\r\n" + END, b"\r\n"),
    (b'3;a;b=c;d="e;\\"\t"\r\nabc\r\n' + END, b"abc"),
    (b"5;" + b"a" * ROOM + b"\r\nabcde\r\n" + END, b"abcde"),
    (b"3\r\nabc\r\n0;last\r\n\r\n", b"abc"),
    (b"3\r\nabc\r\n0\r\nA: b\r\nC:\r\n\r\n", b"abc"),
    (b"0\r\nA:" + b"b" * TRAILER + b"\r\n\r\n", b""),
]
MALFORMED = [
    b"5\n\r\nabcde\r\n" + END,
    b"5\nabcde\r\n" + END,
    b"5;a\n\r\nabcde\r\n" + END,
    b"5;a\nabcde\r\n" + END,
    b"5\r\nabcde\n" + END,
    b"5\r\nabcde\r\n0\n\r\n",
    b"5\r\nabcde\r\n0\r\n\n",
    b"5\r\nabcde\r\n0\r\nA: b\n\r\n",
    b"\r\n5\r\nabcde\r\n" + END,
    b"5\r\nabcde\r\n\r\n" + END,
    b"5\r\nabcdef\r\n" + END,
    b"5\r\nabcde" + END,
    b"5 \r\nabcde\r\n" + END,
    b" 5\r\nabcde\r\n" + END,
    b"5\r\r\nabcde\r\n" + END,
    b"+5\r\nabcde\r\n" + END,
    b"0x5\r\nabcde\r\n" + END,
    b"5_0\r\nabcde\r\n" + END,
    b"g\r\nabcde\r\n" + END,
    b";a\r\nabcde\r\n" + END,
    b"5;\r\nabcde\r\n" + END,
    b"5; a\r\nabcde\r\n" + END,
    b"5;a=\r\nabcde\r\n" + END,
    b'5;a="b\r\nabcde\r\n' + END,
    b"5;a\x00\r\nabcde\r\n" + END,
    b"5;a\rb\r\nabcde\r\n" + END,
    b"0" * 16 + b"5\r\nabcde\r\n" + END,
    b"5;" + b"a" * (ROOM + 1) + b"\r\nabcde\r\n" + END,
    b"0\r\nno field\r\n\r\n",
    b"0\r\nA: b\x00\r\n\r\n",
    b"0\r\n A: b\r\n\r\n",
    b"0\r\n" + b"A: b\r\n" * (MAX_TRAILER_BYTES // 6 + 1) + b"\r\n",
    b"0\r\nA:" + b"b" * (TRAILER + 1) + b"\r\n\r\n",
]


def decoded(raw: bytes, step: int) -> tuple[bytes, int]:
    """Returns the body and the number of bytes of ``raw`` that belonged to it."""
    kept: list[bytes] = []
    decoder, used = ChunkedDecoder(kept.append), 0
    for start in range(0, len(raw), step):
        if not decoder.is_complete:
            used += decoder.feed(raw[start : start + step])
    assert decoder.is_complete
    return b"".join(kept), used


@pytest.mark.parametrize("step", [1, 2, 3, 100_000])
def test_a_body_is_decoded_or_refused_however_it_is_split(step: int) -> None:
    for raw, body in WELL_FORMED:
        assert decoded(raw, step) == (body, len(raw)), raw[:40]
        assert decoded(raw + b"GET / HTTP/1.1\r\n", step) == (body, len(raw)), raw[:40]
    for raw in MALFORMED:
        try:
            found = decoded(raw, step)
        except MalformedChunk:
            continue
        pytest.fail(f"{raw[:40]!r} is taken as {found}")


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(1, 70))
def test_any_chunks_are_decoded(chunks: list[bytes], step: int) -> None:
    raw = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + END
    assert decoded(raw, step) == (b"".join(chunks), len(raw))


def test_the_listener_answers_a_malformed_body_with_400(service: Service, write_token: str) -> None:
    head = (
        f"POST /v1/ingest/tick HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {write_token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    status, headers, body = ask(service.port, head.encode() + MALFORMED[0])
    assert (status, headers["connection"], json.loads(body)["code"]) == (400, "close", "bad_request")
