"""A diagram as inline SVG: one user unit is one millimetre, colours are the style sheet's."""

from __future__ import annotations

from cardapp.layout.diagram.model import Diagram


def render(diagram: Diagram, current: str | None = None) -> str:
    """The ``<svg>`` element. Nodes carry ``id="DIAGRAM.NODE"`` and ``data-key``, and link to ``#KEY``; the shape of
    ``current``, or of its nearest ancestor in the diagram, is marked."""
    raise NotImplementedError
