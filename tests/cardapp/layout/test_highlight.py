"""Code is split into pieces of one kind each. No character is lost, and the keywords of each language are found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cardapp.layout.escape import visible
from cardapp.layout.font_metrics import TAB, chop
from cardapp.layout.highlight import Piece, SourceFile, block, segmented, text_of
from cardapp.layout.layout_options import COLORS
from tests.cardapp.layout.hostile import LINES, SNIPPETS

C = ["#include <a.h>", "/* a", " * b */", "static int x = 0x1f; // d", 'char *s = "a\\tb";', "", "\treturn x;"]


def test_each_piece_has_its_kind() -> None:
    found = SourceFile("a.c", C).lines(1, 99)
    assert found == (
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
    assert SourceFile("a.c", C).lines(3, 3) == ((Piece(" * b */", "comment"),),)  # the comment began above
    kinds = {f"code_{piece.kind}" for line in found for piece in line if piece.kind}
    assert kinds == {name for name in COLORS if name.startswith("code_")}


def test_the_language_is_known_by_the_files_name_or_the_blocks_info() -> None:
    for name in ("a.h", "a.cpp", "b/a.rs", "a.py"):
        assert Piece("return ", "keyword") in SourceFile(name, ["return 1"]).lines(1, 1)[0], name
    assert SourceFile("Makefile", ["# x"]).lines(1, 1) == ((Piece("# x", "comment"),),)
    for name in ("a.nothing", "README", ""):
        assert SourceFile(name, ["return\t1;", ""]).lines(1, 2) == ((Piece("return  1;"),), ()), name
    assert block("return 1;", "c numbered")[0][0] == Piece("return ", "keyword")
    assert block("return 1;", "") == block("return 1;", "nothing") == ((Piece("return 1;"),),)


@given(
    name=st.sampled_from(["a.c", "a.cpp", "a.rs", "a.py", "Makefile", "a.txt"]),
    lines=st.lists(LINES | st.sampled_from([each for each in SNIPPETS if "\n" not in each]), max_size=6),
)
def test_every_character_is_kept(name: str, lines: list[str]) -> None:
    read = SourceFile(name, lines).lines(1, len(lines))
    assert list(map(text_of, read)) == [visible(line).expandtabs(TAB) for line in lines]
    for line in read:
        pieces = segmented(line, chop(text_of(line), 9))
        assert [text_of(piece) for piece in pieces] == list(chop(text_of(line), 9))
        assert {each.kind for piece in pieces for each in piece} == {each.kind for each in line}
