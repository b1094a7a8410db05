"""A block as a UML state machine: snapshots are states, the program's way from stop to stop are transitions."""

from __future__ import annotations

from cardapp.card.model import Block
from cardapp.layout.diagram.model import Diagram, Room


def of_block(key: str, block: Block, room: Room) -> tuple[Diagram, ...]:
    """The states of the block ``key`` (``task/block``), in as many diagrams as the room asks for."""
    raise NotImplementedError
