"""A card as a UML activity: tasks are partitions, blocks are calls of activities of their own.

A printed page holds no card of 2 000 steps; so the card's diagram ends at the blocks, and each block has a diagram of
its phases (partitions) and steps (actions, each with a decision where it asks a question).
"""

from __future__ import annotations

from cardapp.card.model import Block, Card
from cardapp.layout.diagram.model import Diagram, Room


def of_card(card: Card, room: Room) -> tuple[Diagram, ...]:
    """Tasks and blocks, in as many diagrams as the room asks for; where one ends, a connector leads to the next."""
    raise NotImplementedError


def of_block(key: str, block: Block, room: Room) -> tuple[Diagram, ...]:
    """Phases and steps of the block ``key`` (``task/block``), in as many diagrams as the room asks for."""
    raise NotImplementedError
