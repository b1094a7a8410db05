"""The text of the colophon: the card and its revision, the layout, and its limitations."""

from __future__ import annotations

from collections.abc import Iterator

from cardapp.card.model import Card, Identity
from cardapp.layout.layout_options import LIMITATIONS
from cardapp.layout.template import Layout


def sentences(card: Card, identity: Identity, layout: Layout) -> Iterator[str]:
    """Plain text; each string is a paragraph."""
    yield (
        f"{card.title}: card {identity.id}, version {identity.version}, {identity.uuid}. "
        f"SHA-256 of its source: {identity.source_sha256}."
    )
    approved = f", approved {layout.approved}" if layout.approved else ""
    version = f"{layout.id} {layout.version}{approved}"
    yield f"Layout {layout.name} ({version}). {layout.description} {emitters(layout)}."
    yield from limitations(layout)


def emitters(layout: Layout) -> str:
    """A phrase that names the emitter of each output."""
    return f"HTML by the emitter {layout.html}, LaTeX by {layout.latex}"


def limitations(layout: Layout) -> Iterator[str]:
    """The limitations, each with the output that it concerns."""
    for name, kept in layout.limitations.items():
        yield from (f"{LIMITATIONS[name]}: {sentence}" for sentence in kept)
