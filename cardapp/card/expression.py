"""Decides which expressions may be evaluated at a stop: those that neither assign nor call.

This is the first barrier. It reads an expression token by token, like C, C++ and Rust, and needs no program. The second
barrier is in gdb, which evaluates with ``may-call-functions off`` and ``may-write-memory off``: ``(char *)(p + 1)`` may
be a cast or a call, and only gdb knows the types. A function-like macro calls nothing itself: gdb's side looks at what
it expands to. gdb's Python loads this module, so it needs the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_TOKEN = re.compile(
    r"""
    \s+
  | (?P<text> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])+' )
  | (?P<name> [A-Za-z_$][A-Za-z0-9_$]* )
  | (?P<number> \.?[0-9][0-9A-Za-z_.]* )  # without the sign of an exponent: gdb reads 0xe+n as a sum
  | (?P<operator> <<=|>>=|<=>|->\*|\.\.=|\+\+|--|->|<<|>>|<=|>=|==|!=|=>|&&|\|\||[-+*/%&|^]=|:: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "and_eq", "or_eq", "xor_eq"}
_STEPS = {"++", "--"}
_SHELL = "$_shell"
"""A built-in function of gdb that runs a command. gdb can call it even when it may not call functions of the
program."""
_NOT_CALLED = frozenset(
    [
        "size",
        "not",
        "and",
        "or",
        "xor",
        "compl",
        "bitand",
        "bitor",
        "sizeof",
        "alignof",
        "_Alignof",
        "typeof",
        "__typeof__",
        "decltype",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "float",
        "double",
        "signed",
        "unsigned",
        "void",
        "wchar_t",
        "char8_t",
        "char16_t",
        "char32_t",
    ]
)
"""Names before a parenthesis that call nothing: operators, types of a cast as C++ writes it, and ``size``, which counts
the elements of a container."""


def fault(expression: str, macros: Collection[str] = ()) -> str | None:
    """Why the expression may not be evaluated, as a predicate: "assigns (=)…". None if it may be. ``macros`` are the
    names of function-like macros."""
    for before, token in _with_token_before(expression):
        if token in _ASSIGNMENTS:
            return f"assigns ({token}): an expression must not change the program"
        if token in _STEPS:
            return f"changes a variable ({token}): an expression must not change the program"
        if token == _SHELL:
            return f"calls {_SHELL}: an expression must not run a command"
        if token == "(" and _may_be_called(before) and before not in macros:
            return f"calls {before if before != ']' else 'a function'}: an expression must not run code of the program"
    return None


def called(expression: str) -> list[str]:
    """The names before a parenthesis that are functions or function-like macros."""
    pairs = _with_token_before(expression)
    return [before for before, token in pairs if token == "(" and before != "]" and _may_be_called(before)]


def tokens(expression: str) -> Iterator[tuple[str, str]]:
    """``(kind, token)`` of each token; the kinds are text, name, number and operator."""
    for match in _TOKEN.finditer(expression):
        if match.lastgroup is not None:
            yield match.lastgroup, match.group()


def _may_be_called(before: str) -> bool:
    return before == "]" or ((before[:1].isalpha() or before[:1] in ("_", "$")) and before not in _NOT_CALLED)


def _with_token_before(expression: str) -> Iterator[tuple[str, str]]:
    """Each token behind the name or operator before it, which is "" if a number, a text or nothing stands there."""
    before = ""
    for kind, token in tokens(expression):
        yield before, token
        before = token if kind in ("name", "operator") else ""
