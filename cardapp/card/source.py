"""Reads a card's source file ``card_source.json`` into a :class:`Card` with its identity.

The document must meet ``card-source.v1.schema.json`` and the rules that a schema cannot express: ids are unique among
siblings, code ranges and stops name files of the target, and a range does not end before it begins.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
from jsonschema.protocols import Validator

from cardapp.card.model import (
    AllocatorRecipe,
    Block,
    BlockRecipe,
    Card,
    CodeRange,
    Identity,
    Phase,
    Snapshot,
    Step,
    Stop,
    Target,
    Task,
)
from cardapp.errors import FieldError, InvalidCard, NoCard
from cardapp.schema import decode, field_errors, validator

SOURCE_NAME = "card_source.json"
MAX_SOURCE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class LoadedCard:
    """A card with its identity and the absolute path of its source file."""

    card: Card
    identity: Identity
    path: Path

    @property
    def target_directory(self) -> Path:
        return self.path.parent / self.card.target.directory

    def sources(self) -> dict[str, list[str]]:
        """The lines of the target's source files as they are now, without line ends, by file name. A file that cannot
        be read is left out; a caller that needs the file reports it."""
        found = {}
        for name in self.card.target.sources:
            raw = read_regular(self.target_directory / name)
            if raw is not None:
                found[name] = _lines(raw.decode("utf-8", "replace"))
        return found


def read_regular(path: Path) -> bytes | None:
    """The content of a regular file; None for any other path, because reading a pipe or a device may never end."""
    if not os.path.isfile(path):
        return None
    try:
        return path.read_bytes()
    except OSError:
        return None


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as compilers do. ``str.splitlines`` also splits at other characters."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def source_path(argument: str | Path) -> Path:
    """The absolute path of the source file; ``argument`` is a card's folder or the file itself."""
    path = Path(argument).absolute()
    # os.path.isdir returns False for a name that is too long or in an unreadable directory, where Path.is_dir raises.
    if os.path.isdir(path):
        path = path / SOURCE_NAME
    if not os.path.isfile(path):
        raise NoCard(f"there is no card at {argument}: name a card's folder or its {SOURCE_NAME}")
    return path


def load_card(path: str | Path) -> LoadedCard:
    """Load the card at ``path`` (folder or file).

    :raises InvalidCard: its ``errors`` are all faults.
    """
    file = source_path(path)
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InvalidCard(f"{file} cannot be read: {error.strerror}") from error
    card, identity = parse_card(raw, str(file))
    return LoadedCard(card, identity, file)


def parse_card(raw: bytes, name: str) -> tuple[Card, Identity]:
    """Decode and check the card in ``raw``; return it with its identity. Messages call it ``name``."""
    if len(raw) > MAX_SOURCE_BYTES:
        raise InvalidCard(f"{name} is larger than {MAX_SOURCE_BYTES} bytes")
    document = _decode(raw, name)
    faults = (() if _is_valid(document) else field_errors(_checker(), document)) or tuple(_faults(document))
    if faults:
        first = faults[0]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InvalidCard(f"{name}: {first.pointer or '/'} {first.message}{more}", errors=faults)
    digest = hashlib.sha256(raw).hexdigest()
    identity = Identity(document["id"], document["uuid"], document["version"], digest)
    return _card(document), identity


