"""A fault of a card, and the places of the card's positions in its source file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cardapp.card.catalog import Catalog

RECORD_HINT = "run bin/cardapp record"
IF_NOT_RECORDED = 'if it cannot, correct the expression, write {"undefined": true}, or move the expression to watch'
"""What to do about a value that ``record`` does not write."""


@dataclass(frozen=True)
class Fault:
    """A fault of a card.

    ``key`` is the position that has the fault ("": the card itself), ``pointer`` the place in the source file as a JSON
    pointer, ``line`` that place's line. ``fix`` has the members that a repair sets in the object at ``pointer``.
    ``causes`` are sentences that may explain the fault, or say what to do.
    """

    key: str
    pointer: str
    line: int | None
    code: str
    detail: str
    expression: str | None = None
    expected: str | None = None
    seen: str | None = None
    fix: Mapping[str, Any] | None = None
    causes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return "; ".join([self.detail.removesuffix("."), *self.causes]) if self.causes else self.detail

    def as_json(self) -> dict[str, Any]:
        members = {
            "key": self.key,
            "pointer": self.pointer,
            "line": self.line,
            "code": self.code,
            "expression": self.expression,
            "expected": self.expected,
            "seen": self.seen,
            "detail": self.sentence,
            "fix": dict(self.fix) if self.fix is not None else None,
        }
        return {name: value for name, value in members.items() if value is not None or name == "line"}


def pointers(catalog: Catalog) -> dict[str, str]:
    """The JSON pointer of each position in the source file, by key."""
    found = {"": ""}
    children: Counter[str] = Counter()
    for item in catalog.items:
        if item.parent is not None:
            found[item.key] = f"{found[item.parent]}/{item.level}s/{children[item.parent]}"
            children[item.parent] += 1
    return found
