"""A card as a UML activity: tasks are partitions, blocks are calls of activities of their own.

A printed page holds no card of 2 000 steps; so the card's diagram ends at the blocks, and each block has a diagram of
its phases (partitions) and steps (actions, each with a decision where it asks a question).
"""

from __future__ import annotations

from collections.abc import Iterator

from cardapp.card.model import Block, Card, Step
from cardapp.layout.diagram.chain import Chain, Lane, Link, laid_out
from cardapp.layout.diagram.lettering import NAME, SMALL, below, broken, centred, height, plain
from cardapp.layout.diagram.model import Box, Diagram, Edge, Node, Point, Room

_GAP = 3.8
"""The arrow above an action."""
_BESIDE, _LOOP = 3.0, 6.0
"""Room of a lane beside its actions, and where an arrow leads back beside them."""
_PADDING = 2.0
_DIAMOND = 4.6
_SHORT = 3.4
"""The arrow between an action and its decision, and the room below the decision for its guard."""


def of_card(card: Card, room: Room) -> tuple[Diagram, ...]:
    """Tasks and blocks, in as many diagrams as the room asks for; where one ends, a connector leads to the next."""

    def links(width: float) -> Iterator[Link]:
        for number, task in enumerate(card.tasks, 1):
            lane = Lane(task.id, f"{number} {task.title}")
            for place, block in enumerate(task.blocks, 1):
                call = _call(f"{task.id}/{block.id}", f"{number}.{place} {block.title}", width)
                yield Link((call,), call.box.bottom + 1, lane=lane)

    blocks = sum(len(task.blocks) for task in card.tasks)
    description = f"{_counted(len(card.tasks), 'task')} with {_counted(blocks, 'block')}, in the order of work."
    chain = Chain(
        "activity", f"Activity: {plain(card.title)}", description, lambda width: [*links(width)], _BESIDE, _BESIDE
    )
    return laid_out(chain, room)


def of_block(key: str, block: Block, room: Room) -> tuple[Diagram, ...]:
    """Phases and steps of the block ``key`` (``task/block``), in as many diagrams as the room asks for."""

    def links(width: float) -> Iterator[Link]:
        for phase in block.phases:
            lane = Lane(f"{key}/{phase.id}", phase.title)
            for step in phase.steps:
                yield _step(f"{lane.key}/{step.id}", step, lane, width)

    steps = sum(len(phase.steps) for phase in block.phases)
    description = f"{_counted(len(block.phases), 'phase')} with {_counted(steps, 'step')}, in the order of work."
    title = f"Activity: {plain(block.title)}"
    chain = Chain(f"activity.{key}", title, description, lambda width: [*links(width)], _BESIDE, _LOOP)
    return laid_out(chain, room)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _call(key: str, title: str, width: float) -> Node:
    """A block: an action with the rake of an activity of its own in its corner."""
    rake = 2.0
    lines = broken(plain(title), width - 2 * _PADDING - 2 * rake, NAME)
    box = Box(-width / 2, _GAP, width, height(len(lines), NAME) + 3.2)
    x, y = box.right - 1.9 - rake, box.bottom - 1.3 - rake
    middle = y + rake / 2
    strokes = (
        (Point(x + rake / 2, y), Point(x + rake / 2, y + rake)),
        (Point(x, y + rake), Point(x, middle), Point(x + rake, middle), Point(x + rake, y + rake)),
    )
    return Node(key, "call", box, plain(title), centred(lines, 0, box.centre.y, NAME), key, strokes)


def _step(key: str, step: Step, lane: Lane, width: float) -> Link:
    lines = broken(plain(step.title), width - 2 * _PADDING, NAME)
    box = Box(-width / 2, _GAP, width, height(len(lines), NAME) + 3.2)
    action = Node(key, "action", box, plain(step.title), centred(lines, 0, box.centre.y, NAME), key)
    if not step.question:
        return Link((action,), box.bottom + 1, lane=lane)
    diamond = Box(-_DIAMOND / 2, box.bottom + _SHORT, _DIAMOND, _DIAMOND)
    decision = Node(f"{key}:question", "decision", diamond, plain(step.question), href=key)
    down = Edge(key, decision.id, (Point(0, box.bottom), Point(0, diamond.y)))
    side = box.right + 3.0
    way = (Point(diamond.right, diamond.centre.y), Point(side, diamond.centre.y))
    back = (*way, Point(side, box.centre.y), Point(box.right, box.centre.y))
    guard = below(("[else]",), diamond.right + 1.2, diamond.centre.y - height(1, SMALL) - 0.1, SMALL, tone="soft")
    onward = below(("[as predicted]",), 1.2, diamond.bottom + 0.3, SMALL, tone="soft")
    return Link(
        (action, decision),
        diamond.bottom + _SHORT,
        (down, Edge(decision.id, key, back, guard)),
        leave=onward,
        lane=lane,
    )