def _schema() -> dict[str, Any]:
    """A new copy with each call, because fastjsonschema changes the schema that it compiles."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("card-source.v1.schema.json").read_text("utf-8"))
    return found


@cache
def _checker() -> Validator:
    return validator(_schema())


def _is_valid(document: Any) -> bool:
    """Whether the document meets the schema. jsonschema takes twenty times as long; it only names the faults."""
    try:
        _compiled()(document)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


@cache
def _compiled() -> Callable[[Any], Any]:
    return fastjsonschema.compile(_schema(), use_default=False)


def _decode(raw: bytes, name: str) -> Any:
    try:
        return decode(raw, integral_as_int=True)
    except ValueError as error:
        raise InvalidCard(f"{name} {error}") from error


# -- rules beyond the schema ---------------------------------------------------------------------------------------

_CHILDREN = {"tasks": "blocks", "blocks": "phases", "phases": "steps", "steps": "snapshots", "snapshots": None}


def _faults(document: dict[str, Any]) -> Iterator[FieldError]:
    sources = set(document["target"]["sources"])
    for pointer, kind, item in _walk(document, "tasks", ""):
        if kind == "steps" and "code" in item:
            code = item["code"]
            if code["from"] > code["to"]:
                yield FieldError(f"{pointer}/code", f"ends before it begins: from {code['from']} to {code['to']}")
            yield from _unknown_file(code, sources, f"{pointer}/code/file")
        if kind == "snapshots":
            yield from _unknown_file(item["stop"], sources, f"{pointer}/stop/file")
    yield from _duplicate_ids(document, "tasks", "")


def _walk(parent: dict[str, Any], kind: str | None, at: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    if kind is None:
        return
    for number, item in enumerate(parent[kind]):
        pointer = f"{at}/{kind}/{number}"
        yield pointer, kind, item
        yield from _walk(item, _CHILDREN[kind], pointer)


def _duplicate_ids(parent: dict[str, Any], kind: str | None, at: str) -> Iterator[FieldError]:
    if kind is None:
        return
    seen: set[str] = set()
    for number, item in enumerate(parent[kind]):
        pointer = f"{at}/{kind}/{number}"
        if item["id"] in seen:
            yield FieldError(f"{pointer}/id", f"{item['id']!r} is already the id of a sibling")
        seen.add(item["id"])
        yield from _duplicate_ids(item, _CHILDREN[kind], pointer)


def _unknown_file(place: dict[str, Any], sources: set[str], pointer: str) -> Iterator[FieldError]:
    name = place.get("file")
    if name is not None and name not in sources:
        yield FieldError(pointer, f"{name!r} is not one of target.sources ({', '.join(sorted(sources))})")


# -- the document as a model ---------------------------------------------------------------------------------------


def _card(document: dict[str, Any]) -> Card:
    return Card(
        id=document["id"],
        uuid=document["uuid"],
        version=document["version"],
        title=document["title"],
        text=document.get("text", ""),
        language=document["language"],
        layout=document["layout"],
        target=_target(document["target"]),
        allocator=_allocator(document.get("allocator")),
        tasks=tuple(_task(task) for task in document["tasks"]),
    )


def _target(target: dict[str, Any]) -> Target:
    return Target(
        name=target["name"],
        directory=target["directory"],
        build=tuple(target["build"]),
        program=target["program"],
        args=tuple(target.get("args", ())),
        sources=tuple(target["sources"]),
    )


def _allocator(recipe: dict[str, Any] | None) -> AllocatorRecipe | None:
    if recipe is None:
        return None
    blocks = recipe.get("blocks")
    return AllocatorRecipe(
        base=recipe["base"],
        size=recipe["size"],
        used=recipe["used"],
        high_water=recipe.get("high_water"),
        blocks=blocks and BlockRecipe(blocks["count"], blocks["offset"], blocks["size"], blocks.get("label")),
    )


def _task(task: dict[str, Any]) -> Task:
    return Task(task["id"], task["title"], task.get("text", ""), tuple(_block(block) for block in task["blocks"]))


def _block(block: dict[str, Any]) -> Block:
    phases = tuple(
        Phase(phase["id"], phase["title"], phase.get("text", ""), tuple(_step(step) for step in phase["steps"]))
        for phase in block["phases"]
    )
    return Block(block["id"], block["title"], block.get("goal", ""), block.get("text", ""), phases)


def _step(step: dict[str, Any]) -> Step:
    code = step.get("code")
    return Step(
        id=step["id"],
        title=step["title"],
        text=step.get("text", ""),
        question=step.get("question", ""),
        code=code and CodeRange(code["file"], code["from"], code["to"]),
        snapshots=tuple(_snapshot(snapshot) for snapshot in step["snapshots"]),
    )


def _snapshot(snapshot: dict[str, Any]) -> Snapshot:
    stop = snapshot["stop"]
    return Snapshot(
        id=snapshot["id"],
        title=snapshot["title"],
        stop=Stop(stop.get("file"), stop.get("line"), stop.get("text"), stop.get("function"), stop.get("hits", 1)),
        expect=tuple(snapshot.get("expect", {}).items()),
        watch=tuple(snapshot.get("watch", ())),
    )
