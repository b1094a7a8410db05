"""The theme that all HTML pages share: embedded fonts, and colours as custom properties for light and dark screens.

The colours for a dark screen have inverted lightness and the same hue. They are computed in OKLab (Björn Ottosson,
2020), in which equal differences of lightness look equal, so that text remains readable and colours distinguishable.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from cardapp.layout import layout_options
from cardapp.layout.annotations import OUTCOMES

_FONTS = (
    ("Noto Sans", "NotoSans-Regular", "400 599", "normal", ""),
    ("Noto Sans", "NotoSans-Bold", "600 900", "normal", ""),
    ("Noto Sans", "NotoSans-Italic", "400 900", "italic", ""),
    ("Noto Sans Mono", "NotoSansMono-Regular", "400 900", "normal", ""),
    ("Noto Sans Signs", "NotoSansMath-Regular", "400 900", "normal", ""),
    ("Noto Sans Signs", "NotoSansSymbols2-Regular", "400 900", "normal", "U+2423,U+23CE,U+25A0-2612,U+2713-2718"),
)

COLORS = {name: value for name, (_use, value) in layout_options.COLORS.items()} | {
    **OUTCOMES,
    "bad_soft": "#fae7e5",
    "done": "#6a3fb5",
}
"""The colours of pages that are not a card's sheets: the default colours of a layout, and further ones for outcomes."""

BACKGROUND = (
    ":root{color-scheme:light dark;--desk:color-mix(in oklab,var(--ink) 10%,var(--paper));"
    "--edge:color-mix(in oklab,var(--ink) 16%,transparent)}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--desk:color-mix(in oklab,black 42%,var(--paper))}}\n"
)
"""The colours of the background around a sheet, and of the sheet's edge."""


@cache
def fonts() -> str:
    """Return the ``@font-face`` rules of Noto Sans, Noto Sans Mono, and ``Noto Sans Signs`` (symbols that the first two
    lack), with embedded fonts."""
    return "".join(_font(*font) for font in _FONTS)


def font_faces(address: str) -> Iterator[str]:
    """Yield the ``@font-face`` rules of :func:`fonts`, but with URLs instead of embedded fonts: ``address`` followed by
    the file's name."""
    return (_face(f"{address}{font[1]}.woff2", *font) for font in _FONTS)


def font_file(name: str) -> bytes | None:
    """Return the content of the font file ``name``, or None if there is no such font."""
    if name not in {f"{font[1]}.woff2" for font in _FONTS}:
        return None
    return files(__package__).joinpath("fonts", name).read_bytes()


def _font(family: str, name: str, weight: str, slant: str, characters: str) -> str:
    content = base64.b64encode(files(__package__).joinpath("fonts", f"{name}.woff2").read_bytes()).decode()
    return _face(f"data:font/woff2;base64,{content}", family, name, weight, slant, characters)


def _face(address: str, family: str, _name: str, weight: str, slant: str, characters: str) -> str:
    source = f'url("{address}") format("woff2")'
    only = f"unicode-range:{characters};" if characters else ""
    return f'@font-face{{font-family:"{family}";font-weight:{weight};font-style:{slant};{only}src:{source}}}\n'


def properties(colors: Mapping[str, str]) -> str:
    """Return colours as custom properties: ``--ink-soft`` for ``ink_soft``."""
    return "".join(f"--{name.replace('_', '-')}:{value};" for name, value in colors.items())


def style_sheet() -> str:
    """Return the style sheet with ``COLORS`` for light and dark screens."""
    return f"{BACKGROUND}:root{{{properties(COLORS)}}}\n{on_dark_screen(COLORS)}"


def on_dark_screen(colors: Mapping[str, str]) -> str:
    """Return the media rule with the colours for a dark screen."""
    return f"@media screen and (prefers-color-scheme:dark){{:root{{{properties(dark(colors))}}}}}\n"


# -- colours of a dark screen ----------------------------------------------------------------------------------------

_PAPER_LIGHTNESS, _INK_LIFT, _MAX_LIGHTNESS = 0.23, 0.86, 0.97
"""Lightness (0 to 1) on a dark screen: of the paper; how much lighter the ink is; and the upper limit."""
_LIFT_EXPONENT = 0.75
"""Exponent of the distance to white. Small differences to the paper must be larger on a dark screen."""
_TINT = 0.7
"""The share of the ink's hue in the paper. Without it, the paper would be grey."""
_Triple = tuple[float, float, float]


def dark(colors: Mapping[str, str]) -> dict[str, str]:
    """Return the colours (``#rrggbb``) for a dark screen, by name."""
    ink = _oklab(_linear(colors["ink"]))
    return {name: _inverted(color, ink) for name, color in colors.items()}


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    red, green, blue = _linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _inverted(color: str, ink: _Triple) -> str:
    lightness, a, b = _oklab(_linear(color))
    lift = max(0.0, 1 - lightness) ** _LIFT_EXPONENT
    a, b = (of_color + (1 - lift) * _TINT * of_ink for of_color, of_ink in ((a, ink[1]), (b, ink[2])))
    inverted = min(_PAPER_LIGHTNESS + _INK_LIFT * lift, _MAX_LIGHTNESS)
    for tenths in range(10, -1, -1):  # reduce the saturation until the colour is in the sRGB gamut
        share = tenths / 10
        channels = _rgb((inverted, a * share, b * share))
        if all(-1e-4 <= channel <= 1 + 1e-4 for channel in channels):
            break
    return "#" + "".join(f"{_encoded(channel):02x}" for channel in channels)


def _linear(color: str) -> _Triple:
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return _decoded(red), _decoded(green), _decoded(blue)


def _decoded(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


def _encoded(channel: float) -> int:
    channel = min(max(channel, 0.0), 1.0)
    return round(255 * (channel * 12.92 if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055))


def _oklab(channels: _Triple) -> _Triple:
    red, green, blue = channels
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    middle = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _rgb(lab: _Triple) -> _Triple:
    lightness, a, b = lab
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
