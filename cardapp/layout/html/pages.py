"""Renders a card's sheets for the application's page: one HTML fragment per page (block), and one style sheet for all.

The application's page puts the fragments into a shadow root, where the style sheet applies only to the sheets. Scripts
find a part by its ``data-key`` and ``data-kind``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from cardapp.layout.diagram import svg
from cardapp.layout.html import theme
from cardapp.layout.html.document import SheetWriter
from cardapp.layout.html.sheet_style import components, tokens
from cardapp.layout.layout_model import Layout
from cardapp.layout.sheets import Document

_SHEET_RULES = "/* -- a sheet -- */"
_PRINT_RULES = "@media print"
_BASE = """
*, ::before, ::after { box-sizing: border-box; }
:host { display: block; font-family: var(--text); font-weight: var(--regular); color: var(--ink);
  overflow-wrap: anywhere; }
h1, h2, h3, h4, h5, h6, p, ul, ol, figure, blockquote, pre { margin: 0; padding: 0; font: inherit; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .16em; }
:focus-visible { outline: 2px solid var(--current); outline-offset: 2px; border-radius: 2px; }
strong { font-weight: var(--strong); }
code { font-family: var(--code); line-height: 0; font-variant-ligatures: none; white-space: pre-wrap; }
pre code, td code, th code, .note code { line-height: inherit; white-space: inherit; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
"""


class Pages:
    """The pages of one document. The time to render a page depends on its sheets, and not on the size of the card."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._writer = SheetWriter(document, keyed=True)
        self._sheets: dict[int, list[int]] = {}
        for sheet in document.sheets:
            self._sheets.setdefault(sheet.page_index, []).append(sheet.index)

    def html(self, page_index: int) -> str:
        """Render the sheets of the page, one ``<section>`` each."""
        sheets = self._document.sheets
        return "".join(self._writer.sheet(sheets[index]) for index in self._sheets[page_index])


def style(layout: Layout) -> str:
    """Return the style sheet of the fragments, for a shadow root. The page sets ``--u``, the pixels of a millimetre."""
    return "".join(
        (
            *(line.replace(":root{", ":host{") for line in tokens(layout)),
            _BASE,
            svg.style(layout.colors),
            _sheet_rules(),
            *components(layout),
            theme.on_dark_screen(layout.colors).replace(":root{", ":host{"),
            _flowing(),
        )
    )


def page_style(fonts: str) -> str:
    """Return the style sheet of the page around the sheets: colours, diagrams, and the sheets' fonts. ``fonts`` is the
    URL prefix of the font files. The fonts are declared here because a shadow root cannot declare any."""
    return "".join((*theme.font_faces(fonts), theme.style_sheet(), svg.style(theme.COLORS)))


@cache
def _flowing() -> str:
    """Return the rules for a narrow window, limited to sheets inside an element of the class ``flow``."""
    rules = files(__package__).joinpath("narrow.css").read_text("utf-8").splitlines()
    return ".flow{\n" + "\n".join(rule for rule in rules if rule.startswith((".", "th "))) + "\n}\n"


@cache
def _sheet_rules() -> str:
    text = files(__package__).joinpath("sheet.css").read_text("utf-8")
    return text[text.index(_SHEET_RULES) : text.index(_PRINT_RULES)]
