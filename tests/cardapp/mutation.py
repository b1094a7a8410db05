"""Mutated JSON documents, with the faults of an author's slip, a broken tool or an attacker."""

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
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
"""Whatever Python's writer of JSON lets pass, NaN and halves of surrogate pairs too."""

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Mutation:
    """Edits of a document, ``(kind, where, what)`` each; short to print, whatever the document's size."""

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
            return  # an edit before this one took the place away
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
    """The place of everything in a document."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [path, *(found for name, child in children for found in paths(child, (*path, name)))]


def sendable(texts: Iterable[str]) -> bool:
    """Whether all of them are text that can be written as UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for text in texts for char in text)


def names_its_places(error: InvalidValue, file: str) -> bool:
    """Whether a refusal says which ``file`` it refuses, and by pointers what in it, all in sendable text."""
    texts = [error.detail, *(part for each in error.errors for part in (each.pointer, each.message))]
    pointers = [each.pointer for each in error.errors]
    return error.detail.startswith(file) and sendable(texts) and all(not each or each[0] == "/" for each in pointers)


def mutations(document: Any) -> st.SearchStrategy[Mutation]:
    """One to three edits of ``document``."""
    places = paths(document)
    kinds = st.sampled_from(["set", "set", "remove", "rename", "double"])
    edits = st.tuples(kinds, st.sampled_from(places), values)
    return st.lists(edits, min_size=1, max_size=3).map(lambda drawn: Mutation(tuple(drawn)))
