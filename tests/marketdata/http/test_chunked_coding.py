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
WELL_FORMED = [
    (END, b""),
    (b"5\r\nabcde\r\n" + END, b"abcde"),
    (b"05\r\nabcde\r\n00\r\n\r\n", b"abcde"),
    (b"a\r\n0123456789\r\nA\r\n0123456789\r\n" + END, b"0123456789" * 2),
    (b"2\r\n\r\n\r\n" + END, b"\r\n"),
    (b'3;a;b=c;d="e;\\"\r\t"\r\nabc\r\n'.replace(b"\r\t", b"\t") + END, b"abc"),
    (b"3\r\nabc\r\n0;last\r\n\r\n", b"abc"),
    (b"3\r\nabc\r\n0\r\nA: b\r\nC:\r\n\r\n", b"abc"),
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
    b"5\r\nabcde\r\n0\r\nA: b\n\r\n\r\n",
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
    b"1" * 17 + b"\r\n",
    b"5;" + b"a" * MAX_LINE_BYTES + b"\r\nabcde\r\n" + END,
    b"0\r\nno field\r\n\r\n",
    b"0\r\nA: b\x00\r\n\r\n",
    b"0\r\n A: b\r\n\r\n",
    b"0\r\n" + b"A: b\r\n" * (MAX_TRAILER_BYTES // 6 + 1) + b"\r\n",
    b"0\r\nA:" + b"b" * MAX_TRAILER_BYTES,
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


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
@pytest.mark.parametrize(("raw", "body"), WELL_FORMED)
def test_a_well_formed_body_is_decoded(raw: bytes, body: bytes, step: int) -> None:
    assert decoded(raw, step) == (body, len(raw))
    assert decoded(raw + b"GET / HTTP/1.1\r\n", step) == (body, len(raw))


@pytest.mark.parametrize("step", [1, 2, 3, 100_000])
@pytest.mark.parametrize("raw", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_body_is_refused(raw: bytes, step: int) -> None:
    with pytest.raises(MalformedChunk):
        decoded(raw, step)


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(1, 70))
def test_chunks_are_decoded_however_they_are_split(chunks: list[bytes], step: int) -> None:
    raw = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + END
    assert decoded(raw, step) == (b"".join(chunks), len(raw))


@pytest.mark.parametrize("raw", [raw for raw in MALFORMED if len(raw) < 100])
def test_the_listener_answers_a_malformed_body_with_400(service: Service, write_token: str, raw: bytes) -> None:
    head = (
        f"POST /v1/ingest/tick HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {write_token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    status, headers, body = ask(service.port, head.encode() + raw)
    assert (status, headers["connection"], json.loads(body)["code"]) == (400, "close", "bad_request")
