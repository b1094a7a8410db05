"""Finds the kinds of the tokens in source code with Pygments, for the colours of code.

The result is plain data; an emitter escapes each text for its context. A file or a fence in a language that Pygments
does not know has pieces without a kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Keyword, Name, _TokenType
from pygments.token import Literal as Value
from pygments.util import ClassNotFound

from cardapp.layout.escape import visible
from cardapp.layout.font_metrics import TAB

Kind = Literal["", "keyword", "type", "string", "number", "comment"]

_KINDS: tuple[tuple[_TokenType, Kind], ...] = (
    (Comment.Preproc, "keyword"),
    (Comment.PreprocFile, "string"),
    (Comment, "comment"),
    (Keyword.Type, "type"),
    (Keyword, "keyword"),
    (Name.Builtin, "keyword"),
    (Name.Class, "type"),
    (Value.String, "string"),
    (Value.Number, "number"),
)
"""The groups of Pygments' tokens and their kinds. The kind of a token is that of the first group that contains it."""
_OPTIONS = {"stripnl": False, "ensurenl": False}
_MAX_CHARACTERS = 200_000
"""A longer source is not read as a whole, because Pygments reads only a third of a megabyte in a second."""


class Piece(NamedTuple):
    """A part of a line of code, and its kind. Its colour is the layout's colour ``code_KIND``. The kind "" has the
    colour of the surrounding text."""

    text: str
    kind: Kind = ""


Line = tuple[Piece, ...]


class SourceFile:
    """The lines of one source file as pieces. The file is read once, when the first of its lines is needed."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self._name = name
        self._lines = lines
        self._whole: tuple[Line, ...] | None = None

    def lines(self, first: int, last: int) -> Sequence[Line]:
        """Return the lines from ``first`` to ``last``, counted from 1, as far as the file has them. In a big file only
        these lines are read, so a comment that begins above them is not recognised."""
        if sum(map(len, self._lines)) > _MAX_CHARACTERS:
            return _read(self._lines[first - 1 : last], _by_filename(self._name))
        if self._whole is None:
            self._whole = _read(self._lines, _by_filename(self._name))
        return self._whole[first - 1 : last]


@lru_cache(maxsize=256)
def block(text: str, info: str) -> tuple[Line, ...]:
    """Return the lines of a code block. The first word of its ``info`` names the language."""
    return _read(text.split("\n"), _by_name(*info.split()[:1]))


def segmented(line: Line, segments: Iterable[str]) -> tuple[Line, ...]:
    """Split the pieces of a line at the same places as its text. ``segments`` are the parts of the text."""
    rest, found = list(line), []
    for segment in segments:
        left, taken = len(segment), list[Piece]()
        while left > 0:
            piece = rest.pop(0)
            taken.append(piece._replace(text=piece.text[:left]))
            if len(piece.text) > left:
                rest.insert(0, piece._replace(text=piece.text[left:]))
            left -= len(piece.text)
        found.append(tuple(taken))
    return tuple(found)


def text_of(line: Line) -> str:
    return "".join([piece.text for piece in line])


def _by_filename(name: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(name, **_OPTIONS)
    except ClassNotFound:
        return None


def _by_name(name: str = "") -> Lexer | None:
    try:
        return get_lexer_by_name(name, **_OPTIONS)
    except ClassNotFound:
        return None


def _read(lines: Iterable[str], lexer: Lexer | None) -> tuple[Line, ...]:
    """Return the lines as pieces of visible characters, with tabs expanded."""
    shown = [visible(line).expandtabs(TAB) for line in lines]
    if lexer is None:
        return tuple((Piece(line),) if line else () for line in shown)
    found: list[list[Piece]] = [[]]
    for kind, text in _runs(lexer, "\n".join(shown)):
        first, *others = text.split("\n")
        if first:
            found[-1].append(Piece(first, kind))
        found += [[Piece(other, kind)] if other else [] for other in others]
    read = tuple(map(tuple, found))
    return read if list(map(text_of, read)) == shown else _read(lines, None)


@cache
def _kind_of(token: _TokenType) -> Kind:
    return next((kind for group, kind in _KINDS if token in group), "")


def _runs(lexer: Lexer, text: str) -> Iterator[tuple[Kind, str]]:
    """Yield the kinds and texts of the tokens. Adjacent tokens of one kind are joined."""
    last: Kind = ""
    held: list[str] = []
    for token, part in lexer.get_tokens(text):
        # A blank has no colour, so it may belong to any run.
        kind = last if part.isspace() else _kind_of(token)
        if kind != last:
            yield last, "".join(held)
            last, held = kind, []
        held.append(part)
    yield last, "".join(held)
