"""The style that all HTML pages share: embedded fonts, and colours as custom properties for light and dark screens."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from cardapp.layout.html.colors import dark

_FONTS = (
    ("Noto Sans", "NotoSans-Regular", "400 599", "normal", ""),
    ("Noto Sans", "NotoSans-Bold", "600 900", "normal", ""),
    ("Noto Sans", "NotoSans-Italic", "400 900", "italic", ""),
    ("Noto Sans Mono", "NotoSansMono-Regular", "400 900", "normal", ""),
    ("Noto Sans Signs", "NotoSansMath-Regular", "400 900", "normal", ""),
    ("Noto Sans Signs", "NotoSansSymbols2-Regular", "400 900", "normal", "U+2423,U+23CE,U+25A0-2612,U+2713-2718"),
)

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


def _font(family: str, name: str, weight: str, slant: str, characters: str) -> str:
    content = base64.b64encode(files(__package__).joinpath("fonts", f"{name}.woff2").read_bytes()).decode()
    source = f'url("data:font/woff2;base64,{content}") format("woff2")'
    only = f"unicode-range:{characters};" if characters else ""
    return f'@font-face{{font-family:"{family}";font-weight:{weight};font-style:{slant};{only}src:{source}}}\n'


def properties(colors: Mapping[str, str]) -> str:
    """Colours as custom properties: ``--ink-soft`` for ``ink_soft``."""
    return "".join(f"--{name.replace('_', '-')}:{value};" for name, value in colors.items())


def on_dark_screen(colors: Mapping[str, str]) -> str:
    """The media rule with the colours for a dark screen."""
    return f"@media screen and (prefers-color-scheme:dark){{:root{{{properties(dark(colors))}}}}}\n"
