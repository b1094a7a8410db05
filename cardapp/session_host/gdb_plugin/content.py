"""What a value of a container, an optional or an owning pointer holds, whatever language it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import gdb

MAX_ELEMENTS = 200
"""How many elements of a container, and characters of its text, are shown. The sign ``…`` stands for the rest."""
MAX_DEPTH = 20
"""How deep a value is shown. The sign ``{…}`` stands for what lies deeper."""
MAX_SORTED = 10_000
"""How many elements of an unordered container are read to sort them. A larger one is shown as ``{…}``."""


class Content(NamedTuple):
    """The elements that an expression can name: ``v[1]`` in a sequence, ``m["saw"]`` in a map, ``*p`` of a holder.

    An item is ``(key, element)``. The key is None in a sequence and in a holder. A holder has one item or, if it is
    empty, none. ``size`` is the number of all items, even if reading all of them would take long.
    """

    kind: Literal["sequence", "map", "holder"]
    size: int
    items: Iterable[tuple[gdb.Value | None, gdb.Value]]
