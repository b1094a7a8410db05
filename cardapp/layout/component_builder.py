"""Makes the components of a card, in reading order and in groups that belong together. ``pagination`` places them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cardapp.card import anchors
from cardapp.card.model import AllocatorRecipe, Block, Card, Identity, Phase, Snapshot, Step, Stop, Task
from cardapp.layout.diagram import activity, arena, memory, states
from cardapp.layout.diagram.shapes import MIN_HEIGHT, Diagram, Room
from cardapp.layout.escape import visible
from cardapp.layout.highlight import SourceFile
from cardapp.layout.layout_model import Layout
from cardapp.layout.measure import Measure
from cardapp.layout.sheets import Code, Content, Fields, Kind, Note, Notes, Question, RichText, Title, is_title
from cardapp.layout.text import Paragraph, Run, parse

_TITLE_SPACE = 45.0
"""A diagram leaves this height in mm free for the titles above it."""

Sources = Mapping[str, Sequence[str]]
"""The lines of each source file, without line ends."""


class CardComponent(NamedTuple):
    """A part before it is placed on a sheet. If ``continued`` is true, it is the rest of a component that begins on an
    earlier sheet. ``subject`` follows the label in the caption."""

    kind: Kind
    key: str
    content: Content
    subject: str = ""
    continued: bool = False


Row = tuple[CardComponent, ...]
"""Components in reading order. Components of different columns are placed side by side."""
Group = tuple[Row, ...]
"""Rows that stay together on one sheet if they fit."""


class ComponentBuilder:
    """Makes those components of one card that its layout shows. A component without content is left out."""

    def __init__(self, card: Card, identity: Identity, layout: Layout, sources: Sources, measure: Measure) -> None:
        self._card = card
        self._identity = identity
        self._layout = layout
        self._sources = sources
        self._files = {name: SourceFile(name, lines) for name, lines in sources.items()}
        self._measure = measure

    def front(self) -> Iterator[Group]:
        """Yield the card's title, text and activity diagram."""
        card = self._card
        yield from self._grouped(
            self._name_date(),
            self._title("card_title", "", card.title, ""),
            [
                *self._rich_text("intro", "", card.text),
                *self._drawn("overview", "", lambda room: activity.of_card(card, room)),
            ],
        )

    def block(self, task: Task, task_number: int, block: Block, number: int) -> Iterator[Group]:
        """Yield a block with its title. The title and text of a task precede the task's first block."""
        key, section = f"{task.id}/{block.id}", f"{task_number}.{number}"
        of_task = (
            [*self._title("task_title", task.id, task.title, str(task_number))],
            [*self._rich_text("intro", task.id, task.text)],
        )
        of_block = (
            self._title("block_title", key, block.title, section),
            [
                *self._rich_text("goal", key, block.goal),
                *self._rich_text("intro", key, block.text),
                *self._drawn("activity", key, lambda room: activity.of_block(key, block, room)),
                *self._drawn("states", key, lambda room: self._states(key, block, room)),
            ],
        )
        opening = self._grouped(*(of_task if number == 1 else ()), *of_block)
        phases = (
            self._phase(phase, f"{key}/{phase.id}", f"{section}.{place}") for place, phase in enumerate(block.phases, 1)
        )
        yield from _with_titles(chain(opening, *phases))

    def colophon(self, proved: str) -> Iterator[Group]:
        """Yield the card's revision, whether it was proved, the layout, and its limitations."""
        paragraphs = _colophon_paragraphs(self._card, self._identity, proved, self._layout)
        blocks = tuple(Paragraph((Run(visible(sentence)),)) for sentence in paragraphs)
        yield from self._grouped([CardComponent("colophon", "", RichText(blocks))])

    def _grouped(self, *rows: Iterable[CardComponent]) -> Iterator[Group]:
        """Yield the rows as one group, without the components that the layout does not show."""
        shown = [tuple(component for component in row if component.kind in self._layout.components) for row in rows]
        if any(shown):
            yield tuple(row for row in shown if row)

    # -- phases, steps and snapshots ---------------------------------------------------------------------------------

    def _phase(self, phase: Phase, key: str, number: str) -> Iterator[Group]:
        opening = (self._title("phase_title", key, phase.title, number), self._rich_text("intro", key, phase.text))
        for place, step in enumerate(phase.steps, 1):
            rows = self._step(step, f"{key}/{step.id}", f"{number}.{place}")
            yield from self._grouped(*(opening if place == 1 else ()), *rows)

    def _step(self, step: Step, key: str, number: str) -> Iterator[list[CardComponent]]:
        """Yield the step's rows. The question must precede the values. If the column of values is left of the
        question's column, the values are in a separate row below the question."""
        values = [
            component
            for snapshot in step.snapshots
            for component in self._values(snapshot, f"{key}/{snapshot.id}")
            if component.kind in self._layout.components
        ]
        asking = [
            *self._title("step_title", key, step.title, number),
            *self._rich_text("text", key, step.text),
            *self._code(step, key),
            *self._notes(step, key),
            *self._question(step, key),
        ]
        if step.question and any(self._is_left_of_question(component.kind) for component in values):
            yield asking
            yield values
        else:
            yield asking + values

    def _is_left_of_question(self, kind: Kind) -> bool:
        if "question" not in self._layout.components:
            return False
        components, grid = self._layout.components, self._layout.grid
        return grid.column(components[kind].column).x < grid.column(components["question"].column).x

    def _question(self, step: Step, key: str) -> Iterator[CardComponent]:
        if step.question and (shown := self._layout.components.get("question")):
            yield CardComponent("question", key, Question(parse(step.question), shown.answer_lines))

    def _values(self, snapshot: Snapshot, key: str) -> Iterator[CardComponent]:
        recipe, title = self._card.allocator, visible(snapshot.title)
        # A card does not have the addresses of a list's or a tree's nodes, so only an arena can be drawn from a card.
        found = arena.arena_from_card(recipe, snapshot) if isinstance(recipe, AllocatorRecipe) else None
        if found is not None:
            yield from self._drawn("memory", key, lambda room: (memory.memory_map(key, title, found, room),), title)
        if snapshot.expect and "machine" in self._layout.components:
            yield CardComponent("machine", key, self._measure.machine(snapshot.expect), title)
        yield from self._rich_text("explanation", key, snapshot.explanation)

    # -- one kind of component each ----------------------------------------------------------------------------------

    def _title(self, kind: Kind, key: str, text: str, number: str) -> list[CardComponent]:
        level = kind.removesuffix("_title")
        return [CardComponent(kind, key, Title(level, visible(text), number))]  # type: ignore[arg-type]

    def _name_date(self) -> Iterator[CardComponent]:
        if shown := self._layout.components.get("name_date"):
            names = (visible(name.strip()) for name in shown.label.split(","))
            yield CardComponent("name_date", "", Fields(tuple(filter(None, names))))

    def _rich_text(self, kind: Kind, key: str, markdown: str) -> list[CardComponent]:
        blocks = parse(markdown)
        return [CardComponent(kind, key, RichText(blocks))] if blocks else []

    def _drawn(
        self, kind: Kind, key: str, draw: Callable[[Room], tuple[Diagram, ...]], subject: str = ""
    ) -> Iterator[CardComponent]:
        if kind in self._layout.components:
            room = Room(self._measure.width(kind), max(MIN_HEIGHT, self._layout.grid.body.height - _TITLE_SPACE))
            yield from (CardComponent(kind, key, diagram, subject) for diagram in draw(room))

    def _states(self, key: str, block: Block, room: Room) -> tuple[Diagram, ...]:
        return states.of_block(key, block, room, values=self._layout.components["states"].values)

    def _code(self, step: Step, key: str) -> Iterator[CardComponent]:
        code = step.code
        if code is None or "code" not in self._layout.components:
            return
        file, source = visible(code.file), self._sources.get(code.file)
        lines = f"line {code.first}" if code.first == code.last else f"lines {code.first}–{code.last}"
        gutter = self._measure.gutter(code.last)
        shown = () if source is None else self._files[code.file].lines(code.first, code.last)
        numbered = self._measure.code_lines(shown, code.first, _stops(step, key), gutter)
        content = Code(file, gutter, numbered, anchors.difference(code, source))
        yield CardComponent("code", key, content, f"{file}, {lines}")

    def _notes(self, step: Step, key: str) -> Iterator[CardComponent]:
        if "notes" in self._layout.components:
            for snapshot in step.snapshots:
                subject = visible(snapshot.title) if len(step.snapshots) > 1 else ""
                yield CardComponent("notes", f"{key}/{snapshot.id}", Notes(tuple(self._stop(snapshot))), subject)

    def _stop(self, snapshot: Snapshot) -> Iterator[Note]:
        text, code = _place(snapshot.stop)
        yield Note(text, self._measure.note_pieces(code))
        for number, expression in enumerate(snapshot.watch):
            yield Note("" if number else "Watch", self._measure.note_pieces(expression))


