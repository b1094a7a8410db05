"""Writes the LaTeX preamble: a layout's tokens, its fonts, and the commands of ``fonts.tex`` and ``card.tex``.

Fonts are given as file names, because lualatex finds these without its font name database. To create that database
takes half a minute. When the document is typeset, ``fonts.tex`` finds out which fonts are installed, and which
characters they lack.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

from cardapp.card.model import Card, Identity
from cardapp.layout.diagram import tikz
from cardapp.layout.escape import tex_line
from cardapp.layout.layout_model import Layout, Typography
from cardapp.layout.layout_options import FAMILIES

_COMMANDS, _FONTS = (files(__package__).joinpath(name).read_text("utf-8") for name in ("card.tex", "fonts.tex"))
_WHITE = "#ffffff"
_FAMILY_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9 -]*")


def preamble(card: Card, identity: Identity, layout: Layout, characters: Sequence[str]) -> str:
    """Return everything before ``\\begin{document}``. ``characters`` are the non-ASCII characters of the sheets."""
    page = layout.page
    return "\n".join(
        (
            "% Typeset this file with one run of lualatex. It requires TeX Live and the Noto fonts.",
            r"\documentclass{article}",
            # epstopdf would convert EPS images by a shell command. There are none, but TeX Live 2025 would warn.
            r"\newcommand\DoNotLoadEpstopdf{}",
            rf"\paperwidth={page.width:g}mm \paperheight={page.height:g}mm",
            r"\usepackage{fontspec,luacode,xcolor,tikz}",
            *_language(card.language),
            *_metadata(card, identity, layout),
            *(rf"\definecolor{{card-{name}}}{{HTML}}{{{value[1:].upper()}}}" for name, value in layout.colors.items()),
            *((r"\pagecolor{card-paper}",) if layout.colors["paper"] != _WHITE else ()),
            tikz.preamble(layout.colors),
            _FONTS,
            *_families(layout.typography, fallbacks({*characters, *_COMMANDS})),
            _COMMANDS,
        )
    )


def named_where_missing(characters: Sequence[str]) -> str:
    """Return the document's first command. It makes characters without a glyph show their code points."""
    return rf"\directlua{{card_name_missing({{{', '.join(str(ord(char)) for char in characters)}}})}}"


_FROM_THE_RIGHT = ("ar", "ckb", "dv", "fa", "he", "ps", "sd", "syr", "ug", "ur", "yi")


def _language(tag: str) -> Iterator[str]:
    """Yield the card's language if babel supports it, and a language for right-to-left paragraphs.

    The sheet itself always runs left to right, because the sheet model places its parts. English words that are not
    from the card are not marked as English, because nothing is hyphenated and an untagged PDF has one language.
    """
    primary = tag.partition("-")[0].lower()
    is_right = primary in _FROM_THE_RIGHT
    yield r"\usepackage[bidi=basic]{babel}"
    yield r"\newcommand\CardLanguage{en}\newcommand\CardRightLanguage{he}"
    for name in dict.fromkeys((primary, tag)):
        command = "CardRightLanguage" if is_right else "CardLanguage"
        yield rf"\IfFileExists{{babel-{name}.ini}}{{\def\{command}{{{name}}}}}{{}}"
    yield r"\babelprovide[main,import=\CardLanguage]{cardlanguage}\babelprovide[import=\CardRightLanguage]{cardright}"


def _metadata(card: Card, identity: Identity, layout: Layout) -> Iterator[str]:
    keywords = f"{identity.id}, {identity.version}, {identity.uuid}, SHA-256 {identity.source_sha256}"
    yield r"\usepackage[unicode,hidelinks,pdfusetitle=false]{hyperref}"
    yield r"\usepackage{bookmark}"
    yield rf"\hypersetup{{pdftitle={{{tex_line(card.title)}}},pdflang={{{card.language}}},pdfdisplaydoctitle,"
    yield rf"  pdfsubject={{{tex_line(f'{layout.name} {layout.version}')}}},pdfkeywords={{{tex_line(keywords)}}},"
    yield r"  pdfcreator={cardapp},pdfpagemode=UseOutlines,pdfstartview=Fit}"
    yield r"\pdfvariable suppressoptionalinfo 608 % neither dates nor an id of the run: the same sheets, the same bytes"


# -- fonts: files of the layout's families, and Noto fonts for other scripts that occur ------------------------------

FILES = {
    "Noto Sans": "NotoSans",
    "Noto Serif": "NotoSerif",
    "Noto Sans Mono": "NotoSansMono",
    "sans-serif": "NotoSans",
    "serif": "NotoSerif",
    "monospace": "NotoSansMono",
}
"""Families with known file names. lualatex looks up other families by name."""

_STYLES = {100: "Thin", 200: "ExtraLight", 300: "Light", 400: "Regular", 500: "Medium", 600: "SemiBold", 700: "Bold",
           800: "ExtraBold", 900: "Black"}  # fmt: skip
