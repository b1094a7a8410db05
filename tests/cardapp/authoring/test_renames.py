"""A renamed function is found by the lines of its excerpt, and nothing else is taken for one."""

from __future__ import annotations

from cardapp.authoring.renames import find_renames
from cardapp.card import anchors
from cardapp.card.draft import Part
from cardapp.card.model import CodeRange, Snapshot, Step, Stop

C = [
    "static int",
    "total(int n)",
    "{",
    "    return n ? n + total(n - 1) : 0;",
    "}",
    "int main(void) { return total(3); }",
]
CPP = ["int Cart::total(int n) const {", "    return n;", "}", "int main() { return Cart().total(3); }"]
RUST = ["fn total<T: Copy>(n: T) -> T {", "    n", "}", "fn main() { total(3); }"]


def parts(file: str, lines: list[str], last: int, function: str | None, stop: str) -> list[Part]:
    """A step whose excerpt has the first lines of the file up to ``last``, and a snapshot at a function."""
    code = anchors.anchored(CodeRange(file, 1, last, function=function), lines)
    step = Step("s", "s", "", "", code, ())
    snapshot = Snapshot("x", "x", Stop(None, None, None, stop, 1), (), ())
    return [Part("s", "/s", step), Part("s/x", "/s/x", snapshot)]


def test_the_new_name_is_found_in_every_language_and_keeps_its_scope() -> None:
    for file, lines, last, function, stop, now in (
        ("a.c", C, 5, "total", "total", "sum"),
        ("a.cpp", CPP, 3, "Cart::total", "Cart::total(int) const", "Cart::sum(int) const"),
        ("a.cpp", CPP, 3, None, "Cart::total", "Cart::sum"),  # the stop names what the excerpt shows
        ("a.rs", RUST, 3, "total", "prog::total", "prog::sum"),
    ):
        card = parts(file, lines, last, function, stop)
        assert find_renames(card, {file: lines}).names == {}
        renamed = ["// more", *(line.replace("total", "sum") for line in lines)]
        found = find_renames(card, {file: renamed})
        assert found.names == {"total": "sum"}, file
        assert found.of_function(stop) == now
        assert found.of_function("main") is None
        assert found.before(renamed)[1:] == lines
        assert found.now("total(3) + totals") == "sum(3) + totals"


def test_another_function_is_not_taken_for_it() -> None:
    card = parts("a.c", C, 5, "total", "total")
    renamed = [line.replace("total", "sum") for line in C]
    for lines in (
        [line.replace("n + ", "n * ") for line in renamed],  # another body
        [*renamed, *(line.replace("n + ", "n - ") for line in C[:5])],  # the old name has another definition
        C[5:],
    ):
        assert find_renames(card, {"a.c": lines}).names == {}, lines
