"""Rules for every diagram of every card in every room: no shapes overlap, no text is cut off, arrows end at shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.card.model import Block, Card, Phase, Snapshot, Step, Stop
from cardapp.errors import InvalidValue
from cardapp.layout.diagram import activity, memory, states
from cardapp.layout.diagram.arena import Arena, ArenaBlock
from cardapp.layout.diagram.shapes import Box, Diagram, Point, Room, Text
from tests.cardapp.layout.cards import TITLES, cards

SLACK = 0.011
"""The rounding of a renderer's output."""

ROOMS = st.builds(Room, st.floats(40, 420), st.floats(60, 420))


def block_of(*snapshots: Snapshot) -> Block:
    return Block("b", "A block", "", "", (Phase("p", "A phase", "", (Step("s", "", "", "", None, snapshots),)),))


@given(of=cards(), room=ROOMS)
def test_the_diagrams_of_any_card_are_well_drawn(of: Card, room: Room) -> None:
    diagrams = activity.of_card(of, room)
    check(diagrams, room)
    assert keys(diagrams) == [f"{task.id}/{block.id}" for task in of.tasks for block in task.blocks]
    for key, block in ((f"{task.id}/{block.id}", block) for task in of.tasks for block in task.blocks):
        steps = {f"{key}/{phase.id}/{step.id}": step for phase in block.phases for step in phase.steps}
        diagrams = activity.of_block(key, block, room)
        check(diagrams, room)
        assert keys(diagrams) == list(steps)
        asked = [node.href for node in all_nodes(diagrams) if node.shape == "decision"]
        assert asked == [at for at, step in steps.items() if step.question]
        diagrams = states.of_block(key, block, room)
        check(diagrams, room)
        assert keys(diagrams) == [f"{at}/{stop.id}" for at, step in steps.items() for stop in step.snapshots]


def test_a_stop_beside_an_arrow_breaks_between_words() -> None:
    for file, *label in (("room.c", "room.c:120", "hit 2"), ("demo_room.c", "demo_room.c:", "120 hit 2")):
        snapshot = Snapshot("n", "", Stop(file, 120, "x", None, 2), (), ())
        (diagram,) = states.of_block("t/b", block_of(snapshot), Room(44, 200))
        assert [line.text for line in diagram.edges[0].lines] == label


def test_no_diagram_has_only_the_final_node() -> None:
    block = block_of(*(Snapshot(f"n{place}", "", Stop(None, None, None, "f", 1), (), ()) for place in range(8)))
    for height in range(60, 120):
        diagrams = states.of_block("t/b", block, Room(44, height))
        assert all("state" in {node.shape for node in diagram.nodes} for diagram in diagrams), height


NUMBERS = st.one_of(st.integers(0, 400), st.integers(0, 2**64))
STRETCHES = st.builds(ArenaBlock, NUMBERS, st.integers(-1, 500), TITLES, st.integers(0, 9))
ARENAS = st.builds(
    lambda base, size, used, water, blocks, count: Arena(
        base, size, used, water, tuple(sorted(blocks, key=lambda block: block.offset)), count
    ),
    st.none() | NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS,
    st.one_of(st.lists(STRETCHES, max_size=8), st.lists(STRETCHES, min_size=20, max_size=30)), st.integers(0, 40),
)  # fmt: skip


@given(arena=ARENAS, room=ROOMS)
def test_a_memory_map_is_well_drawn(arena: Arena, room: Room) -> None:
    diagram = memory.memory_map("t/b/p/s/n", "A snapshot", arena, room)
    check([diagram], room)
    for mark in diagram.marks:
        assert mark.start.y == mark.end.y
        assert 0 <= mark.start.y <= diagram.height


@given(arena=ARENAS, length=st.floats(30, 300))
def test_a_strip_is_to_scale(arena: Arena, length: float) -> None:
    diagram = memory.strip("k", "A snapshot", arena, length)
    check([diagram], Room(max(length, 40), 60))
    assert sum(node.box.width for node in diagram.nodes) == pytest.approx(length)


def test_a_room_that_is_too_small_is_refused() -> None:
    for width, height in ((39, 100), (100, 59), (float("nan"), 100)):
        with pytest.raises(InvalidValue, match="at least 40 x 60 mm"):
            Room(width, height)
    Room(40, 60)


# -- the properties --------------------------------------------------------------------------------------------------