_PLAIN, _SHAPED = "mode=node;", "mode=harf;"
"""Font features that make luaotfload place the glyphs itself, or have HarfBuzz shape them."""
_ALWAYS = (
    ("NotoSans-Regular.ttf", _PLAIN),
    ("NotoSansMono-Regular.ttf", _PLAIN),
    ("NotoSansMath-Regular.ttf", _PLAIN),
    ("NotoSansSymbols-Regular.ttf", _PLAIN),
    ("NotoSansSymbols2-Regular.ttf", _PLAIN),
    ("NotoColorEmoji.ttf", _SHAPED),
)
_HAN = ("CJK", "KANGXI", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "HALFWIDTH", "FULLWIDTH")
_IN_THE_FAMILY = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "MODIFIER")
_LAST_BASIC = 0x17F
_SCRIPT = re.compile("(.+?) (?:LETTER|CHARACTER|VOWEL|SIGN|DIGIT|SYLLABLE|CONSONANT|LIGATURE|POINT|MARK|ACCENT|SYMBOL)")
_JOINED = "+init;+medi;+fina;+isol;+rlig;+calt;"
_SCRIPT_FEATURES = {
    # Not mode=harf: babel would reorder right-to-left words before the font could shape them.
    "Arabic": f"{_PLAIN}script=arab;{_JOINED}",
    "Syriac": f"{_PLAIN}script=syrc;{_JOINED}",
    "Hebrew": f"{_PLAIN}script=hebr;",
    **{
        script: f"{_SHAPED}script={tag};"
        for script, tag in {
            "Devanagari": "dev2", "Bengali": "bng2", "Gurmukhi": "gur2", "Gujarati": "gjr2", "Oriya": "ory2",
            "Tamil": "tml2", "Telugu": "tel2", "Kannada": "knd2", "Malayalam": "mlm2", "Sinhala": "sinh",
            "Myanmar": "mym2", "Khmer": "khmr", "Thai": "thai", "Tibetan": "tibt",
        }.items()
    },
}  # fmt: skip
"""Font features of scripts whose letters depend on their context."""


def _families(typography: Typography, fallback_fonts: Sequence[tuple[str, str]]) -> Iterator[str]:
    listed = ", ".join(f'{{"{file}", "{features}"}}' for file, features in fallback_fonts)
    yield rf"\directlua{{card_add_fallback({{{listed}}})}}"
    for command, kind in (("setmainfont", "text"), ("setmonofont", "code")):
        yield _first_family(command, (*typography.families[kind], FAMILIES[kind][0]), typography)


def _first_family(command: str, names: Sequence[str], typography: Typography) -> str:
    """Return the commands that select the first installed family, and warn of each missing family before it. The last
    family must be in ``FILES``."""
    name, *others = names
    if name in FILES:
        return _known_family(command, FILES[name], typography)
    rest = rf"\PackageWarningNoLine{{card}}{{no font family {name}}}{_first_family(command, others, typography)}"
    if not _FAMILY_NAME.fullmatch(name):
        return rest
    return rf"\IfFontExistsTF{{{name}}}{{\{command}{{{name}}}[{_FEATURES}]}}{{{rest}}}"


_FEATURES = "RawFeature={fallback=card},Ligatures=TeXOff"
"""``TeXOff``, because TeX's ligatures would turn two hyphens into a dash."""


def _known_family(command: str, file: str, typography: Typography) -> str:
    regular, strong = (",".join(styles(typography.weights[name])) for name in ("regular", "strong"))
    italic = "" if file.endswith("Mono") else "ItalicFont=*-Italic,BoldItalicFont=*-BoldItalic,"
    return (
        rf"\edef\CardRegular{{\CardStyle{{{file}}}{{{regular}}}}}\edef\CardStrong{{\CardStyle{{{file}}}{{{strong}}}}}"
        rf"\{command}{{{file}}}[Extension=.ttf,UprightFont=*-\CardRegular,BoldFont=*-\CardStrong,"
        rf"{italic}{_FEATURES}]"
    )


def styles(weight: int) -> Sequence[str]:
    """Return the styles as in file names ("Regular" is 400), ordered by their difference to ``weight``."""
    return tuple(_STYLES[each] for each in sorted(_STYLES, key=lambda each: abs(each - weight)))


def fallbacks(characters: Iterable[str]) -> Sequence[tuple[str, str]]:
    """Return font files with their features, for characters that a text family may lack. Fonts for scripts come
    first."""
    beyond = {char for char in characters if ord(char) > _LAST_BASIC}
    scripts = sorted({script for char in beyond if (script := _script(char))})
    found = [
        (f"{family}{script}-Regular.ttf", _SCRIPT_FEATURES.get(script, _SHAPED))
        for script in scripts
        for family in ("NotoSans", "NotoSerif")
    ]
    if any(unicodedata.name(char, "").startswith(_HAN) for char in beyond):
        found.append(("NotoSansCJK-Regular.ttc", _SHAPED))
    return (*found, *_ALWAYS) if beyond else ()


def _script(char: str) -> str:
    """Return the script of a letter, mark or digit as in Noto's file names. It is taken from the character's name. The
    result is "" if the character needs no font of its script."""
    name = unicodedata.name(char, "")
    if unicodedata.category(char)[0] not in "LMN" or name.startswith(_IN_THE_FAMILY + _HAN):
        return ""
    found = _SCRIPT.match(name)
    return found[1].title().replace(" ", "").replace("-", "") if found else ""
