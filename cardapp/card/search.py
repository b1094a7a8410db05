"""Search over a card: titles, texts and the code that its steps show. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Step

_BEFORE, _WIDTH = 30, 120
"""The number of characters of an excerpt before the match, and in total."""


@dataclass(frozen=True)
class Match:
    """A match at the position ``key``. ``line`` is the line of the source file; None for a title or text."""

    key: str
    kind: Literal["title", "text", "code"]
    excerpt: str
    line: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {"key": self.key, "kind": self.kind, "excerpt": self.excerpt, "line": self.line}


def search(catalog: Catalog, card: Card, sources: Mapping[str, Sequence[str]], wanted: str, limit: int) -> list[Match]:
    """Return at most ``limit`` matches: first titles, then texts, then code, each in document order.

    Case is ignored. Blanks and line ends between two words count as one blank. If ``wanted`` is blank, nothing matches.
    """
    folded = _plain(wanted).casefold()
    if not folded:
        return []
    titles = (
        Match(item.key, "title", item.title)
        for item in catalog.items
        if item.key and folded in _plain(item.title).casefold()
    )
    found = list(islice(titles, limit))
    return found + list(islice(_contents(catalog, card, sources, folded), limit - len(found)))


def _contents(catalog: Catalog, card: Card, sources: Mapping[str, Sequence[str]], folded: str) -> Iterator[Match]:
    for key, text in _texts(card):
        if folded in _plain(text).casefold():
            yield Match(key, "text", _excerpt(text, folded))
    for key, step in catalog.steps.items():
        for number, line in _lines(step, sources):
            if folded in _plain(line).casefold():
                yield Match(key, "code", _excerpt(line, folded), number)


def _texts(card: Card) -> Iterator[tuple[str, str]]:
    for task in card.tasks:
        yield task.id, task.text
        for block in task.blocks:
            key = f"{task.id}/{block.id}"
            yield key, f"{block.goal} {block.text}"
            for phase in block.phases:
                yield f"{key}/{phase.id}", phase.text
                for step in phase.steps:
                    yield f"{key}/{phase.id}/{step.id}", f"{step.text} {step.question}"


def _lines(step: Step, sources: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, str]]:
    if step.code is not None:
        shown = sources.get(step.code.file, ())[step.code.first - 1 : step.code.last]
        yield from enumerate(shown, step.code.first)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _excerpt(text: str, folded: str) -> str:
    plain = _plain(text)
    start = max(plain.casefold().find(folded) - _BEFORE, 0)
    cut = plain[start : start + _WIDTH]
    return ("…" if start else "") + cut + ("…" if start + _WIDTH < len(plain) else "")