def check(diagrams: Sequence[Diagram], room: Room) -> None:
    assert len({diagram.id for diagram in diagrams}) == len(diagrams)
    for diagram in diagrams:
        assert 0 < diagram.width <= room.width + SLACK
        assert 0 < diagram.height <= room.height + SLACK
        check_nodes(diagram)
        check_texts(diagram)
        check_edges(diagram)
        check_partitions(diagram)
    for number, (before, after) in enumerate(pairwise(diagrams), 1):
        assert before.nodes[-1].id == f":to-{number}"
        assert after.nodes[0].id == f":from-{number}"


def check_nodes(diagram: Diagram) -> None:
    sheet = Box(0, 0, diagram.width, diagram.height)
    assert len({node.id for node in diagram.nodes}) == len(diagram.nodes)
    for node in diagram.nodes:
        assert contains(sheet, node.box), node
        assert all(contains(node.box, line.box) for line in node.lines), node
        assert all(on_or_in(node.box, point) for stroke in node.strokes for point in stroke)
    for one, other in combinations(diagram.nodes, 2):
        assert not overlap(one.box, other.box), (one, other)


def check_texts(diagram: Diagram) -> None:
    sheet = Box(0, 0, diagram.width, diagram.height)
    outside = [*outer_texts(diagram)]
    inside = [line for node in diagram.nodes for line in node.lines]
    for line in outside:
        assert contains(sheet, line.box), line
        assert not any(overlap(line.box, node.box) for node in diagram.nodes), line
    for one, other in combinations(inside + outside, 2):
        assert not overlap(one.box, other.box), (one, other)


def check_edges(diagram: Diagram) -> None:
    by_id = {node.id: node for node in diagram.nodes}
    segments: list[tuple[int, Box]] = []
    for number, edge in enumerate(diagram.edges):
        assert on_border(by_id[edge.source].box, edge.points[0])
        assert on_border(by_id[edge.target].box, edge.points[-1])
        for start, end in pairwise(edge.points):
            assert start.x == end.x or start.y == end.y
            segment = Box(min(start.x, end.x), min(start.y, end.y), abs(start.x - end.x), abs(start.y - end.y))
            assert contains(Box(0, 0, diagram.width, diagram.height), segment)
            assert not any(overlap(segment, node.box) for node in diagram.nodes), (edge, segment)
            segments.append((number, segment))
        assert on_or_in(Box(0, 0, diagram.width, diagram.height), edge.head[0])
    texts = [*outer_texts(diagram), *(line for node in diagram.nodes for line in node.lines)]
    for number, segment in segments:
        assert not any(overlap(segment, line.box) for line in texts), segment
        assert not any(overlap(segment, other) for place, other in segments if place != number), segment


def check_partitions(diagram: Diagram) -> None:
    for partition in diagram.partitions:
        assert contains(Box(0, 0, diagram.width, diagram.height), partition.box)
        assert contains(partition.box, partition.head)
        assert all(contains(partition.head, line.box) for line in partition.lines), partition
        assert not any(overlap(partition.head, node.box) for node in diagram.nodes)
    for one, other in combinations(diagram.partitions, 2):
        assert not overlap(one.box, other.box)
    for node in diagram.nodes:
        lanes = [lane for lane in diagram.partitions if node.href and node.href.startswith(f"{lane.id}/")]
        assert not lanes or any(contains(lane.box, node.box) for lane in lanes), node
        others = [lane for lane in diagram.partitions if lane not in lanes]
        assert not any(overlap(lane.box, node.box) for lane in others), node


def outer_texts(diagram: Diagram) -> Iterator[Text]:
    for holder in (*diagram.edges, *diagram.partitions, *diagram.marks):
        yield from holder.lines
    yield from diagram.notes


def all_nodes(diagrams: Sequence[Diagram]) -> list[Any]:
    return [node for diagram in diagrams for node in diagram.nodes]


def keys(diagrams: Sequence[Diagram]) -> list[str]:
    return [node.id for node in all_nodes(diagrams) if node.id == node.href]


def contains(outer: Box, inner: Box) -> bool:
    return (
        inner.x >= outer.x - SLACK
        and inner.y >= outer.y - SLACK
        and inner.right <= outer.right + SLACK
        and inner.bottom <= outer.bottom + SLACK
    )


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.right - SLACK
        and other.x < one.right - SLACK
        and one.y < other.bottom - SLACK
        and other.y < one.bottom - SLACK
    )


def on_or_in(box: Box, point: Point) -> bool:
    return contains(box, Box(point.x, point.y, 0, 0))


def on_border(box: Box, point: Point) -> bool:
    beside = min(abs(point.x - box.x), abs(point.x - box.right)) < SLACK
    over = min(abs(point.y - box.y), abs(point.y - box.bottom)) < SLACK
    return on_or_in(box, point) and (beside or over)
