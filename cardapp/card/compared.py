"""How much a proof has compared. Sheets, ``check`` and the API count the same comparisons, those of ``expect``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cardapp.card.model import Snapshot
from cardapp.card.proof import Check


@dataclass(frozen=True)
class Compared:
    """``values`` were compared with the card, ``partly`` of them not as a whole: a ``*`` hides text, or the value was
    too long."""

    values: int
    partly: int

    def phrase(self, verb: str = "") -> str:
        """Like "9 values, 2 partly"; the verb stands after the values."""
        words = [f"{self.values} value{'s'[: self.values != 1]}", *filter(None, [verb])]
        return " ".join(words) + (f", {self.partly} partly" if self.partly else "")


NOTHING = Compared(0, 0)


def value_checks(snapshot: Snapshot, found: Sequence[Check]) -> list[Check]:
    """The comparisons of values among ``found``, all comparisons of ``snapshot``. Undefined values are not compared."""
    places = len(found) - len(snapshot.expect)  # the first checks prove the place
    return [check for check in found[places:] if check.match is not None]


def count(snapshot: Snapshot, found: Sequence[Check]) -> Compared:
    """How much ``found``, all comparisons of ``snapshot``, has compared."""
    values = value_checks(snapshot, found)
    return Compared(len(values), sum(check.partly for check in values))


def total(parts: Iterable[Compared]) -> Compared:
    parts = list(parts)
    return Compared(sum(each.values for each in parts), sum(each.partly for each in parts))
