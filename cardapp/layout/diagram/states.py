"""Draws the UML state machine of a block: snapshots are states; running from one stop to the next is a transition."""

from __future__ import annotations

from collections.abc import Iterator

from cardapp.card.model import Block, Snapshot, Stop
from cardapp.card.notation import in_format
from cardapp.layout.diagram.column_flow import ColumnFlow, FlowItem, ItemShapes, laid_out
from cardapp.layout.diagram.shapes import Box, Diagram, Node, Point, Room
from cardapp.layout.diagram.text_lines import (
    ELLIPSIS,
    NAME,
    SMALL,
    below,
    broken,
    centred,
    code_line,
    code_lines,
    height,
    plain,
)
from cardapp.layout.font_metrics import width

_BESIDE = 1.4
"""Distance between an arrow and the texts beside it."""
_MIN_GAP = 5.0
_PADDING = 2.0
_MAX_EXPRESSIONS = 4
"""Maximum number of expressions in a state. If there are more, the last line says how many are left out."""


def of_block(key: str, block: Block, room: Room, *, values: bool = True) -> tuple[Diagram, ...]:
    """Draw the states of the block ``key`` (``task/block``), in as many diagrams as the room requires.

    A state shows the expected expressions, and their values if ``values`` is true. Beside the arrow into a state are
    the title of its step (left) and the stop (right).
    """

    def items(shape_width: float) -> Iterator[FlowItem]:
        for phase in block.phases:
            for step in phase.steps:
                title = step.title
                for snapshot in step.snapshots:
                    yield _state(
                        f"{key}/{phase.id}/{step.id}/{snapshot.id}", title, snapshot, shape_width, show_values=values
                    )
                    title = ""

    count = sum(len(step.snapshots) for phase in block.phases for step in phase.steps)
    description = f"{count} {'state' if count == 1 else 'states'} of the program, in the order of the snapshots."
    return laid_out(ColumnFlow(f"state.{key}", f"States: {plain(block.title)}", description, items), room)


def _state(key: str, step: str, snapshot: Snapshot, shape_width: float, *, show_values: bool) -> FlowItem:
    title, place = _arrow_labels(step, snapshot.stop, shape_width / 2 - 2 * _BESIDE)
    gap = max(_MIN_GAP, height(max(len(title), len(place)), SMALL) + 2.8)
    name = broken(plain(snapshot.title), shape_width - 2 * _PADDING, NAME, "strong", max_lines=2)
    expressions, values = _values(snapshot, shape_width - 2 * _PADDING, show_values=show_values)
    rule = height(max(1, len(name)), NAME) + 2.2
    tall = rule + (height(len(expressions), SMALL) + 1.8 if expressions else 0)

    def draw(x: float, y: float) -> ItemShapes:
        box = Box(x - shape_width / 2, y + gap, shape_width, tall)
        line = box.y + rule
        lines = (
            *centred(name, x, box.y + rule / 2, NAME, "strong"),
            *below(expressions, box.x + _PADDING, line + 0.9, SMALL, "code", tone="soft"),
            *below(values, box.right - _PADDING, line + 0.9, SMALL, "code", "end"),
        )
        strokes = ((Point(box.x, line), Point(box.right, line)),) if expressions else ()
        entry = (
            *below(title, x - _BESIDE, y + 0.8, SMALL, anchor="end", tone="soft"),
            *below(place, x + _BESIDE, y + 0.8, SMALL, "code", tone="soft"),
        )
        return ItemShapes(
            (Node(key, "state", box, _full_text(snapshot, show_values=show_values), lines, key, strokes),), entry=entry
        )

    return FlowItem(gap, gap + tall + 0.6, draw)


def _full_text(snapshot: Snapshot, *, show_values: bool) -> str:
    expected = "; ".join(
        f"{each.expression} = {in_format(each.value, each.format) if show_values else ELLIPSIS}"
        for each in snapshot.expect
    )
    return plain(f"{snapshot.title} ({_place(snapshot.stop)})" + (f": {expected}" if expected else ""))


def _arrow_labels(step: str, stop: Stop, text_width: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (
        broken(plain(step), text_width, SMALL, max_lines=2),
        code_lines(plain(_place(stop)), text_width, SMALL, max_lines=2),
    )


def _values(snapshot: Snapshot, text_width: float, *, show_values: bool) -> tuple[list[str], list[str]]:
    """Return the lines of expressions and values. A value takes at most half of its line."""
    shown = snapshot.expect if len(snapshot.expect) <= _MAX_EXPRESSIONS else snapshot.expect[: _MAX_EXPRESSIONS - 1]
    values = [
        code_line(in_format(each.value, each.format) if show_values else ELLIPSIS, text_width / 2, SMALL)
        for each in shown
    ]
    expressions = [
        code_line(each.expression, text_width - width(value, SMALL, "code") - _BESIDE, SMALL)
        for each, value in zip(shown, values, strict=True)
    ]
    if more := len(snapshot.expect) - len(shown):
        expressions.append(f"{ELLIPSIS} {more} more")
    return expressions, values


def _place(stop: Stop) -> str:
    return " ".join(part for part in (_where(stop), _hit(stop)) if part)


def _where(stop: Stop) -> str:
    if stop.signal is not None:
        return stop.signal
    if stop.function is not None:
        return f"{stop.function}()"
    return f"{stop.file}:{stop.line}" if stop.line is not None else f"{stop.file}"


def _hit(stop: Stop) -> str:
    return f"hit {stop.hits}" if stop.hits > 1 else ""
