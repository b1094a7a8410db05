"""An expression that assigns or calls is refused before gdb sees it."""

from __future__ import annotations

from cardapp.card.expression import fault

READING = (
    "a.log[$i].offset", "a == b", "x != (y)", "p->n <= 3", "a - -b", "1e-3 + x", "*(int *)p", "(char *)(p + 1)",
    "sizeof(*p)", "sizeof *$node", "int(x)", "'='", '"a=b; f(1)"', "shop::count", "argv[1]@2", "$rip", "&v.data[0]",
    "0xe+n", "1e+3", "not (x) and (y)",
)  # fmt: skip
REFUSED = {
    "n = 4": "assigns (=)",
    "$rip=0": "assigns (=)",
    "n <<= 2": "assigns (<<=)",
    "a == (b = 1)": "assigns (=)",
    "n++": "changes a variable (++)",
    "a--b": "changes a variable (--)",
    "0xe+size++": "changes a variable (++)",
    "0xe+size--": "changes a variable (--)",
    "0xe+f(1)": "calls f",
    "flags or_eq 1": "assigns (or_eq)",
    "$rax and_eq 0": "assigns (and_eq)",
    "n xor_eq 3": "assigns (xor_eq)",
    "abort()": "calls abort",
    "shop::total(3)": "calls total",
    "table[0](2)": "calls a function",
    '$_shell("date")': "calls $_shell",
    '($_shell)("date")': "calls $_shell",
}


def test_an_expression_that_only_reads_is_evaluated() -> None:
    assert [each for each in READING if fault(each) is not None] == []


def test_an_expression_that_assigns_or_calls_is_refused() -> None:
    assert [each for each, said in REFUSED.items() if not str(fault(each)).startswith(said)] == []
