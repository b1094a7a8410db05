"""A diagram as a TikZ picture: one unit is one millimetre, y grows downward as in the model."""

from __future__ import annotations

from collections.abc import Callable

from cardapp.layout.diagram.model import Diagram

Escape = Callable[[str], str]


def render(diagram: Diagram, text: Escape) -> str:
    """The ``tikzpicture``; ``text`` makes LaTeX of plain text. Nodes link (``\\hyperlink``) to targets named by key."""
    raise NotImplementedError
