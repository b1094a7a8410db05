"""What stands between a card's characters and an output: visible marks for all outputs, one escape per context.

A card was typed by people and a report tells what programs printed: any character may come.
"""

from __future__ import annotations

import html as _html
import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but for tab and line feed
    "\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb"  # no width, or a line break where none is looked for
    "\u202a-\u202e\u2066-\u2069"  # reorder what stands around them; scripts that run from the right need none
    "\ud800-\udfff\ufdd0-\ufdef"  # halves of characters, and what no document may hold
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
_PLAIN = re.compile("[ !#-%(-;=?-~]*")
"""What needs neither mark nor escape in HTML: nearly all that is asked for, so it is looked for first."""
_SAFE = re.compile("(?:https?://|mailto:)[!-~]+|#[a-z0-9/-]+", re.IGNORECASE)
_KEY = re.compile("[a-z0-9/-]+")
_FRAGMENT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_MARKDOWN = re.compile(r"[\\`*_\[\]|~]")
_BLANKS = re.compile(r"[ \t\r\n]+")
_LINE_START = re.compile(r"^(#+|[-+]|\d+[.)])(?=\s|$)")


def visible(text: str) -> str:
    """The text with a mark like ``‹U+0007›`` for every character that cannot be seen, reorders others or cannot be
    written; tab and line feed stay. A text without such characters comes back as it is."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(lambda found: f"‹U+{ord(found[0]):04X}›", text)


def html(text: object) -> str:
    """For element content and quoted attributes of HTML."""
    text = str(text)
    return text if _PLAIN.fullmatch(text) else _html.escape(visible(text))


def safe_url(url: str) -> str | None:
    """The URL if it may be a link's address (of the web or of mail, or a key of the card; complete, made of characters
    that a URL has), else None: then it is shown as text. Still to be escaped for the output it goes into."""
    return url if _SAFE.fullmatch(url) else None


def markdown(text: object) -> str:
    """For one line of Markdown, in a table cell too: line breaks become spaces, no character means markup."""
    line = visible(_BLANKS.sub(" ", str(text)).strip(" "))
    plain = _MARKDOWN.sub(r"\\\g<0>", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINE_START.sub(lambda start: start[1][:-1] + "\\" + start[1][-1], plain)


def percent_encoded(key: str) -> str:
    """The key of a position for the fragment of a URL; its slashes stay."""
    if _KEY.fullmatch(key):
        return key
    return "".join(chr(byte) if byte in _FRAGMENT else f"%{byte:02X}" for byte in visible(key).encode())


def position_url(base_url: str, key: str) -> str:
    """The address that opens a position in the running application (still to be escaped for the output)."""
    return f"{base_url.rstrip('/')}/#{percent_encoded(key)}"
