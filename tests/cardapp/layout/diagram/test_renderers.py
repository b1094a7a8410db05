"""The two renderers, without positions. Tests that run a browser and TeX compare the positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from cardapp.card.model import Block, Expectation, Phase, Snapshot, Step, Stop
from cardapp.layout.diagram import activity, shapes, states, svg, tikz
from cardapp.layout.diagram.arena import Arena, ArenaBlock
from cardapp.layout.diagram.memory import memory_map
from cardapp.layout.diagram.shapes import Diagram, Room
from cardapp.layout.layout_options import COLORS

SVG = "{http://www.w3.org/2000/svg}"
PALETTE = {name: value for name, (_use, value) in COLORS.items()}
HOSTILE = [
    r"\input{/etc/passwd} \csname end\endcsname",
    "100 % $x_1^2$ #1 & ~ {}",
    "<script>alert('1')</script> \"&amp;",
    "\x00\x07\u202eevil\ud800",
    "]]> --> </svg>",
]


def block_of(*titles: str) -> Block:
    snapshot = Snapshot("here", "A state", Stop("a.c", 7, "x", None, 2), (Expectation("n", "1"),), ())
    steps = tuple(Step(f"s{place}", title, "", title, None, (snapshot,)) for place, title in enumerate(titles))
    return Block("b", "A block", "", "", (Phase("p", titles[0], "", steps),))


def drawings(*titles: str) -> Iterator[Diagram]:
    room = Room(60, 250)
    yield from activity.of_block("t/b", block_of(*titles), room)
    yield from states.of_block("t/b", block_of(*titles), room)
    blocks = tuple(ArenaBlock(8 * place, 4, title, place) for place, title in enumerate(titles))
    yield memory_map("t/b/p/s0/here", titles[0], Arena(4096, 64, 20, 40, blocks, len(blocks)), room)


def tree(diagram: Diagram, current: str | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(svg.render(diagram, current))


@given(st.sampled_from(HOSTILE) | st.text(max_size=40))
def test_no_title_becomes_markup(title: str) -> None:
    for diagram, plain in zip(drawings(title, "second"), drawings("first", "second"), strict=True):
        tags, others = ({each.tag for each in tree(one).iter()} for one in (diagram, plain))
        assert tags <= others
        written = tikz.render(diagram)
        assert r"\input" not in written
        assert r"\csname" not in written
        assert "\\end{tikzpicture}" in written.splitlines()[-1]
        assert not re.search(r"(?<!\\)[%$&#]", written)
        bare = re.sub(r"\\[{}\\]", "", written)
        assert bare.count("{") == bare.count("}")


def test_every_node_can_be_found_and_followed() -> None:
    (diagram,) = activity.of_block("t/b", block_of("One", "Two"), Room(60, 250))
    found = {element.get("id"): element for element in tree(diagram).iter() if element.get("data-key")}
    step = found["activity.t/b.t/b/p/s0"]
    assert step.get("data-key") == "t/b/p/s0"
    assert step.get("href") == "#t/b/p/s0"
    assert step.tag == f"{SVG}a"
    assert step.findtext(f"{SVG}title") == "One"
    assert found["activity.t/b.t/b/p/s0:question"].get("href") == "#t/b/p/s0"
    assert found["activity.t/b.:initial"].tag == f"{SVG}g"
    ids = [element.get("id") for element in tree(diagram).iter() if element.get("id")]
    assert len(set(ids)) == len(ids)


def test_a_picture_has_a_title_a_description_and_a_size() -> None:
    (diagram,) = states.of_block("t/b", block_of("One", "Two"), Room(60, 250))
    root = tree(diagram)
    named = {element.get("id"): element.text for element in root}
    assert [named[name] for name in root.attrib["aria-labelledby"].split()] == [
        "States: A block",
        "2 states of the program, in the order of the snapshots.",
    ]
    assert root.attrib["viewBox"] == f"0 0 {diagram.width:g} {diagram.height:.5g}"
    assert root.attrib["width"] == f"{diagram.width:g}mm"


def test_the_shape_of_the_current_position_or_its_nearest_ancestor_is_marked() -> None:
    (diagram,) = activity.of_block("t/b", block_of("One", "Two"), Room(60, 250))
    for current, marked in (
        ("t/b/p/s1", ["t/b/p/s1"]),
        ("t/b/p/s1/here", ["t/b/p/s1"]),
        ("t/b/p/s10", []),
        ("t/b/p", ["#t/b/p"]),
        ("t/b", []),
        ("other/b/p/s1", []),
        ("", [":initial"]),
        (None, []),
    ):
        found = [element for element in tree(diagram, current).iter() if element.get("aria-current")]
        assert [shape.get("data-key", shape.get("href")) for shape in found] == marked, current
        assert all("current" in shape.attrib["class"].split() for shape in found)
        assert all(shape.findtext(f"{SVG}title") for shape in found), "what is current has a name"


def test_links_lead_where_positions_are_said_to_be() -> None:
    (diagram,) = activity.of_block("t/b", block_of("One"), Room(60, 250))
    root = ElementTree.fromstring(svg.render(diagram, address="http://[::1]:80/?a&b#{}".format))
    assert {element.get("href") for element in root.iter(f"{SVG}a")} == {
        f"http://[::1]:80/?a&b#{key}" for key in ("t/b/p", "t/b/p/s0")
    }


def test_every_class_and_colour_of_a_picture_has_its_rule() -> None:
    style = svg.style(PALETTE)
    for shape in shapes.SHAPE_STYLES:
        assert f".{shape}>.shape{{" in style
    used = set(re.findall(r"var\((--diagram-[a-z-]+)\)", style))
    assert used <= set(re.findall(r"(--diagram-[a-z-]+):", style))
    assert all(f"--diagram-{name.replace('_', '-')}:" in style for name in shapes.USED_COLORS)
    assert PALETTE.keys() >= shapes.USED_COLORS


def test_a_line_states_its_length_only_where_that_is_known() -> None:
    (diagram,) = activity.of_block("t/b", block_of("Plain", "Grün", "漢字"), Room(60, 250))
    lengths = {element.text: element.get("textLength") for element in tree(diagram).iter(f"{SVG}text")}
    assert lengths["Plain"] is not None
    assert lengths["Grün"] is None
    assert lengths["漢字"] is None
