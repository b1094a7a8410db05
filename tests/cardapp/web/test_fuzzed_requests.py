"""Invalid and hostile bodies get a documented error, never 500. An accepted picture is served unchanged."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.state.images import MAX_SIDE

EVIDENCE = "/api/evidence"
REFUSED = {400, 413, 415, 422}


def png(width: int, height: int, pixels: bytes, *more: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    middle = b"".join(chunk(kind, data) for kind, data in zip(more[::2], more[1::2], strict=True))
    return b"\x89PNG\r\n\x1a\n" + header + middle + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


BOMB = zlib.compress(bytes(50_000_000), 9)
"""50 MB of zeros, compressed to 50 kB."""

TAKEN = {
    "a decompression bomb": png(MAX_SIDE, 2500, BOMB),
    "the greatest sides": png(MAX_SIDE, MAX_SIDE, zlib.compress(b"")),
    "a bomb of text": png(1, 1, zlib.compress(b"\0\0"), b"zTXt", b"Comment\0\0" + BOMB),
    "pixels that are none": png(1, 1, b"no zlib at all"),
    "a script among the texts": png(1, 1, zlib.compress(b"\0\0"), b"tEXt", b"Comment\0<script>alert(1)</script>"),
}
WHOLE = TAKEN["a script among the texts"]


def post(api: Any, raw: bytes, media_type: str) -> Any:
    return api("POST", EVIDENCE, raw=raw, headers={"Content-Type": media_type})


def test_a_picture_is_kept_as_it_came_whatever_it_would_unpack_to(api: Any) -> None:
    for name, picture in TAKEN.items():
        stored = post(api, picture, "application/octet-stream")
        assert stored.status_int == 201, name
        served = api("GET", stored.headers["Location"], status=200)
        assert (served.body, served.headers["X-Content-Type-Options"]) == (picture, "nosniff"), name


same_api = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
"""All examples of a test go to one service."""


def part(head: bytes, content: bytes) -> bytes:
    return b"--b\r\n" + head + b"\r\n\r\n" + content + b"\r\n"


FORM = (
    part(b'Content-Disposition: form-data; name="caption"\r\nContent-Type: text/plain; charset=utf-8', b"seen")
    + part(b'Content-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png', WHOLE)
    + b"--b--\r\n"
)


@same_api
@given(
    st.lists(st.tuples(st.integers(0, len(FORM)), st.integers(0, 60), st.binary(max_size=12)), max_size=3),
    st.sampled_from(["", "b", '"b"', "b; charset=hex", "b; boundary=c", "ü", "b" * 300, '"b\\"']),
)
def test_any_form_is_taken_or_refused(api: Any, edits: list[tuple[int, int, bytes]], boundary: str) -> None:
    data = FORM
    for place, cut, inserted in edits:
        data = data[:place] + inserted + data[place + cut :]
    assert post(api, data, f"multipart/form-data; boundary={boundary}").status_int in REFUSED | {201}
