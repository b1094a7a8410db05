"""Documents in HTML that people read, and that need no login and no script: API and frontend show them."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from string import Template

DOCS = "/docs"
"""The path of the page that describes the API, at the API and at the frontend."""

_STYLE = (Path(__file__).resolve().parent / "document.css").read_text(encoding="utf-8")
_LITERAL = re.compile(r"(`{1,2})([^`]+)\1")


class Document:
    """A page from a template. The style is in the page, because the API serves no other files."""

    def __init__(self, template: Path) -> None:
        self._template = Template(template.read_text(encoding="utf-8"))

    def filled(self, **parts: str) -> bytes:
        """The page with these parts, which are HTML."""
        return self._template.substitute(parts, style=_STYLE).encode()


def marked(plain: str) -> str:
    """Text as HTML. What is between backticks becomes code."""
    return _LITERAL.sub(r"<code>\2</code>", escape(plain))
