"""A card as frozen dataclasses: ``card > task > block > phase > step > snapshot`` (schema: ``card-source.v1``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["card", "task", "block", "phase", "step", "snapshot"]
LEVELS: tuple[Level, ...] = ("card", "task", "block", "phase", "step", "snapshot")


@dataclass(frozen=True)
class Identity:
    """Identifies a revision of a card; ``source_sha256`` is the SHA-256 of the source file in hex."""

    id: str
    uuid: str
    version: str
    source_sha256: str

    def as_json(self) -> dict[str, str]:
        return {"id": self.id, "uuid": self.uuid, "version": self.version, "source_sha256": self.source_sha256}


@dataclass(frozen=True)
class Target:
    """The C program of a card. ``directory`` is relative to the card source file, all other paths to ``directory``."""

    name: str
    directory: str
    build: tuple[str, ...]
    program: str
    args: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class BlockRecipe:
    """gdb expressions for the allocator's blocks; ``$i`` stands for the block's index."""

    count: str
    offset: str
    size: str
    label: str | None


@dataclass(frozen=True)
class AllocatorRecipe:
    """gdb expressions for the state of an arena, valid at every stop of the card."""

    base: str
    size: str
    used: str
    high_water: str | None
    blocks: BlockRecipe | None

    def as_json(self) -> dict[str, Any]:
        recipe: dict[str, Any] = {"base": self.base, "size": self.size, "used": self.used}
        if self.high_water is not None:
            recipe["high_water"] = self.high_water
        if self.blocks is not None:
            recipe["blocks"] = {"count": self.blocks.count, "offset": self.blocks.offset, "size": self.blocks.size}
            if self.blocks.label is not None:
                recipe["blocks"]["label"] = self.blocks.label
        return recipe


@dataclass(frozen=True)
class Stop:
    """Where the program stops: when it reaches a line, or the entry of a function, for the ``hits``-th time. The line
    must contain ``text``."""

    file: str | None
    line: int | None
    text: str | None
    function: str | None
    hits: int

    def as_json(self) -> dict[str, Any]:
        if self.function is not None:
            return {"function": self.function, "hits": self.hits}
        return {"file": self.file, "line": self.line, "text": self.text, "hits": self.hits}


@dataclass(frozen=True)
class CodeRange:
    """Lines ``first`` to ``last`` (1-based, inclusive) of a source file, shown beside a step."""

    file: str
    first: int
    last: int


@dataclass(frozen=True)
class Snapshot:
    """A program state: the stop, the expected values that prove it, and further expressions to show."""

    id: str
    title: str
    stop: Stop
    expect: tuple[tuple[str, str], ...]
    watch: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    id: str
    title: str
    text: str
    question: str
    code: CodeRange | None
    snapshots: tuple[Snapshot, ...]


@dataclass(frozen=True)
class Phase:
    id: str
    title: str
    text: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Block:
    id: str
    title: str
    goal: str
    text: str
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Task:
    id: str
    title: str
    text: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Card:
    """A whole card. ``language`` is a BCP 47 tag, ``layout`` the id of its layout file."""

    id: str
    uuid: str
    version: str
    title: str
    text: str
    language: str
    layout: str
    target: Target
    allocator: AllocatorRecipe | None
    tasks: tuple[Task, ...]
