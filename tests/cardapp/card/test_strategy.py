"""Which commands a strategy may have, and when their output counts as the expected output."""

from __future__ import annotations

from cardapp.card.strategy import COMMANDS, fault, is_observed

ALLOWED = (
    "print n", "print/x n", "print -5 + 3", "print $_siginfo", "info locals", "info line main", "info symbol &n",
    "backtrace", "backtrace full", "backtrace -3", "x/8xb &n", "x/s name", "ptype struct node", "ptype/o struct node",
    "list", "list main", "list main.c:3,9", "frame", "frame 2", "frame function main", "up", "up 2", "down", "next",
    "next 3", "step", "finish", "until", "until 45",
    "until main.c:45", "continue", "continue 2", "display n", "display/i $pc", "tbreak main",
    "tbreak main.c:3 if n == 4", "output n", "output/x n",
)  # fmt: skip
REFUSED = {
    "": "begins with ''",
    "p n": "begins with 'p'",
    "inf locals": "begins with 'inf'",
    "!true": "begins with '!true'",
    "| print n | cat": "begins with '|'",
    "next&": "begins with 'next&'",
    "printf n": "begins with 'printf'",
    "print/x/s n": "has '/x/s'",
    "next/s": "has '/s'",
    "frame apply all print n": "has arguments",
    "finish 3": "has arguments",
    "backtrace full main": "has arguments",
    "print n\nnext": "has arguments",
    "until n = 3": "assigns",
    "list f()": "calls f",
    "info line f()": "calls f",
    "tbreak main if n++": "changes a variable",
}


def test_only_commands_that_look_or_step_are_allowed() -> None:
    assert [command for command in ALLOWED if fault(command) is not None] == []
    assert {command.split("/")[0].split()[0] for command in ALLOWED} == set(COMMANDS)
    assert [command for command, said in REFUSED.items() if not str(fault(command)).startswith(said)] == []


def test_what_was_printed_is_compared() -> None:
    for command, expected, output, right in (
        ("print n", "48", "$7 = 48", True),
        ("print n", "0x30", "$7 = 48", True),
        ("print n", "4", "$7 = 48", False),
        ("print n", "$1 = 48", "$7 = 48", True),
        ("print name", '"ada"', '$1 = 0x5555 "ada"', True),
        ("print n", 'No symbol "n" in current context.', 'No symbol "n" in current context.', True),
        ("display n", "48", "1: n = 48", True),
        ("display/x n", "48", "2: /x n = 0x30", True),
        ("output n", "48", "48", True),
        ("backtrace", "main", "#0  main () at a.c:3", True),
        ("backtrace", "mai", "#0  main () at a.c:3", False),
        ("backtrace", "main ()\nat a.c:3", "#0  main () at a.c:3", True),
        ("info locals", "n = 4", "n = 48\nm = 4", False),
    ):
        assert is_observed(command, expected, output) is right, (command, expected)