def _with_titles(groups: Iterable[Group]) -> Iterator[Group]:
    """Yield the groups. A group that has only titles is joined to the next one, so that they are on the same sheet."""
    titles: Group = ()
    for group in groups:
        group = titles + group
        only_titles = all(is_title(component.kind) for row in group for component in row)
        titles = group if only_titles else ()
        if not only_titles:
            yield group
    if titles:
        yield titles


def _stops(step: Step, key: str) -> dict[int, list[str]]:
    """Return the keys of the step's snapshots that stop in the file of its code, by line number."""
    found: dict[int, list[str]] = {}
    for snapshot in step.snapshots:
        if step.code is not None and snapshot.stop.file == step.code.file and snapshot.stop.line is not None:
            found.setdefault(snapshot.stop.line, []).append(f"{key}/{snapshot.id}")
    return found


def _place(stop: Stop) -> tuple[str, str]:
    """Return the stop as a description and as code."""
    if stop.signal is not None:
        return f"When the program receives this signal{_time(stop)}", stop.signal
    if stop.function is not None:
        return f"When this function is entered{_time(stop)}", f"{stop.function}()"
    return f"Before {_line(stop)}", (stop.text or "").strip(" \t")


def stop_place(stop: Stop) -> str:
    """Return the stop as a part of a sentence."""
    if stop.signal is not None:
        return f"when it receives {stop.signal}{_time(stop)}"
    if stop.function is not None:
        return f"when {visible(stop.function)}() is entered{_time(stop)}"
    return f"before {_line(stop)}"


def _line(stop: Stop) -> str:
    line = f"line {stop.line}" if stop.line is not None else "this line"
    return f"{line} of {visible(stop.file or '')}{_time(stop)}"


def _time(stop: Stop) -> str:
    return f" for the {_ordinal(stop.hits)} time" if stop.hits > 1 else ""


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _colophon_paragraphs(card: Card, identity: Identity, proved: str, layout: Layout) -> Iterator[str]:
    """Yield the text of the colophon: the card, its revision and its proof, the layout, and its limitations."""
    yield (
        f"{card.title}: card {identity.id}, version {identity.version}, {identity.uuid}. "
        f"SHA-256 of its source: {identity.source_sha256}.{f' {proved}.' if proved else ''}"
    )
    approved = f", approved {layout.approved}" if layout.approved else ""
    version = f"{layout.id} {layout.version}{approved}"
    yield f"Layout {layout.name} ({version}). {layout.description} {layout.emitters}."
    yield from layout.limitation_sentences()
