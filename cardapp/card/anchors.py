"""Anchors of excerpts: whether the lines that a card shows are still the lines that its author chose.

Lines are given without line ends; line numbers count from 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from cardapp.card.model import CodeRange

DIGEST_LENGTH = 12


def digest(lines: Sequence[str]) -> str:
    """The first twelve hex digits of the SHA-256 of the lines, joined by line feeds (UTF-8)."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_LENGTH]


def anchored(code: CodeRange, lines: Sequence[str]) -> CodeRange:
    """``code`` with the anchor of the present lines of its file."""
    shown = lines[code.first - 1 : code.last]
    return replace(code, text=shown[0], digest=digest(shown))


def is_anchored(code: CodeRange) -> bool:
    return code.text is not None and code.digest is not None


def holds(code: CodeRange, lines: Sequence[str]) -> bool:
    """Whether the present lines match the anchor. An excerpt without an anchor always matches."""
    shown = lines[code.first - 1 : code.last]
    return len(shown) == code.last - code.first + 1 and (
        (code.text is None or shown[0] == code.text) and (code.digest is None or digest(shown) == code.digest)
    )


def moved(code: CodeRange, lines: Sequence[str]) -> CodeRange | None:
    """The present place of the same lines; the nearest place if there are several. None if the file no longer has the
    lines.

    Only an excerpt with both parts of an anchor can be found again.
    """
    if not is_anchored(code):
        return None
    count = code.last - code.first + 1
    found = [
        first
        for first, line in enumerate(lines[: len(lines) - count + 1], 1)
        if line == code.text and digest(lines[first - 1 : first - 1 + count]) == code.digest
    ]
    if not found:
        return None
    first = min(found, key=lambda each: abs(each - code.first))
    return replace(code, first=first, last=first + count - 1)


def difference(code: CodeRange, lines: Sequence[str] | None) -> str:
    """A sentence that says why the excerpt does not show the lines that its author chose; "" if it does.

    ``lines`` are the lines of its file; None if the file cannot be read.
    """
    if lines is None:
        return "This file cannot be read."
    if holds(code, lines):
        return ""
    now = moved(code, lines)
    if now is not None:
        return f"These lines changed since the card was written: its excerpt is now in lines {now.first}–{now.last}."
    if len(lines) < code.last:
        return f"This file has only {len(lines)} lines."
    return "These lines changed since the card was written."
