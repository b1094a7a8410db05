"""Mutates JSON documents as a mistake of an author, a broken tool or an attacker would."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from cardapp.errors import InvalidValue

ODD_TEXTS = ("", "\0", "\n", "\ud800", "\udfff", "\u202e", "../up", "/", "a" * 300, "é" * 70, "$i", "<!--", "\\", "{}")
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30, 10**400, 1e308, -1e-320, float("nan"), float("inf"))

texts = st.sampled_from(ODD_TEXTS) | st.text(st.characters(exclude_categories=()), max_size=12)
scalars = st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
"""All values that ``json.dumps`` accepts, also NaN and unpaired surrogates."""

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Mutation:
    """Edits of a document, each ``(kind, path, value)``. A failure report shows them, not the whole document."""

    edits: tuple[tuple[str, Path, Any], ...]

    def of(self, document: Any) -> bytes:
        """The edited document as JSON text."""
        root = [copy.deepcopy(document)]
        for kind, path, value in self.edits:
            _edit(root, kind, (0, *path), value)
        return json.dumps(root).encode()[1:-1]


def _edit(root: Any, kind: str, path: Path, value: Any) -> None:
    parent = root
    for part in path[:-1]:
        try:
            parent = parent[part]
        except (IndexError, KeyError, TypeError):
            return  # a previous edit removed the place
    last = path[-1]
    if isinstance(parent, dict) and isinstance(last, str):
        parent[last] = value if kind != "double" else [parent.get(last)] * 2
        if kind == "remove":
            del parent[last]
        if kind == "rename":
            parent[str(value)] = parent.pop(last)
    elif isinstance(parent, list) and isinstance(last, int) and last < len(parent):
        if kind == "double":
            parent.insert(last, parent[last])
        elif kind == "remove":
            del parent[last]
        else:
            parent[last] = value


def paths(value: Any, path: Path = ()) -> list[Path]:
    """The paths of all values in a document."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [path, *(found for name, child in children for found in paths(child, (*path, name)))]


def sendable(texts: Iterable[str]) -> bool:
    """Whether all texts can be encoded as UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for text in texts for char in text)


def names_its_places(error: InvalidValue, file: str) -> bool:
    """Whether ``error`` names the ``file`` and has valid pointers, and all its texts can be encoded."""
    texts = [error.detail, *(part for each in error.errors for part in (each.pointer, each.message))]
    pointers = [each.pointer for each in error.errors]
    return error.detail.startswith(file) and sendable(texts) and all(not each or each[0] == "/" for each in pointers)


def mutations(document: Any) -> st.SearchStrategy[Mutation]:
    """One to three edits of ``document``."""
    places = paths(document)
    kinds = st.sampled_from(["set", "set", "remove", "rename", "double"])
    edits = st.tuples(kinds, st.sampled_from(places), values)
    return st.lists(edits, min_size=1, max_size=3).map(lambda drawn: Mutation(tuple(drawn)))
