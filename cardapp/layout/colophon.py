"""What a reader may want to know at the end: which card in which revision, by which layout, with which limitations."""

from __future__ import annotations

from collections.abc import Iterator

from cardapp.card.model import Card, Identity
from cardapp.layout.layout_options import LIMITATIONS
from cardapp.layout.template import Layout


def sentences(card: Card, identity: Identity, layout: Layout) -> Iterator[str]:
    """Plain text, one paragraph each."""
    yield (
        f"{card.title}: card {identity.id}, version {identity.version}, {identity.uuid}. "
        f"SHA-256 of its source: {identity.source_sha256}."
    )
    approved = f", approved {layout.approved}" if layout.approved else ""
    whose = f"{layout.id} {layout.version}{approved}"
    yield f"Layout {layout.name} ({whose}). {layout.description} {emitters(layout)}."
    yield from limitations(layout)


def emitters(layout: Layout) -> str:
    """What makes each output, in words."""
    return f"HTML by the emitter {layout.html}, LaTeX by {layout.latex}"


def limitations(layout: Layout) -> Iterator[str]:
    """Each with whose it is."""
    for name, kept in layout.limitations.items():
        yield from (f"{LIMITATIONS[name]}: {sentence}" for sentence in kept)
