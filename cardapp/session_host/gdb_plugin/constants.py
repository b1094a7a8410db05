"""Evaluates what a learner predicts with the program's types and constants: ``MAX_ITEMS - 1``, ``sizeof(struct node)``,
``RED``. Nothing is read from the program: each name must be a type, a constant or a macro of these.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin.frames import frame_with_source
from cardapp.session_host.gdb_plugin.values import read_only, setting

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<value>[LuU]?'(?:\\.[^']*|[^'\\])' | \.?\d[\w.']*)
      | (?P<name>(?:::\s*)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)
      | (?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:()])
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_TYPE_WORDS = {
    "bool", "_Bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "void", "struct", "union",
    "enum", "class", "const", "volatile",
}  # fmt: skip
_UNARY_WORDS = {"sizeof": "s", "alignof": "s", "_Alignof": "s"}
_VALUE_WORDS = frozenset({"true", "false"})
_CAST = re.compile(r"\(T+\**\)")
_TYPE_OF = re.compile(r"__typeof__\s*\(\s*([\w:]+)\s*\)")
"""The type of a constant, to which a cast makes an enumerator of its number."""
_READS_MEMORY = re.compile(r"(?:^|[^N)])[*&]")
"""A ``*`` or ``&`` that stands before its only operand."""
_CALLS = re.compile(r"[N)]\(|[-+]{2}|->")
_MAX_EXPANDED = 2000


def constants(texts: list[str]) -> dict[str, dict[str, Any]]:
    """Return ``{text: {value, number}}`` for each text that is a constant expression of the program.

    ``value`` is as gdb prints it, for example the name of an enumerator; ``number`` is its integer, None for a floating
    point number. The names are those that the innermost frame with source sees or, without a process, the program.
    """
    frame = frame_with_source() if gdb.selected_inferior().pid else None
    if frame is not None:
        frame.select()
    else:
        with contextlib.suppress(gdb.error):
            gdb.execute("list main", to_string=True)  # a macro needs a place: this is the one before the program runs
    found = {}
    with read_only(), setting("output-radix", "10"):
        for text in texts:
            with contextlib.suppress(gdb.error, RuntimeError, OverflowError, ValueError):
                found[text] = _constant(text)
    return found


def _constant(text: str) -> dict[str, Any]:
    # A line break would begin another command of gdb.
    if not text.isprintable() or any(match.lastgroup == "other" for match in _TOKEN.finditer(text)):
        raise ValueError(f"{text!r} has a sign that no constant has")
    expanded = text
    if re.search(r"[A-Za-z_]", text) is not None:
        with contextlib.suppress(gdb.error):  # the language has no macros
            shown = str(gdb.execute(f"macro expand {text}", to_string=True))
            expanded = shown.removeprefix("expands to:").strip()
    if len(expanded) > _MAX_EXPANDED or not _is_constant(expanded):
        raise ValueError(f"{text} is no constant")
    return _shown(gdb.parse_and_eval(expanded))


def _is_constant(text: str) -> bool:
    """Whether the expression has types, constants and operators only, and follows no pointer."""
    text = _TYPE_OF.sub(lambda match: "int" if _sign_of(match[1]) == "N" else match[0], text)
    shape = ""
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "blank":
            continue
        sign = "N" if match.lastgroup == "value" else match[0]
        if match.lastgroup == "name":
            sign = _sign_of(match[0])
        elif sign in ("&&", "||"):
            sign = "+"  # as any operator between two values
        if match.lastgroup == "other" or sign == "":
            return False
        shape += sign
    plain = _CAST.sub("!", re.sub(r"s\(T+\**\)", "N", shape).replace("s", "!"))
    return _CALLS.search(plain) is None and _READS_MEMORY.search(plain) is None


def _sign_of(name: str) -> str:
    """``T`` for a type, ``N`` for a constant, ``s`` for ``sizeof``; "" for anything else."""
    if name in _UNARY_WORDS:
        return _UNARY_WORDS[name]
    if name in _TYPE_WORDS:
        return "T"
    if name in _VALUE_WORDS:
        return "N"
    symbol = _symbol(name)
    if symbol is not None and symbol.addr_class != gdb.SYMBOL_LOC_TYPEDEF:
        return "N" if symbol.addr_class == gdb.SYMBOL_LOC_CONST else ""
    return "T" if symbol is not None or _is_type(name) else ""


def _symbol(name: str) -> gdb.Symbol | None:
    with contextlib.suppress(gdb.error):  # without a frame
        if (found := gdb.lookup_symbol(name)[0]) is not None:
            return found
    return gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)


def _is_type(name: str) -> bool:
    for prefix in ("", "struct ", "union ", "enum "):
        with contextlib.suppress(gdb.error):
            gdb.lookup_type(prefix + name)
            return True
    return False


def _shown(value: gdb.Value) -> dict[str, Any]:
    code = value.type.strip_typedefs().code
    if code == gdb.TYPE_CODE_PTR:
        return {"value": hex(int(value)), "number": int(value)}
    if code == gdb.TYPE_CODE_FLT:
        return {"value": repr(float(value)), "number": None}
    if code not in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM):
        raise ValueError("this is no number")
    return {"value": str(value.format_string(raw=True)).strip(), "number": int(value)}
