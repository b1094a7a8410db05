from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.errors import InvalidValue, UnsupportedMediaType
from cardapp.state.images import MAX_SIDE, Image, inspect

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def header(width: int = 2, height: int = 3, depth: int = 8, colour: int = 2, *rest: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, *(rest or (0, 0, 0))))


PIXELS = chunk(b"IDAT", zlib.compress(b"\0\x10\x20\x30\x40\x50\x60" * 3))
END = chunk(b"IEND")
PNG = SIGNATURE + header() + chunk(b"tEXt", b"Software\0by hand") + PIXELS + END


def segment(marker: int, content: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(content) + 2) + content


def frame(width: int = 8, height: int = 8, marker: int = 0xC0) -> bytes:
    return segment(marker, struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00")


# A complete grey image of 8 x 8 pixels: each Huffman table has one code word, and one block uses them.
TABLES = (
    segment(0xDB, b"\x00" + b"\x01" * 64)
    + segment(0xC4, b"\x00" + b"\x01" + b"\x00" * 15 + b"\x00")
    + segment(0xC4, b"\x10" + b"\x01" + b"\x00" * 15 + b"\x00")
)
SCAN = segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + b"\x3f"
APP0 = segment(0xE0, b"JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")
JPEG = b"\xff\xd8" + APP0 + TABLES + frame() + SCAN + b"\xff\xd9"


def test_complete_images_are_recognized_and_measured() -> None:
    assert inspect(PNG) == Image("image/png", "png", 2, 3)
    assert inspect(JPEG) == Image("image/jpeg", "jpg", 8, 8)


def test_other_complete_images_are_accepted() -> None:
    palette = SIGNATURE + header(1, 1, 1, 3) + chunk(b"PLTE", b"\0\0\0") + PIXELS + END
    interlaced_in_two_chunks = SIGNATURE + header(1, 1, 16, 6, 0, 0, 1) + PIXELS + PIXELS + END
    widest_with_a_time_behind = SIGNATURE + header(MAX_SIDE, 1) + PIXELS + chunk(b"tIME", b"\x07\xe9\3\1\0\0\0") + END
    for data in (palette, interlaced_in_two_chunks, widest_with_a_time_behind):
        assert inspect(data).media_type == "image/png"
    progressive_in_two_scans = b"\xff\xd8" + TABLES + frame(marker=0xC2) + SCAN + SCAN + b"\xff\xd9"
    stuffed_byte_restart_marker_and_filled_end = (
        b"\xff\xd8" + TABLES + frame() + SCAN + b"\x12\xff\x00\x34\xff\xd0\x56\xff\xff\xd9"
    )
    filled_markers_and_a_comment = (
        b"\xff\xd8\xff\xff\xff" + TABLES[1:] + frame() + SCAN + segment(0xFE, b"a comment behind") + b"\xff\xd9"
    )
    for data in (progressive_in_two_scans, stuffed_byte_restart_marker_and_filled_end, filled_markers_and_a_comment):
        assert inspect(data).media_type == "image/jpeg"


WRONG = (
    (SIGNATURE + PIXELS + header() + END, "header"),
    (SIGNATURE + header() + header() + PIXELS + END, "header"),
    (SIGNATURE + chunk(b"IHDR", b"\0" * 12) + PIXELS + END, "13 bytes"),
    (SIGNATURE + header(2, 3, 4, 2) + PIXELS + END, "invalid values"),
    (SIGNATURE + header(2, 3, 8, 5) + PIXELS + END, "invalid values"),
    (SIGNATURE + header(2, 3, 8, 2, 1, 0, 0) + PIXELS + END, "invalid values"),
    (SIGNATURE + header(2, 3, 8, 2, 0, 0, 2) + PIXELS + END, "invalid values"),
    (SIGNATURE + header(0, 3) + PIXELS + END, "size is 0 x 3"),
    (SIGNATURE + header(3, MAX_SIDE + 1) + PIXELS + END, "size is"),
    (SIGNATURE + header() + END, "pixel data"),
    (SIGNATURE + header() + PIXELS + chunk(b"tEXt", b"a\0b") + PIXELS + END, "not consecutive"),
    (SIGNATURE + header(2, 3, 8, 3) + PIXELS + END, "palette"),
    (SIGNATURE + header() + PIXELS + chunk(b"PLTE", b"\0\0\0") + END, "palette"),
    (SIGNATURE + header() + chunk(b"EVIL", b"x") + PIXELS + END, "unknown type"),
    (SIGNATURE + header() + chunk(b"a1b2", b"x") + PIXELS + END, "unknown type"),
    (SIGNATURE + header() + PIXELS + chunk(b"IEND", b"x"), "end"),
    (SIGNATURE + header() + PIXELS, "incomplete"),
    (SIGNATURE + header() + PIXELS + b"\xff\xff\xff\xffIEND", "incomplete"),
    (SIGNATURE, "incomplete"),
    (PNG + b"<script>alert(1)</script>", "25 bytes follow"),
    (PNG + PNG, "follow"),
    (PNG + b"PK\3\4", "4 bytes follow"),
    (JPEG + b"PK\3\4", "4 bytes follow"),
    (JPEG + JPEG, "follow"),
    (b"\xff\xd8" + TABLES + SCAN + b"\xff\xd9", "precedes its frame"),
    (b"\xff\xd8" + TABLES + frame() + b"\xff\xd9", "no pixel data"),
    (b"\xff\xd8\xff\xd9", "no pixel data"),
    (b"\xff\xd8" + TABLES + frame() + frame() + SCAN + b"\xff\xd9", "two frames"),
    (b"\xff\xd8" + TABLES + frame(0, 8) + SCAN + b"\xff\xd9", "size is 0 x 8"),
    (b"\xff\xd8" + TABLES + frame()[:-1] + SCAN + b"\xff\xd9", "marker was expected|as long as"),
    (
        b"\xff\xd8" + TABLES + segment(0xC0, b"\x08\0\x08\0\x08\x03\x01\x11\0") + SCAN + b"\xff\xd9",
        "length of its frame header",
    ),
    (b"\xff\xd8" + b"\xff\xd8" + TABLES + frame() + SCAN + b"\xff\xd9", "unexpected marker"),
    (b"\xff\xd8" + TABLES + frame() + SCAN, "no end marker"),
    (b"\xff\xd8\xff\xe0\x00\x01" + TABLES + frame() + SCAN + b"\xff\xd9", "within a segment"),
    (b"\xff\xd8\xff\xe0\xff\xff" + b"<html>", "within a segment"),
)
"""Files of a wrong structure, and words of the reason."""


def test_a_wrong_structure_is_refused_with_its_reason() -> None:
    for data, why in WRONG:
        with pytest.raises(InvalidValue, match=why):
            inspect(data)


def test_other_image_formats_are_refused() -> None:
    for data in (b"", b"GIF89a", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"RIFF....WEBP", b"\x89PNG\n"):
        with pytest.raises(UnsupportedMediaType, match="PNG or JPEG"):
            inspect(data)


def test_a_truncated_image_is_refused() -> None:
    for whole in (PNG, JPEG):
        for length in range(len(whole)):
            with pytest.raises((InvalidValue, UnsupportedMediaType)):
                inspect(whole[:length])


def test_a_png_with_a_changed_byte_is_refused() -> None:
    for place in range(len(PNG)):
        damaged = bytearray(PNG)
        damaged[place] ^= 0x20
        with pytest.raises((InvalidValue, UnsupportedMediaType)):
            inspect(bytes(damaged))


@given(st.sampled_from([b"", SIGNATURE, SIGNATURE + header(), b"\xff\xd8\xff", JPEG[:-2], PNG[:-12]]), st.binary())
def test_any_bytes_are_an_image_or_one_of_our_refusals(start: bytes, rest: bytes) -> None:
    with contextlib.suppress(InvalidValue, UnsupportedMediaType):
        assert 1 <= inspect(start + rest).width <= MAX_SIDE
