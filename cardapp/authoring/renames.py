"""Functions that were renamed. A function is found again by the lines of its excerpt, if they are the same but for its
name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from cardapp.authoring.function_lines import AMBIGUOUS, function_lines
from cardapp.card import anchors
from cardapp.card.draft import Part
from cardapp.card.model import CodeRange, Step
from cardapp.errors import InvalidValue

RENAMED = "function_renamed"
"""The code of the fault of an excerpt or a stop whose function has another name now."""

_CALLABLE = re.compile(r"\b([A-Za-z_]\w*)\s*[(<]")
_LAST_NAME = re.compile(r"(.*?)(~?[A-Za-z_]\w*)((?:<.*>)?(?:\(.*)?)")
"""A function as a stop names it: scopes, name, and arguments of the template or the function."""


@dataclass(frozen=True)
class Renames:
    """The new name of each renamed function by its old one, both without scopes."""

    names: Mapping[str, str]

    def before(self, lines: Sequence[str]) -> list[str]:
        """The lines with the old names."""
        return _with_names(lines, {new: old for old, new in self.names.items()})

    def now(self, text: str) -> str:
        """The text with the new names."""
        return _with_names([text], self.names)[0]

    def of_function(self, function: str) -> str | None:
        """The present name of a function, qualified as before; None if it was not renamed."""
        parts = _LAST_NAME.fullmatch(function)
        new = self.names.get(parts[2]) if parts is not None else None
        return None if parts is None or new is None else f"{parts[1]}{new}{parts[3]}"

    def refuse(self, old: str) -> NoReturn:
        """Raise the error for a place that cannot be recorded before the new name of ``old`` is accepted."""
        raise InvalidValue(f"{self.in_words(old)}: check --fix --accept-rename takes the new name", code=RENAMED)

    def in_words(self, text: str) -> str:
        """A sentence about the renamed functions whose old names are in ``text``; about all if there are none."""
        used = [old for old in self.names if re.search(rf"\b{re.escape(old)}\b", text)] or list(self.names)
        return " and ".join(f"{old} is now called {self.names[old]}" for old in used)


def find_renames(parts: Iterable[Part], files: Mapping[str, list[str]]) -> Renames:
    """The functions that were renamed, as the excerpts of their definitions prove."""
    parts = list(parts)
    stops = {
        _bare(part.item.stop.function)
        for part in parts
        if not isinstance(part.item, Step) and part.item.stop.function is not None
    }
    found: dict[str, str] = {}
    for part in parts:
        code = part.item.code if isinstance(part.item, Step) else None
        if code is None or code.file not in files or not anchors.is_anchored(code):
            continue
        lines = files[code.file]
        if anchors.holds(code, lines) or anchors.moved(code, lines) is not None:
            continue
        for old in _defined_names(code, stops) - found.keys():
            new = None if _is_defined(old, code.file, lines) else _new_name(code, lines, old)
            found |= {} if new is None else {old: new}
    return Renames(found)


def _bare(function: str) -> str:
    parts = _LAST_NAME.fullmatch(function)
    return parts[2] if parts is not None else function


def _defined_names(code: CodeRange, stops: set[str]) -> set[str]:
    """The functions that the excerpt may define: the one that it names, and those of stops in its first line."""
    named = {_bare(code.function)} if code.function is not None else set()
    return named | (stops & set(_CALLABLE.findall(code.text or "")))


def _is_defined(function: str, file: str, lines: Sequence[str]) -> bool:
    try:
        function_lines(function, file, lines)
    except InvalidValue as error:
        return error.code == AMBIGUOUS
    return True


def _new_name(code: CodeRange, lines: Sequence[str], old: str) -> str | None:
    for name in dict.fromkeys(_candidates(code, lines, old)):
        if name != old and anchors.moved(code, _with_names(lines, {name: old})) is not None:
            return name
    return None


def _candidates(code: CodeRange, lines: Sequence[str], old: str) -> Iterator[str]:
    """The names that stand in the place of ``old``, where the first line of the excerpt may be."""
    pieces = re.split(rf"\b{re.escape(old)}\b", code.text or "")
    first = re.compile(r"([A-Za-z_]\w*)".join(map(re.escape, pieces)))
    for number, line in enumerate(lines):
        match = first.fullmatch(line)
        if match is not None and match.groups():
            yield match[1]
        elif match is not None:
            yield from _CALLABLE.findall("\n".join(lines[number : number + code.last - code.first + 1]))


def _with_names(lines: Sequence[str], names: Mapping[str, str]) -> list[str]:
    if not names:
        return list(lines)
    words = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
    return [words.sub(lambda match: names[match[1]], line) for line in lines]
