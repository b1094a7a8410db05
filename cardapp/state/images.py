"""Checks that a file is one complete PNG or JPEG image and nothing else, without decoding pixels.

A file with a script or an archive after the end of the image is refused, because another program could read the served
file as that script or archive. Sources: PNG specification (W3C, third edition) chapters 5 and 11; ITU-T T.81 annex B.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from cardapp.errors import InvalidValue, UnsupportedMediaType

MAX_SIDE = 20_000
"""Maximum width and height in pixels. No screen is larger, and browsers still show an image of this size."""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PNG_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")

_SOI, _EOI, _SOS = 0xD8, 0xD9, 0xDA
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset(range(0xD0, 0xD8)) | {0x01}
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""Finds the marker that ends the pixel data. Within the data, 0xFF is followed only by a zero, by another 0xFF, or by
the second byte of a restart marker."""


@dataclass(frozen=True)
class Image:
    """Type and size of an image. ``extension`` has no dot; width and height are in pixels."""

    media_type: str
    extension: str
    width: int
    height: int


def inspect(data: bytes) -> Image:
    """Check the whole file ``data``; return its type and size.

    :raises UnsupportedMediaType: the file begins neither like a PNG nor like a JPEG.
    :raises InvalidValue: the structure or the size of the image is invalid, or the file is not exactly one image.
    """
    if data.startswith(_PNG_SIGNATURE):
        return _png(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    raise UnsupportedMediaType(
        "evidence must be a PNG or JPEG image, but the data begins like neither; convert the image and send it again"
    )


# -- PNG -----------------------------------------------------------------------------------------------------------


def _png(data: bytes) -> Image:
    chunks = list(_png_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if kinds[0] != b"IHDR" or kinds.count(b"IHDR") != 1:
        _refuse("PNG", "it does not begin with a single header chunk (IHDR)")
    if kinds[-1] != b"IEND" or chunks[-1][1]:
        _refuse("PNG", "it does not end with an empty IEND chunk")
    image, colour = _png_header(chunks[0][1])
    pixels = [place for place, kind in enumerate(kinds) if kind == b"IDAT"]
    if not pixels or pixels[-1] - pixels[0] + 1 != len(pixels):
        _refuse("PNG", "its pixel data chunks (IDAT) are missing or not consecutive")
    palettes = [place for place, kind in enumerate(kinds) if kind == b"PLTE"]
    if len(palettes) > 1 or any(place > pixels[0] for place in palettes) or (colour == 3 and not palettes):
        _refuse("PNG", "its palette is missing, misplaced or repeated")
    return image


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the type and content of each chunk. IEND is the last one; no byte may follow it."""
    place, kind = len(_PNG_SIGNATURE), b""
    while kind != b"IEND":
        if place + 12 > len(data):
            _refuse("PNG", "it ends within a chunk, so it is incomplete")
        length, kind = struct.unpack_from(">I4s", data, place)
        end = place + 8 + length
        if end + 4 > len(data):
            _refuse("PNG", "it ends within a chunk, so it is incomplete")
        if not re.fullmatch(rb"[A-Za-z]{4}", kind) or (kind[0] & 0x20 == 0 and kind not in _PNG_CRITICAL):
            _refuse("PNG", f"it contains a chunk of an unknown type at byte {place}")
        if zlib.crc32(data[place + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            _refuse("PNG", f"the checksum of the chunk at byte {place} is wrong, so the file is damaged")
        yield kind, data[place + 8 : end]
        place = end + 4
    if place != len(data):
        _refuse("PNG", f"{len(data) - place} bytes follow after its end")


def _png_header(content: bytes) -> tuple[Image, int]:
    if len(content) != 13:
        _refuse("PNG", "its header is not 13 bytes long")
    width, height, depth, colour, compression, filtering, interlace = struct.unpack(">IIBBBBB", content)
    if depth not in _PNG_DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
        _refuse("PNG", "its header has invalid values")
    return _sized("PNG", Image("image/png", "png", width, height)), colour


# -- JPEG ----------------------------------------------------------------------------------------------------------


def _jpeg(data: bytes) -> Image:
    place, image, scanned = 2, None, False
    while True:
        marker, place = _jpeg_marker(data, place)
        if marker == _EOI:
            break
        if marker in _JPEG_ALONE:
            continue
        if marker == _SOI or marker < 0xC0:
            _refuse("JPEG", f"it contains an unexpected marker at byte {place - 2}")
        content, place = _jpeg_segment(data, place)
        if marker in _JPEG_FRAMES:
            if image is not None:
                _refuse("JPEG", "it contains two frames")
            image = _jpeg_frame(content)
        elif marker == _SOS:
            if image is None:
                _refuse("JPEG", "its pixel data precedes its frame header")
            place, scanned = _jpeg_scan_end(data, place), True
    if image is None or not scanned:
        _refuse("JPEG", "it contains no pixel data")
    if place != len(data):
        _refuse("JPEG", f"{len(data) - place} bytes follow after its end")
    return image


def _jpeg_marker(data: bytes, place: int) -> tuple[int, int]:
    """The marker at ``place`` and the offset after it. A marker begins with one or more 0xFF."""
    if place >= len(data):
        _refuse("JPEG", "it has no end marker, so it is incomplete")
    if data[place] != 0xFF:
        _refuse("JPEG", f"a marker was expected at byte {place}")
    while place < len(data) and data[place] == 0xFF:
        place += 1
    if place >= len(data):
        _refuse("JPEG", "it has no end marker, so it is incomplete")
    return data[place], place + 1


def _jpeg_segment(data: bytes, place: int) -> tuple[bytes, int]:
    """The content of the segment at ``place`` and the offset after it. The segment begins with its length in two bytes.
    The length includes these two bytes."""
    if place + 2 > len(data):
        _refuse("JPEG", "it ends within a segment, so it is incomplete")
    length = struct.unpack_from(">H", data, place)[0]
    if length < 2 or place + length > len(data):
        _refuse("JPEG", "it ends within a segment, so it is incomplete")
    return data[place + 2 : place + length], place + length


def _jpeg_frame(content: bytes) -> Image:
    if len(content) < 6 or len(content) != 6 + 3 * content[5] or content[5] not in (1, 3, 4):
        _refuse("JPEG", "the length of its frame header is wrong")
    height, width = struct.unpack_from(">HH", content, 1)
    return _sized("JPEG", Image("image/jpeg", "jpg", width, height))


def _jpeg_scan_end(data: bytes, place: int) -> int:
    found = _AFTER_SCAN.search(data, place)
    if found is None:
        _refuse("JPEG", "it has no end marker, so it is incomplete")
    return found.start()


# -- both formats --------------------------------------------------------------------------------------------------


def _sized(name: str, image: Image) -> Image:
    if not (1 <= image.width <= MAX_SIDE and 1 <= image.height <= MAX_SIDE):
        _refuse(
            name,
            f"its size is {image.width} x {image.height} pixels, but width and height must be from 1 to {MAX_SIDE}",
        )
    return image


def _refuse(name: str, reason: str) -> NoReturn:
    raise InvalidValue(f"this {name} cannot be stored as evidence: {reason}; save the image anew and send that file")
