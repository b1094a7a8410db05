"""Cards for the sheet model: one of any size, and a strategy that makes any card, with texts that are hard to split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from cardapp.card import model

IDENTITY = model.Identity("any", "11111111-2222-3333-4444-555555555555", "1.0.0", hashlib.sha256(b"any").hexdigest())
SOURCES = {"a.c": [f"\tint line_{number};" + " /* long */" * (number % 17) for number in range(1, 41)]}


def card(tasks: tuple[model.Task, ...], text: str = "") -> model.Card:
    target = model.Target("any", "src", ("make",), "any", ("a.c",))
    allocator = model.AllocatorRecipe("a.base", "a.size", "a.used", None, None)
    return model.Card("any", IDENTITY.uuid, "1.0.0", "Any card", text, "en", "karta-classic", target, allocator, tasks)


def with_steps(
    *steps: model.Step, blocks: int = 1, goal: str = "Goal.", text: str = "", phase_text: str = ""
) -> model.Card:
    """A card with one task, whose ``blocks`` blocks have one phase with these steps."""
    phases = (model.Phase("p", "A phase", phase_text, steps),)
    return card(
        (
            model.Task(
                "t", "A task", "", tuple(model.Block(f"b{n}", "A block", goal, text, phases) for n in range(blocks))
            ),
        )
    )


def with_snapshot(*expect: model.Expectation, hits: int = 1) -> model.Card:
    """A card with one step and one stop."""
    stop = model.Stop("a.c", 5, "int", None, hits)
    return with_steps(
        model.Step("s", "A step", "", "", None, (model.Snapshot("n", "The snapshot", stop, expect, ()),)), goal=""
    )


def growing(blocks: int, steps: int = 3, text: str = "Some *text* of `code`. " * 12) -> model.Card:
    """A card of ordinary steps with this text. ``blocks`` and ``steps`` set its size."""
    expect = (model.Expectation("a.used", "8"), model.Expectation("a.size", "64"))
    snapshot = model.Snapshot("n", "The snapshot", model.Stop("a.c", 5, "int", None, 2), expect, ("p",))
    step = ("A step", text, "What is it?", model.CodeRange("a.c", 3, 9), (snapshot,))
    return with_steps(*(model.Step(f"s{number}", *step) for number in range(steps)), blocks=blocks)


_IDS = st.sampled_from(["a", "b", "c-d", "e9"])
TITLES = st.one_of(
    st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.sampled_from([
        "W" * 300, "שלום עולם", "مرحبا", "👩‍👩‍👧 family", "漢字かな交じり文" * 9, "e\u0301" * 50, "\u202e\x00\t\n<b>&",
    ]),
)  # fmt: skip
_WORDS = st.sampled_from([
    "plain words", "**strong** and `code`", "x" * 300, "مرحبا بالعالم", "日本語の文章", "emoji 🙂🏳️‍🌈",
    "<script>alert(1)</script>", "- one\n- two\n  - three", "1. first\n2. second", "> quoted\n> > twice", "# Heading",
    "```c\nint a;\n\tb;\n```", "    indented code", "word " * 90, "---", "| a | bc |\n|--:|:-:|\n| d | `e` |\n| fg | |",
    "a\\\nb", "[x](https://example.org)",
])  # fmt: skip
TEXTS = st.lists(_WORDS, max_size=6).map("\n\n".join)
_LONG = st.sampled_from(["", "", "", "word " * 1500, "- item\n" * 200, "```\n" + "line\n" * 200 + "```", "y" * 10_000])
_FILES = st.sampled_from(["a.c", "a_long_name.c" * 9])
_EXPECT = st.lists(
    st.builds(model.Expectation, st.sampled_from(["a.used", "a.size", "n" * 200]), st.sampled_from(["1", "v" * 700])),
    max_size=4,
)
_Draw = st.DrawFn
_Made = TypeVar("_Made")


@st.composite
def cards(draw: _Draw) -> model.Card:
    """Any card. It is drawn by functions and not built by strategies, so a failing example is printed quickly."""
    return card(_several(draw, 2, _task), draw(TEXTS))


def _several(draw: _Draw, most: int, make: Callable[[_Draw, str], _Made]) -> tuple[_Made, ...]:
    """Make one to ``most`` items, each with a different id."""
    return tuple(make(draw, key) for key in draw(st.lists(_IDS, min_size=1, max_size=most, unique=True)))


def _task(draw: _Draw, key: str) -> model.Task:
    return model.Task(key, draw(TITLES), draw(TEXTS), _several(draw, 2, _block))


def _block(draw: _Draw, key: str) -> model.Block:
    return model.Block(key, draw(TITLES), draw(TEXTS), draw(_LONG), _several(draw, 2, _phase))


def _phase(draw: _Draw, key: str) -> model.Phase:
    return model.Phase(key, draw(TITLES), draw(TEXTS), _several(draw, 3, _step))


def _step(draw: _Draw, key: str) -> model.Step:
    code = None
    if draw(st.booleans()):
        first = draw(st.integers(1, 45))
        code = model.CodeRange("a.c", first, first + draw(st.integers(0, 30)))
    return model.Step(key, draw(TITLES), draw(TEXTS), draw(TEXTS | _LONG), code, _several(draw, 2, _snapshot))


def _snapshot(draw: _Draw, key: str) -> model.Snapshot:
    hits = draw(st.integers(1, 22))
    at_line = draw(st.booleans())
    stop = model.Stop(draw(_FILES), draw(st.integers(1, 60)), draw(TITLES), None, hits) if at_line else None
    return model.Snapshot(
        key,
        draw(TITLES),
        stop or model.Stop(None, None, None, "main", hits),
        tuple(draw(_EXPECT)),
        tuple(draw(st.lists(TITLES, max_size=3))),
    )
