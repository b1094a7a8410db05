"""An excerpt is found again after lines were inserted, and reported when its lines were changed."""

from __future__ import annotations

from cardapp.card.anchors import anchored, digest, holds, moved
from cardapp.card.model import CodeRange

LINES = ["int a;", "int f(void) {", "  return 1;", "}", ""]
CODE = anchored(CodeRange("a.c", 2, 4), LINES)


def test_the_digest_is_that_of_the_lines_joined_by_line_feeds() -> None:
    assert digest(["a", "b"]) == "7e18f737311b"  # printf 'a\nb' | sha256sum


def test_an_excerpt_without_an_anchor_always_holds() -> None:
    assert holds(CodeRange("a.c", 2, 4), ["x"] * 4)
    assert not holds(CodeRange("a.c", 2, 4), ["x"] * 3)


def test_a_changed_line_breaks_the_anchor() -> None:
    assert holds(CODE, LINES)
    assert not holds(CODE, [*LINES[:2], "  return 2;", "}"])
    assert not holds(CODE, ["int a;", "int f(int n) {", *LINES[2:]])


def test_moved_lines_are_found_again() -> None:
    found = moved(CODE, ["#include <stdio.h>", "", *LINES])
    assert found is not None
    assert (found.first, found.last, found.text, found.digest) == (4, 6, CODE.text, CODE.digest)


def test_the_nearest_of_several_places_is_taken() -> None:
    found = moved(CODE, [*LINES[1:4], "", *LINES[1:4], *[""] * 9, *LINES[1:4]])
    assert found is not None
    assert found.first == 1


def test_changed_lines_are_not_found() -> None:
    assert moved(CODE, ["", "int f(void) {", "  return 2;", "}"]) is None
    assert moved(CodeRange("a.c", 2, 4), ["", *LINES]) is None
