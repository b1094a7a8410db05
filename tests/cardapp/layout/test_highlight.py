"""Code is split into pieces of one kind each. No character is lost, and the keywords of each language are found."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardapp.layout import highlight, layout_options
from cardapp.layout.escape import visible
from cardapp.layout.font_metrics import TAB, chop
from cardapp.layout.highlight import Piece, SourceFile, block, segmented, text_of
from tests.cardapp.layout.hostile import LINES, SNIPPETS, shipped

C = ["#include <a.h>", "/* a", " * b */", "static int x = 0x1f; // d", 'char *s = "a\\tb";', "", "\treturn x;"]


def test_each_piece_has_its_kind() -> None:
    assert SourceFile("a.c", C).lines(1, 99) == (
        (Piece("#include ", "keyword"), Piece("<a.h>", "string")),
        (Piece("/* a", "comment"),),
        (Piece(" * b */", "comment"),),
        (
            Piece("static ", "keyword"), Piece("int ", "type"), Piece("x = "), Piece("0x1f", "number"), Piece("; "),
            Piece("// d", "comment"),
        ),
        (Piece("char ", "type"), Piece("*s = "), Piece('"a\\tb"', "string"), Piece(";")),
        (),
        (Piece("    "), Piece("return ", "keyword"), Piece("x;")),
    )  # fmt: skip


def test_a_line_within_a_comment_that_began_above_is_a_comment() -> None:
    assert SourceFile("a.c", C).lines(3, 3) == ((Piece(" * b */", "comment"),),)


@pytest.mark.parametrize(
    ("name", "line"),
    [("a.h", "return 1;"), ("a.cpp", "return 1;"), ("b/a.rs", "return 1;"), ("a.py", "return 1"), ("Makefile", "# x")],
)
def test_the_language_is_known_by_the_files_name(name: str, line: str) -> None:
    assert any(piece.kind for piece in SourceFile(name, [line]).lines(1, 1)[0])


@pytest.mark.parametrize("name", ["a.nothing", "README", ""])
def test_an_unknown_language_has_no_kinds(name: str) -> None:
    assert SourceFile(name, ["return\t1;", ""]).lines(1, 2) == ((Piece("return  1;"),), ())


def test_the_language_of_a_block_is_the_first_word_of_its_info() -> None:
    assert block("return 1;", "c numbered")[0][0] == Piece("return ", "keyword")
    assert block("return 1;", "") == block("return 1;", "nothing") == ((Piece("return 1;"),),)


@pytest.mark.parametrize("name", ["a.c", "a.cpp", "a.rs", "a.py", "Makefile", "a.txt"])
@settings(deadline=None)
@given(lines=st.lists(LINES | st.sampled_from([each for each in SNIPPETS if "\n" not in each]), max_size=6))
def test_every_character_is_kept(name: str, lines: list[str]) -> None:
    read = SourceFile(name, lines).lines(1, len(lines))
    assert list(map(text_of, read)) == [visible(line).expandtabs(TAB) for line in lines]
    for line in read:
        pieces = segmented(line, chop(text_of(line), 9))
        assert [text_of(piece) for piece in pieces] == list(chop(text_of(line), 9))
        assert {each.kind for piece in pieces for each in piece} == {each.kind for each in line}


@pytest.mark.parametrize("name", ["arena", "calc"])
def test_the_code_of_the_shipped_cards_is_coloured(name: str) -> None:
    loaded = shipped(name)
    for file, lines in loaded.sources().items():
        kinds = {piece.kind for line in SourceFile(file, lines).lines(1, len(lines)) for piece in line}
        assert kinds >= {"keyword", "type"}, file


def test_every_kind_has_a_colour() -> None:
    kinds = {kind for _, kind in highlight._KINDS}
    assert {f"code_{kind}" for kind in kinds} == {name for name in layout_options.COLORS if name.startswith("code_")}


def test_an_excerpt_of_a_big_file_is_read_alone_and_in_time() -> None:
    file = SourceFile("a.c", ["int a[] = { 1, 2, 3 };"] * 100_000)
    started = time.process_time()
    assert file.lines(99_999, 100_000)[1][0] == Piece("int ", "type")
    assert time.process_time() - started < 1
