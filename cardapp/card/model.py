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
class Run:
    """How the program is started. ``stdin`` is a file, relative to the target's directory; None: the terminal.

    ``env`` is added to a fixed environment. ``timeout`` bounds a replay, in seconds; None: the caller's limit alone.
    """

    args: tuple[str, ...] = ()
    stdin: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None


@dataclass(frozen=True)
class Target:
    """The program of a card.

    ``directory`` and ``root``, the folder that a session copies, are relative to the folder of the card's source file.
    Without ``root`` only ``directory`` is copied. All other paths are relative to ``directory``. ``build_timeout`` is
    in seconds; None: the limit of the session's profile.
    """

    name: str
    directory: str
    build: tuple[str, ...]
    program: str
    sources: tuple[str, ...]
    root: str | None = None
    build_timeout: float | None = None
    run: Run = Run()
    """The run that is used for a snapshot without a ``run``."""
    runs: tuple[tuple[str, Run], ...] = ()

    def run_named(self, name: str | None) -> Run:
        """The run ``name``; for None the target's own. A ``KeyError`` if there is no such run."""
        return self.run if name is None else dict(self.runs)[name]


@dataclass(frozen=True)
class BlockRecipe:
    """gdb expressions for the allocator's blocks; ``$i`` stands for the block's index."""

    count: str
    offset: str
    size: str
    label: str | None

    def as_json(self) -> dict[str, Any]:
        return _without_none({"count": self.count, "offset": self.offset, "size": self.size, "label": self.label})


@dataclass(frozen=True)
class AllocatorRecipe:
    """gdb expressions for the state of an arena, valid at every stop of the card."""

    base: str
    size: str
    used: str
    high_water: str | None
    blocks: BlockRecipe | None

    def as_json(self) -> dict[str, Any]:
        blocks = self.blocks.as_json() if self.blocks is not None else None
        arena = {"base": self.base, "size": self.size, "used": self.used, "high_water": self.high_water}
        return _without_none({**arena, "blocks": blocks})


@dataclass(frozen=True)
class NodesRecipe:
    """gdb expressions for a structure of linked nodes, valid at every stop of the card.

    A list begins at ``first`` and continues at ``next``; a tree begins at ``root`` and continues at each of
    ``children``. ``$node`` stands for the pointer to the node. At most ``max`` nodes are read. A node is drawn as
    ``size`` bytes at ``address``.
    """

    title: str | None
    first: str
    following: tuple[str, ...]
    max: int
    address: str
    size: str
    label: str | None

    def as_json(self) -> dict[str, Any]:
        each = {"first": self.first, "following": list(self.following), "max": self.max}
        return {
            "each": each,
            "blocks": _without_none({"address": self.address, "size": self.size, "label": self.label}),
        }


@dataclass(frozen=True)
class Stop:
    """Where the program stops, for the ``hits``-th time: at a line, at the entry of a function, or at a signal.

    The line must contain ``text``. If ``text`` is given and ``line`` is None, the line was not looked up yet: it is the
    only one with the text. A ``function`` may be limited to the one that ``file`` defines. Only hits for which
    ``condition``, an expression, is true are counted.
    """

    file: str | None
    line: int | None
    text: str | None
    function: str | None
    hits: int
    signal: str | None = None
    condition: str | None = None

    def as_json(self) -> dict[str, Any]:
        place = {"file": self.file, "line": self.line, "text": self.text, "function": self.function}
        return _without_none({**place, "signal": self.signal, "if": self.condition, "hits": self.hits})


@dataclass(frozen=True)
class CodeRange:
    """Lines ``first`` to ``last`` (1-based, inclusive) of a source file, shown beside a step.

    The anchor tells whether these are still the lines that the author chose. ``text`` is the first line, ``digest`` the
    digest of all lines (:func:`cardapp.card.anchors.digest`). If the author named a function instead of lines, it is
    ``function``.
    """

    file: str
    first: int
    last: int
    text: str | None = None
    digest: str | None = None
    function: str | None = None


@dataclass(frozen=True)
class UnresolvedCode:
    """An excerpt that names a function, whose lines were not yet looked up in the source file."""

    file: str
    function: str


@dataclass(frozen=True)
class Expectation:
    """The value that an expression must have at a stop.

    ``format`` is a letter of gdb's print formats. A number may differ from ``value`` by ``tolerance``. A value that the
    language leaves undefined has the ``value`` :data:`UNDEFINED`, which is shown and never compared.
    """

    expression: str
    value: str
    format: str | None = None
    tolerance: float | None = None
    undefined: bool = False


UNDEFINED = "undefined"
NOT_RECORDED = "?"
"""The value of an expectation that was not recorded yet."""


@dataclass(frozen=True)
class Snapshot:
    """A program state: the stop, the expected values that prove it, and further expressions to show.

    ``run`` names a run of the target; None: the target's own. ``ask`` are the expressions that the learner predicts;
    the ``hints`` are shown before the prediction, the ``explanation`` after it.
    """

    id: str
    title: str
    stop: Stop
    expect: tuple[Expectation, ...]
    watch: tuple[str, ...]
    run: str | None = None
    ask: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    explanation: str = ""


@dataclass(frozen=True)
class Step:
    """``code`` is None for a step without an excerpt, and for one whose excerpt is ``unresolved``."""

    id: str
    title: str
    text: str
    question: str
    code: CodeRange | None
    snapshots: tuple[Snapshot, ...]
    unresolved: UnresolvedCode | None = None


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
    allocator: AllocatorRecipe | NodesRecipe | None
    tasks: tuple[Task, ...]


def _without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
