"""Gives each part of the sheets a name that stays the same in every layout, and when the card's text flows anew.

A name is the part's position and kind, ``t1/b1/p1/s1:code``. The second part of the same position and kind is
``t1/b1/p1/s1:code.2``, as when a part is split between two sheets. Annotations name their target so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cardapp.layout.sheets import Sheet


def part_names(sheets: Iterable[Sheet]) -> list[list[str]]:
    """The names of the parts of each sheet, in reading order."""
    seen: Counter[str] = Counter()
    found = []
    for sheet in sheets:
        names = []
        for part in sheet.parts:
            name = f"{part.key}:{part.kind}"
            seen[name] += 1
            names.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
        found.append(names)
    return found
