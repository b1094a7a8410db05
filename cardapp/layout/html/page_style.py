"""The style that all HTML pages share: embedded fonts, and colours as custom properties for light and dark screens."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from cardapp.layout import layout_options
from cardapp.layout.html.colors import dark

_FONTS = (
    ("Noto Sans", "NotoSans-Regular", "400 599", "normal", ""),
    ("Noto Sans", "NotoSans-Bold", "600 900", "normal", ""),
    ("Noto Sans", "NotoSans-Italic", "400 900", "italic", ""),
    ("Noto Sans Mono", "NotoSansMono-Regular", "400 900", "normal", ""),
    ("Noto Sans Signs", "NotoSansMath-Regular", "400 900", "normal", ""),
    ("Noto Sans Signs", "NotoSansSymbols2-Regular", "400 900", "normal", "U+2423,U+23CE,U+25A0-2612,U+2713-2718"),
)

COLORS = {name: value for name, (_use, value) in layout_options.COLORS.items()} | {
    "good": "#17794a",
    "bad": "#b32424",
    "bad_soft": "#fae7e5",
    "done": "#6a3fb5",
}
"""The colours of pages that are not a card's sheets: a layout's defaults, and further ones for outcomes."""

BACKGROUND = (
    ":root{color-scheme:light dark;--desk:color-mix(in oklab,var(--ink) 10%,var(--paper));"
    "--edge:color-mix(in oklab,var(--ink) 16%,transparent)}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--desk:color-mix(in oklab,black 42%,var(--paper))}}\n"
)
"""The colours of the background around a sheet, and of the sheet's edge."""


@cache
def fonts() -> str:
    """The ``@font-face`` rules of Noto Sans, Noto Sans Mono, and ``Noto Sans Signs`` for symbols that these lack."""
    return "".join(_font(*font) for font in _FONTS)


def font_faces(address: str) -> Iterator[str]:
    """The same faces from files: ``address`` and the name of the file."""
    return (_face(f"{address}{font[1]}.woff2", *font) for font in _FONTS)


def font_file(name: str) -> bytes | None:
    """The content of the font file ``name``; None for any other name."""
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
    """Colours as custom properties: ``--ink-soft`` for ``ink_soft``."""
    return "".join(f"--{name.replace('_', '-')}:{value};" for name, value in colors.items())


def theme() -> str:
    """The colours of our own pages as a style sheet, light and dark."""
    return f"{BACKGROUND}:root{{{properties(COLORS)}}}\n{on_dark_screen(COLORS)}"


def on_dark_screen(colors: Mapping[str, str]) -> str:
    """The media rule with the colours for a dark screen."""
    return f"@media screen and (prefers-color-scheme:dark){{:root{{{properties(dark(colors))}}}}}\n"
