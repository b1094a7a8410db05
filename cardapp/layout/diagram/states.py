"""A block as a UML state machine: snapshots are states, the program's way from stop to stop are transitions."""

from __future__ import annotations

from collections.abc import Iterator

from cardapp.card.model import Block, Snapshot, Stop
from cardapp.layout.diagram.chain import Chain, Link, laid_out
from cardapp.layout.diagram.lettering import ELLIPSIS, NAME, SMALL, below, broken, centred, height, one_line, plain
from cardapp.layout.diagram.model import Box, Diagram, Node, Point, Room, Text
from cardapp.layout.metrics import width

_BESIDE = 1.4
"""Between an arrow and what stands at its sides."""
_LEAST_GAP = 5.0
_PADDING = 2.0
_VALUES = 4
"""So many expectations are shown in a state; of more, the last line says how many."""


def of_block(key: str, block: Block, room: Room) -> tuple[Diagram, ...]:
    """The states of the block ``key`` (``task/block``), in as many diagrams as the room asks for.

    At the arrow into a state stands, on the left, the step that leads there, and on the right the stop."""

    def links(shape: float) -> Iterator[Link]:
        for phase in block.phases:
            for step in phase.steps:
                said = step.title
                for snapshot in step.snapshots:
                    yield _state(f"{key}/{phase.id}/{step.id}/{snapshot.id}", said, snapshot, shape)
                    said = ""

    count = sum(len(step.snapshots) for phase in block.phases for step in phase.steps)
    description = f"{count} {'state' if count == 1 else 'states'} of the program, in the order of the snapshots."
    return laid_out(
        Chain(f"state.{key}", f"States: {plain(block.title)}", description, lambda shape: [*links(shape)]), room
    )


def _state(key: str, step: str, snapshot: Snapshot, room: float) -> Link:
    entry = _at_the_arrow(step, snapshot.stop, room / 2 - 2 * _BESIDE)
    gap = max([_LEAST_GAP, *(line.box.bottom + 2.2 for line in entry)])
    name = broken(plain(snapshot.title), room - 2 * _PADDING, NAME, "strong", most=2)
    rule = gap + height(len(name), NAME) + 2.2
    values = _values(snapshot, room / 2 - _PADDING, rule + 0.9)
    bottom = max([rule, *(line.box.bottom + 1.3 for line in values)])
    box = Box(-room / 2, gap, room, bottom - gap)
    lines = (*centred(name, 0, (gap + rule) / 2, NAME, "strong"), *values)
    strokes = ((Point(box.x, rule), Point(box.right, rule)),) if values else ()
    expected = "; ".join(f"{expression} = {value}" for expression, value in snapshot.expect)
    title = plain(f"{snapshot.title} ({_place(snapshot.stop)})" + (f": {expected}" if expected else ""))
    return Link((Node(key, "state", box, title, lines, key, strokes),), bottom + 0.6, entry=entry)


def _at_the_arrow(step: str, stop: Stop, room: float) -> tuple[Text, ...]:
    said = broken(plain(step), room, SMALL, most=2)
    place = broken(plain(_place(stop)), room, SMALL, "code", most=2)
    return (
        *below(said, -_BESIDE, 0.8, SMALL, anchor="end", tone="soft"),
        *below(place, _BESIDE, 0.8, SMALL, "code", tone="soft"),
    )


def _values(snapshot: Snapshot, half: float, top: float) -> tuple[Text, ...]:
    """Expressions at the left, their values at the right, ``half`` from the middle each."""
    shown = snapshot.expect if len(snapshot.expect) <= _VALUES else snapshot.expect[: _VALUES - 1]
    expressions, values = [], []
    for expression, value in shown:
        values.append(one_line(plain(value), half, SMALL, "code"))
        taken = width(values[-1], SMALL, "code") + _BESIDE
        expressions.append(one_line(plain(expression), 2 * half - taken, SMALL, "code"))
    if more := len(snapshot.expect) - len(shown):
        expressions.append(f"{ELLIPSIS} {more} more")
    return (
        *below(expressions, -half, top, SMALL, "code", tone="soft"),
        *below(values, half, top, SMALL, "code", "end"),
    )


def _place(stop: Stop) -> str:
    return " ".join(part for part in (_where(stop), _hit(stop)) if part)


def _where(stop: Stop) -> str:
    return f"{stop.function}()" if stop.function is not None else f"{stop.file}:{stop.line}"


def _hit(stop: Stop) -> str:
    return f"hit {stop.hits}" if stop.hits > 1 else ""
