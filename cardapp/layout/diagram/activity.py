"""Draws UML activity diagrams: of the card (tasks are partitions, blocks are calls), and of each block.

A diagram with all steps of a big card would not fit a printed page. So the card's diagram ends at the blocks, and each
block has a diagram of its phases (partitions) and steps (actions). A step with a question is followed by a decision.
"""

from __future__ import annotations

from collections.abc import Iterator

from cardapp.card.model import Block, Card, Step
from cardapp.layout.diagram import column_flow, swimlanes
from cardapp.layout.diagram.column_flow import ColumnFlow, FlowItem, ItemShapes
from cardapp.layout.diagram.flow_nodes import Lane
from cardapp.layout.diagram.shapes import Box, Diagram, Edge, Node, Point, Room
from cardapp.layout.diagram.swimlanes import Cell, Swimlanes
from cardapp.layout.diagram.text_lines import NAME, SMALL, below, broken, centred, height, plain

_GAP = 3.8
"""Length of the arrow above an action."""
_BESIDE, _LOOP = 3.0, 6.0
"""Space beside the actions of a lane: without an arrow that leads back, and with one."""
_PADDING, _RAKE = 2.0, 2.0
"""Padding beside a name in its shape, and the size of the rake symbol of a call."""
_DIAMOND = 4.6
_DECISION_GAP = 3.4
"""Length of the arrow between an action and its decision. The guard below the decision has the same space."""


def of_card(card: Card, room: Room) -> tuple[Diagram, ...]:
    """Draw tasks and blocks, in as many diagrams as the room requires. Connectors link one diagram to the next."""

    def lanes(width: float) -> Iterator[tuple[Lane, list[Cell]]]:
        for number, task in enumerate(card.tasks, 1):
            calls = enumerate(task.blocks, 1)
            cells = [_call(f"{task.id}/{block.id}", f"{number}.{place} {block.title}", width) for place, block in calls]
            yield Lane(task.id, f"{number} {task.title}"), cells

    def items(width: float) -> Iterator[FlowItem]:
        return (_flow_item(cell, lane, width) for lane, cells in lanes(width) for cell in cells)

    counts = [len(task.blocks) for task in card.tasks]
    title = f"Activity: {plain(card.title)}"
    description = f"{_counted(len(counts), 'task')} with {_counted(sum(counts), 'block')}, in the order of work."
    if room.width < swimlanes.MIN_WIDTH:
        return column_flow.laid_out(ColumnFlow("activity.card", title, description, items, _BESIDE, _BESIDE), room)
    return swimlanes.laid_out(Swimlanes("activity.card", title, description, lanes, max(counts, default=1)), room)


def of_block(key: str, block: Block, room: Room) -> tuple[Diagram, ...]:
    """Draw phases and steps of the block ``key`` (``task/block``), in as many diagrams as the room requires."""

    def items(width: float) -> Iterator[FlowItem]:
        for phase in block.phases:
            lane = Lane(f"{key}/{phase.id}", phase.title)
            for step in phase.steps:
                yield _step(f"{lane.key}/{step.id}", step, lane, width)

    steps = sum(len(phase.steps) for phase in block.phases)
    description = f"{_counted(len(block.phases), 'phase')} with {_counted(steps, 'step')}, in the order of work."
    title = f"Activity: {plain(block.title)}"
    return column_flow.laid_out(ColumnFlow(f"activity.{key}", title, description, items, _BESIDE, _LOOP), room)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _call(key: str, title: str, width: float) -> Cell:
    """Draw a block: an action with a rake, the UML symbol of an action that has its own diagram."""
    name = plain(title)
    lines = broken(name, width - 2 * (_PADDING + _RAKE + 0.6), NAME)

    def draw(box: Box) -> Node:
        return Node(key, "call", box, name, centred(lines, box.centre.x, box.centre.y, NAME), key, _rake(box))

    return Cell(_height(lines), draw)


def _flow_item(cell: Cell, lane: Lane, width: float) -> FlowItem:
    def draw(x: float, y: float) -> ItemShapes:
        return ItemShapes((cell.draw(Box(x - width / 2, y + _GAP, width, cell.height)),))

    return FlowItem(_GAP, _GAP + cell.height + 1, draw, lane)


def _rake(box: Box) -> tuple[tuple[Point, ...], ...]:
    x, y = box.right - 1.9 - _RAKE, box.bottom - 1.3 - _RAKE
    middle, right, bottom = y + _RAKE / 2, x + _RAKE, y + _RAKE
    return (
        (Point(x + _RAKE / 2, y), Point(x + _RAKE / 2, bottom)),
        (Point(x, bottom), Point(x, middle), Point(right, middle), Point(right, bottom)),
    )


def _step(key: str, step: Step, lane: Lane, width: float) -> FlowItem:
    title = plain(step.title)
    lines = broken(title, width - 2 * _PADDING, NAME)
    tall = _height(lines)

    def draw(x: float, y: float) -> ItemShapes:
        box = Box(x - width / 2, y + _GAP, width, tall)
        action = Node(key, "action", box, title, centred(lines, x, box.centre.y, NAME), key)
        return _with_decision(action, step.question) if step.question else ItemShapes((action,))

    return FlowItem(_GAP, _GAP + tall + (2 * _DECISION_GAP + _DIAMOND if step.question else 1), draw, lane)


def _with_decision(action: Node, question: str) -> ItemShapes:
    """Draw an action and the decision below it. If the prediction was wrong, the flow leads back to the action."""
    x, box = action.box.centre.x, action.box
    diamond = Box(x - _DIAMOND / 2, box.bottom + _DECISION_GAP, _DIAMOND, _DIAMOND)
    middle, side = diamond.centre.y, box.right + _LOOP / 2
    decision = Node(f"{action.id}:question", "decision", diamond, plain(question), href=action.id)
    down = Edge(action.id, decision.id, (Point(x, box.bottom), Point(x, diamond.y)))
    way = (Point(diamond.right, middle), Point(side, middle), Point(side, box.centre.y), Point(box.right, box.centre.y))
    guard = below(("[else]",), diamond.right + 1.2, middle - height(1, SMALL) - 0.1, SMALL, tone="soft")
    leave = below(("[as predicted]",), x + 1.2, diamond.bottom + 0.3, SMALL, tone="soft")
    return ItemShapes((action, decision), (down, Edge(decision.id, action.id, way, guard)), leave=leave)


def _height(lines: tuple[str, ...]) -> float:
    return height(max(1, len(lines)), NAME) + 3.2
