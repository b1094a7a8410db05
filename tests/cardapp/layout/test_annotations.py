"""Annotations on the sheets of an exported file."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from cardapp.card.source import load_card
from cardapp.layout.annotations import by_part
from cardapp.layout.compose import compose
from cardapp.layout.html.document import render as render_html
from cardapp.layout.latex.document import render as render_latex
from cardapp.layout.layout_model import Frame
from cardapp.layout.sheets import Document
from cardapp.publish import layouts
from cardapp.settings import ROOT

PART = "bump/anatomy/empty/fields:code"
EVEN = "bump/anatomy/empty/fields:text"
"""A part without code, so no line is wrapped."""
HOSTILE = r'</p><script>alert(1)</script>\input{/etc/passwd} 100 % & "x"'


def record(kind: str = "box", **changes: Any) -> dict[str, Any]:
    return {
        "id": "a1",
        "key": "bump/anatomy/empty/fields/initialised",
        "strategy_id": None,
        "target": {"part": PART, "x": 0.25, "y": 0.5, "w": 0.5, "h": 0.25},
        "geometry": {"points": [[0.25, 0.5], [0.75, 0.75]]},
        "style": {"kind": kind},
        "text": f"A {kind}",
        "visible": True,
        **changes,
    }


@pytest.fixture(scope="module")
def document() -> Document:
    loaded = load_card(ROOT / "etc" / "cards" / "arena")
    layout = layouts.find("karta-classic").arranged("latex")
    return compose(loaded.card, loaded.identity, layout, loaded.sources())


def html(document: Document, *records: dict[str, Any]) -> str:
    return "".join(render_html(replace(document, annotations=by_part(records))))


def latex(document: Document, *records: dict[str, Any]) -> str:
    return render_latex(replace(document, annotations=by_part(records)))


def frame_of(document: Document, name: str) -> Frame:
    (frame,) = {part.frame for sheet in document.sheets for part in sheet.parts if f"{part.key}:{part.kind}" == name}
    return frame


def test_without_annotations_a_file_has_none(document: Document) -> None:
    assert 'class="annotations"' not in html(document)
    assert html(document, record(visible=False)) == html(document)
    assert "annotations" not in latex(document)


def test_each_kind_is_drawn_over_its_part(document: Document) -> None:
    for kind in ("box", "arrow", "underline", "marker", "callout", "freehand"):
        (layer,) = re.findall(r'<div class="annotations">.*?</div>', html(document, record(kind)), re.DOTALL)
        assert f'<g class="annotation {kind}" style="--pen:var(--current,#8a4b00);--pen-width:5">' in layer
        assert '<p class="said" dir="auto" style="--pen:var(--current,#8a4b00);--pen-width:5;left:25.000%' in layer
        tex = latex(document, record(kind))
        picture = tex[tex.index("{annotations bump/anatomy/empty/fields}") :].partition(r"\end{CardPart}")[0]
        assert "rgb,255:red,138;green,75;blue,0" in picture
        assert f"{{A {kind}}};" in picture


def test_a_drawing_has_the_place_of_its_points(document: Document) -> None:
    target = {"part": EVEN, "x": 0.25, "y": 0.5, "w": 0.5, "h": 0.25}
    assert '<rect x="25.000%" y="50.000%" width="50.000%" height="25.000%"/>' in html(document, record(target=target))
    frame, tex = frame_of(document, EVEN), latex(document, record(target=target))
    corners = [(share_x * frame.width, share_y * frame.height) for share_x, share_y in ((0.25, 0.5), (0.75, 0.75))]
    assert " rectangle ".join(f"({x:.3f},{y:.3f})" for x, y in corners) in tex


def test_a_text_at_the_right_edge_extends_to_the_left(document: Document) -> None:
    target = {"part": EVEN, "x": 0.8, "y": 0, "w": 0.1, "h": 0.1}
    assert ";right:10.000%;top:10.000%" in html(document, record(target=target))
    assert "anchor=north east" in latex(document, record(target=target))


def test_hostile_texts_stay_texts(document: Document) -> None:
    hostile = record(text=HOSTILE, style={"kind": "callout", "color": "#a0B1c2", "width": 1.5})
    found = html(document, hostile)
    assert "<script" not in found
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in found
    assert "--pen:#a0B1c2;--pen-width:1.5" in found
    assert r"\input{/etc" not in latex(document, hostile)
