"""The names of parts, by which an annotation finds its part, and the pieces of split parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from cardapp.card.model import CodeRange, Snapshot, Step, Stop
from cardapp.card.source import load_card
from cardapp.layout.annotations import Drawn, by_part
from cardapp.layout.compose import compose
from cardapp.layout.measure import Measure
from cardapp.layout.part_names import Piece, part_names, pieces
from cardapp.layout.sheets import Code, Document, Part
from cardapp.publish import layouts
from cardapp.settings import ROOT
from tests.cardapp.layout import cards

LAYOUTS = ("karta-classic", "karta-5a", "karta-5b", "karta-mixed")
SPLIT = "t/b0/p/s:code"


@cache
def shipped(card: str, layout: str) -> Document:
    loaded = load_card(ROOT / "etc" / "cards" / card)
    return compose(loaded.card, loaded.identity, layouts.find(layout).arranged("html"), loaded.sources())


@cache
def long_excerpt(layout: str) -> Document:
    """A step with 120 lines of code, which no sheet can show on its own."""
    snapshot = Snapshot("n", "The snapshot", Stop("a.c", 5, "int", None, 2), (), ())
    made = cards.with_steps(Step("s", "A step", "", "", CodeRange("a.c", 1, 120), (snapshot,)))
    sources = {"a.c": [f"int line_{number};" + " /* long */" * (number % 17) for number in range(1, 121)]}
    return compose(made, cards.IDENTITY, layouts.find(layout).arranged("html"), sources)


def placed(document: Document) -> Iterator[tuple[Part, Piece]]:
    for sheet, row in zip(document.sheets, pieces(document), strict=True):
        yield from zip(sheet.parts, row, strict=True)


def pieces_of(document: Document, name: str) -> list[Piece]:
    return [piece for _, piece in placed(document) if piece.name == name]


def underline(height: float) -> Drawn:
    target = {"part": SPLIT, "x": 0.1, "y": height, "w": 0.8, "h": 0}
    geometry = {"points": [[0.1, height], [0.9, height]]}
    record = {"visible": True, "target": target, "geometry": geometry, "style": {"kind": "underline"}, "text": "Here"}
    return by_part([record])[SPLIT][0]


def lines(document: Document) -> Iterator[tuple[Part, Piece, int, float, float]]:
    """Each line of code with its number, and its upper and lower edge as fractions of its part's height."""
    measure = Measure(document.layout)
    for part, piece in placed(document):
        if isinstance(part.content, Code):
            y = measure.padding("code") + measure.label_height("code", part.caption)
            for line in part.content.lines:
                height = len(line.segments) * measure.line(measure.component("code").size)
                yield part, piece, line.number, y / part.frame.height, (y + height) / part.frame.height
                y += height


def shown_at(document: Document, name: str, share: float) -> list[int]:
    """The numbers of the lines of code under an annotation at this fraction of the whole part's height."""
    found = []
    for _, piece, number, top, bottom in lines(document):
        drawn = piece.shown(underline(share)) if piece.name == name else None
        if drawn and top < drawn.points[0].y < bottom:
            found.append(number)
    return found


def share_of(piece: Piece, height: float) -> float:
    """The fraction of the whole part's height that matches this height of the piece."""
    return Piece("", piece.heights, piece.shares).shown(underline(height)).points[0].y  # type: ignore[union-attr]


def test_a_part_has_the_same_name_in_every_layout() -> None:
    for card in ("arena", "calc"):
        classic = part_names(shipped(card, "karta-classic"))
        assert ":card_title" in classic
        assert [other for other in LAYOUTS[1:] if part_names(shipped(card, other)) != classic] == []
    # Two parts of the same position and kind have two names.
    document = shipped("arena", "karta-classic")
    twice = tuple(replace(sheet, parts=(*sheet.parts, sheet.parts[0])) for sheet in document.sheets[:1])
    assert {":card_title", ":card_title.2"} <= part_names(replace(document, sheets=twice))


def test_the_pieces_of_a_part_show_all_of_it_one_after_the_other() -> None:
    calc = pieces_of(shipped("calc", "karta-classic"), "operands/brackets/group/open:code")
    activity = pieces_of(shipped("arena", "karta-5b"), "bump/requests:activity")
    for found in (calc, activity, pieces_of(long_excerpt("karta-5b"), SPLIT)):
        assert len(found) > 1
        assert all(piece.is_split for piece in found)
        assert [piece.shares[0] for piece in found] == [0, *(piece.shares[-1] for piece in found[:-1])]
        assert found[-1].shares[-1] == 1
        assert all(0 < piece.heights[0] < 0.5 for piece in found[1:])  # below the caption
    assert calc[0].heights[-1] < 1  # above the mark


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_annotation_of_a_line_of_code_lies_over_it_in_every_layout(layout: str) -> None:
    """The annotation finds its line of code wherever the line is wrapped, and on every sheet. It is drawn through the
    middle of the line of code."""
    for _, piece, number, top, bottom in list(lines(long_excerpt(layout)))[::7]:
        share = share_of(piece, (top + bottom) / 2)
        assert [shown_at(long_excerpt(other), SPLIT, share) for other in LAYOUTS] == [[number]] * len(LAYOUTS)


def test_an_annotation_is_shown_by_the_pieces_on_which_it_lies_and_its_text_by_one() -> None:
    first, second, *_ = pieces_of(long_excerpt("karta-5b"), SPLIT)
    (end,) = {first.shares[-1], second.shares[0]}
    at_end = underline(end)
    assert second.shown(at_end) is None
    over_both = at_end._replace(kind="box", points=(at_end.points[0]._replace(y=end / 2), at_end.points[1]))
    assert second.shown(over_both) is None
    over_both = over_both._replace(points=(over_both.points[0], over_both.points[1]._replace(y=end + 0.01)))
    over_both = over_both._replace(place=over_both.points[1])
    texts = [drawn.text for piece in (first, second) if (drawn := piece.shown(over_both))]
    assert texts == ["", "Here"]
