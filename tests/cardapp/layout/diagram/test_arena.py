"""The arena model, from a reading of the debugger and from a card's expected values, and its regions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cardapp.card.model import AllocatorRecipe, BlockRecipe, Expectation, Snapshot, Stop
from cardapp.layout.diagram.arena import Arena, ArenaBlock, arena_from_card, arena_from_reading, regions
from cardapp.layout.diagram.memory import memory_map, strip
from cardapp.layout.diagram.shapes import Room

RECIPE = AllocatorRecipe(
    "a.base", "a.size", "a.used", "a.high", BlockRecipe("a.n", "a.log[$i].at", "a.log[$i].n", "a.log[$i].label")
)
READING: dict[str, Any] = {
    "base": 4096, "size": 64, "used": 29, "high_water": 40,
    "blocks": [{"offset": 16, "size": 13, "label": None}, {"offset": 0, "size": 8, "label": "first"}],
}  # fmt: skip
ARENA = Arena(4096, 64, 29, 40, (ArenaBlock(0, 8, "first", 1), ArenaBlock(16, 13, "", 0)), 2)


def from_card(**expect: str) -> Arena | None:
    """The arena with these expected values of the struct ``a``."""
    values = tuple(Expectation(f"a.{name}", value) for name, value in expect.items())
    return arena_from_card(RECIPE, Snapshot("s", "A snapshot", Stop("a.c", 3, "x", None, 1), values, ()))


def test_a_reading_is_sorted_and_divided_into_regions() -> None:
    assert arena_from_reading(READING) == ARENA
    assert [(region.use, region.start, region.end, region.name) for region in regions(ARENA)] == [
        ("used", 0, 8, "first"),
        ("padding", 8, 16, "padding"),
        ("used", 16, 29, "block 0"),
        ("free", 29, 40, "free again"),
        ("free", 40, 64, "free"),
    ]


def test_an_invalid_reading_gives_no_arena() -> None:
    blocks: tuple[Any, ...] = (7, [{"offset": 1}], ["text"])
    broken = [{"size": 0}, {"used": -1}, {"used": "many"}, {"base": None}, *({"blocks": each} for each in blocks)]
    assert [each for each in broken if arena_from_reading(READING | each) is not None] == []
    assert arena_from_reading({}) is None


def test_an_arena_has_the_values_that_the_snapshot_expects() -> None:
    full = {"base": "0x1000", "size": "64", "used": "29", "high": "40", "n": "2", "other": "x"}
    first = {"log[0].at": "0", "log[0].n": "8", "log[0].label": '"first"', "log[1].at": "16"}
    assert from_card(**full, **first) == Arena(4096, 64, 29, 40, (ArenaBlock(0, 8, "first", 0),), 2)
    assert from_card(used="8") == Arena(None, None, 8, None, (), 0)
    for without in ({}, {"size": "64"}, {"used": "-3"}, {"used": '"eight"'}, {"used": "9" * 400}):
        assert from_card(**without) is None


def test_a_block_without_an_expected_value_is_no_padding_and_keeps_its_number() -> None:
    for expect, zones in (
        (
            {"log[0].n": "7", "log[1].at": "8", "log[1].n": "16", "log[3].at": "40", "log[3].n": "8", "log[2].n": "9"},
            [("used", 8, "in use"), ("used", 24, "block 1"), ("used", 40, "in use"), ("used", 48, "block 3")],
        ),
        (
            {"log[0].at": "0", "log[0].n": "7", "log[1].at": "8", "log[1].n": "8", "log[3].at": "16", "log[3].n": "8"},
            [("used", 7, "block 0"), ("padding", 8, "padding"), ("used", 16, "block 1"), ("used", 24, "block 3"),
             ("used", 48, "in use")],
        ),
    ):  # fmt: skip
        arena = from_card(used="48", n="4", **expect)
        assert arena is not None
        found = [(region.use, region.end, region.name) for region in regions(arena)]
        assert found == [*zones, ("free", None, "free")]
        assert memory_map("k", "Some", arena, Room(60, 100)).description == "48 bytes used, 4 blocks"


SIZES = st.none() | st.integers(0, 150)
BLOCKS = st.builds(ArenaBlock, st.integers(0, 99), st.integers(-2, 40), st.just(""), st.integers(0, 9))


@given(st.lists(BLOCKS, max_size=9), SIZES, SIZES, SIZES, st.integers(0, 12))
def test_regions_have_no_gap_and_lose_no_block(
    blocks: list[ArenaBlock], size: int | None, used: int | None, water: int | None, count: int
) -> None:
    ordered = tuple(sorted(blocks, key=lambda block: block.offset))
    found = regions(Arena(None, size, used, water, ordered, count))
    assert found[0].start == 0
    assert all(before.end == after.start for before, after in pairwise(found))
    assert all(region.size >= 0 for region in found)
    assert sum(region.name.startswith("block") for region in found) == len(blocks)


def test_many_blocks_are_folded_in_the_middle() -> None:
    blocks = tuple(ArenaBlock(4 * place, 4, f"b{place}", place) for place in range(990))
    diagram = memory_map("k", "Many", Arena(None, 4000, 3990, None, blocks, len(blocks)), Room(60, 100))
    (folded,) = [node for node in diagram.nodes if node.shape == "folded"]
    shown = sum(node.title.startswith("b") for node in diagram.nodes)
    assert shown > 10
    assert folded.title.startswith(f"{990 - shown} more blocks: ")
    assert diagram.nodes[0].title == "b0: 4 bytes at offset 0"
    assert diagram.nodes[-1].title == "free: 10 bytes at offset 3990"


def test_marks_are_placed_between_regions_and_a_strip_labels_those_with_enough_space() -> None:
    diagram = memory_map("k", "Two", ARENA, Room(80, 100))
    tops = {node.title.split(":")[0]: node.box.y for node in diagram.nodes}
    assert {mark.kind: mark.start.y for mark in diagram.marks} == {"pointer": tops["free again"], "water": tops["free"]}
    assert diagram.description == "29 of 64 bytes used (45%), 2 blocks, high water 40"
    nodes = strip("k", "Two", ARENA, 70).nodes
    labels = [[line.text for line in node.lines] for node in nodes]
    assert labels == [["first"], [], ["block 0"], ["free again"], ["free"]]
    assert nodes[1].title == "padding: 8 bytes at offset 8"
