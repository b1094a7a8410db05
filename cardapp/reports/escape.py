"""One escape per context; what a report shows was typed by people and printed by programs."""

from __future__ import annotations

import html as _html
import re
from urllib.parse import quote

_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_MARKDOWN = re.compile(r"[\\`*_\[\]|~]")
_LINE_START = re.compile(r"^(#+|[-+]|\d+[.)])(?=\s|$)")


def html(text: object) -> str:
    """For element content and quoted attributes. Characters that HTML cannot hold become U+FFFD."""
    return _html.escape(_NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def markdown(text: object) -> str:
    """For one line of Markdown, in a table cell too: line breaks become spaces, no character means markup."""
    line = " ".join(_NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", str(text)).split())
    plain = _MARKDOWN.sub(r"\\\g<0>", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINE_START.sub(lambda start: start[1][:-1] + "\\" + start[1][-1], plain)


def position_url(base_url: str, key: str) -> str:
    """The address that opens a position in the running application (not yet escaped for HTML)."""
    return f"{base_url.rstrip('/')}/#{quote(key, safe='/')}"
