"""The readable parts of a card's source that has faults: the steps and snapshots without a fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cardapp.card.model import LEVELS, Snapshot, Step, Target
from cardapp.card.source import snapshot_of, step_of, target_of
from cardapp.errors import FieldError


@dataclass(frozen=True)
class Part:
    """A step or a snapshot with its key and its place in the source, a JSON pointer."""

    key: str
    pointer: str
    item: Step | Snapshot


@dataclass(frozen=True)
class Draft:
    """The readable parts in document order. ``target`` is None if the target itself has a fault."""

    target: Target | None
    parts: tuple[Part, ...]


def read_draft(document: Any, faults: tuple[FieldError, ...]) -> Draft:
    """Read the parts of ``document``, which is any JSON value, outside the places of its ``faults``."""
    if not isinstance(document, dict):
        return Draft(None, ())
    places = [fault.pointer for fault in faults]
    readable = "target" in document and not _faults_in("/target", places)
    return Draft(target_of(document["target"]) if readable else None, tuple(_parts(document, places)))


def key_at(document: Any, pointer: str) -> str:
    """The key of the innermost position that contains the place ``pointer``, as far as its ids are valid."""
    key: list[str] = []
    tokens = pointer.split("/")[1:]
    for kind, number in zip(tokens[::2], tokens[1::2], strict=False):
        level = len(key) + 1
        items = document.get(kind) if isinstance(document, dict) else None
        known = level < len(LEVELS) and kind == f"{LEVELS[level]}s" and isinstance(items, list)
        if not known or not number.isdecimal() or int(number) >= len(items or ()):
            break
        document = items[int(number)] if items else None
        name = document.get("id") if isinstance(document, dict) else None
        if not isinstance(name, str):
            break
        key.append(name)
    return "/".join(key)


def _parts(document: dict[str, Any], places: list[str]) -> Iterator[Part]:
    for pointer, key, item in _items(document, 1, "", ""):
        level = LEVELS[pointer.count("/") // 2]
        faults = _faults_in(pointer, places)
        if level == "step" and len(faults) == len(_faults_in(f"{pointer}/snapshots", places)):
            yield Part(key, pointer, step_of({**item, "snapshots": []}))
        elif level == "snapshot" and not faults:
            yield Part(key, pointer, snapshot_of(item))


def _items(parent: dict[str, Any], depth: int, at: str, key: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each item below ``parent`` that is an object with an id, with its pointer and its key."""
    kind = f"{LEVELS[depth]}s"
    items = parent.get(kind)
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            pointer, own = f"{at}/{kind}/{number}", f"{key}/{item['id']}".lstrip("/")
            yield pointer, own, item
            if depth + 1 < len(LEVELS):
                yield from _items(item, depth + 1, pointer, own)


def _faults_in(pointer: str, places: list[str]) -> list[str]:
    """Those of ``places`` that are at ``pointer`` or in the value there."""
    return [place for place in places if f"{place}/".startswith(f"{pointer}/")]
