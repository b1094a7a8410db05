"""Evaluates an expression, in which the elements of containers have names: ``names[1]``, ``items["saw"]``, ``*opt``,
``owner->next``, ``size(names)``.

gdb would call the program's operators for these. So each part of the expression that names an element is replaced by a
convenience variable of gdb, which holds the element; gdb evaluates the rest. A macro is expanded before.
"""

from __future__ import annotations

import re
from itertools import islice

import gdb

from cardapp.card.expression import called, fault, tokens
from cardapp.session_host.gdb_plugin import rendering, rust_values
from cardapp.session_host.gdb_plugin.content import Content

_NAME = re.compile(r"[A-Za-z_]\w*")
_COUNTS = re.compile(r"\bsize\s*\(")
_NAMES_ELEMENT = re.compile(rf"\[|\*|->|{_COUNTS.pattern}")
_PREFIXES = ("*", "&", "-", "+", "!", "~")
_ELEMENT = "$_cardapp_element"
_NAMED = re.compile(rf"\(\*({re.escape(_ELEMENT)}\d+)\)|({re.escape(_ELEMENT)}\d+)")
_NO_SYMBOL = re.compile(r'No symbol "(\w+)" in current context')


def evaluate(expression: str) -> gdb.Value:
    """The value of the expression in the selected frame.

    :raises gdb.error: it cannot be evaluated, calls a function, or names an element that does not exist.
    """
    if rust_values.in_rust():
        for name in _NAME.findall(expression):
            symbol = gdb.lookup_symbol(name)[0]
            if symbol is not None and symbol.type is not None:
                rust_values.check_readable(symbol.type)
    if "dynamic_cast" in expression:
        raise gdb.error(f"{expression}: gdb does not read a dynamic_cast right; write (T *)p")
    if called(expression):
        expression = _expanded(expression)
    if (_NAMES_ELEMENT if _has_containers() else _COUNTS).search(expression) is None:
        return gdb.parse_and_eval(expression)
    rewriting = _Rewriting(expression)
    try:
        return gdb.parse_and_eval(rewriting.text())
    except gdb.error as error:
        raise gdb.error(rewriting.as_written(str(error))) from error
    finally:
        rewriting.forget_elements()


def explained(message: str) -> str:
    """gdb's message, and what may help where a name is unknown."""
    unknown = _NO_SYMBOL.search(message)
    return message if unknown is None else message.removesuffix(".") + _if_macro(unknown[1])


def _if_macro(name: str) -> str:
    """The end of a message about an unknown name: without -g3 gdb knows no macros. Rust has none."""
    is_unknown = not rust_values.in_rust() and "__STDC__=" not in _output("info macro -- __STDC__")
    return f"; if {name} is a macro, build with -g3" if is_unknown else ""


def _has_containers() -> bool:
    """Whether the language of the selected frame has any. C has none, and its expressions are read most often."""
    try:
        return str(gdb.selected_frame().language()) not in ("c", "asm")
    except gdb.error:
        return False


def _expanded(expression: str) -> str:
    """The expression without its macros, which must not hide an assignment or a call."""
    macros = [name for name in called(expression) if f"#define {name}(" in _output(f"info macro -- {name}")]
    if (reason := fault(expression, macros)) is not None:
        unknown = next((name for name in called(expression) if reason.startswith(f"calls {name}:")), None)
        raise gdb.error(f"{expression} {reason}{'' if unknown is None else _if_macro(unknown)}")
    expanded = _output(f"macro expand {expression}").removeprefix("expands to:").strip()
    if (reason := fault(expanded)) is not None:
        raise gdb.error(f"{expression} expands to {expanded}, which {reason}")
    return expanded


def _output(command: str) -> str:
    return str(gdb.execute(command, to_string=True))


class _Rewriting:
    """Replaces the elements in one expression. The methods read its tokens in order and return text for gdb."""

    def __init__(self, expression: str) -> None:
        self._tokens = [token for _, token in tokens(expression)]
        self._at = 0
        self._elements: dict[str, str] = {}
        """The part of the expression that each name of an element replaces."""

    def text(self, end: str = "") -> str:
        """The rest of the expression, or what stands before the token ``end``, which closes a bracket."""
        parts = []
        while self._next() not in ("", end):
            parts.append(self._operand())
            if self._next() not in ("", end) and not self._is_operand():
                parts.append(self._take())
        return " ".join(parts)

    def as_written(self, message: str) -> str:
        """A message about the text, in the words of the expression."""
        while (found := _NAMED.search(message)) is not None:
            message = message.replace(found[0], self._elements[found[1] or found[2]])
        return message

    def forget_elements(self) -> None:
        for name in self._elements:
            gdb.set_convenience_variable(name.removeprefix("$"), None)

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_operand(self) -> bool:
        return self._next()[0] in "\"'$_(." or self._next()[0].isalnum()

    def _operand(self) -> str:
        """An operand with the operators before and behind it."""
        if self._next() in _PREFIXES:
            return self._prefixed(self._take())
        operand = self._primary()
        while self._next() in ("[", ".", "->"):
            operand = self._part(operand, self._take())
        return operand

    def _prefixed(self, operator: str) -> str:
        operand = self._operand() if self._next() else ""
        content = _contents(operand) if operator == "*" else None
        if content is None or content.kind != "holder":
            return f"{operator}{operand}"
        return self._held(operand, content)

    def _primary(self) -> str:
        token = self._take()
        if token == "(":
            return f"({self._closed(')')})"
        while self._next() == "::" or (token.endswith("::") and self._next()):
            token += self._take()
        if self._next() == "(" and (token[0].isalpha() or token[0] in "$_"):
            self._take()
            argument = self._closed(")")
            return _size(argument) if token == "size" else f"{token}({argument})"
        return token

    def _closed(self, end: str) -> str:
        """The text up to the token that closes a bracket."""
        inner = self.text(end)
        if self._next() == end:
            self._take()
        return inner

    def _part(self, operand: str, operator: str) -> str:
        """A member or an element of the operand."""
        content = _contents(operand) if operator != "." else None
        if operator == "[":
            content = _inside(content)
            index = self._closed("]")
            return f"{operand}[{index}]" if content is None else self._element(operand, content, index)
        if content is not None and content.kind == "holder":
            operand, operator = self._held(operand, content), "."
        return f"{operand}{operator}{self._take() if self._next() else ''}"

    def _held(self, operand: str, content: Content) -> str:
        for _, value in content.items:
            return self._named(value, f"*{operand}")
        raise gdb.error(f"{operand} is empty")

    def _element(self, operand: str, content: Content, index: str) -> str:
        if content.kind == "map":
            # To evaluate the literal of a text, gdb would write it into the program's memory.
            wanted = index if index.startswith('"') else rendering.text(gdb.parse_and_eval(index))
            for key, value in content.items:
                if key is not None and rendering.text(key) == wanted:
                    return self._named(value, f"{operand}[{index}]")
            known = "" if content.size <= rendering.MAX_READ else f" among the first {rendering.MAX_READ}"
            raise gdb.error(f"{operand} has no key {index}{known}")
        number = int(gdb.parse_and_eval(index))
        for _, value in islice(content.items, number, number + 1) if number >= 0 else ():
            return self._named(value, f"{operand}[{index}]")
        if 0 <= number < content.size:
            raise gdb.error(f"{operand}: element {index} is behind the first {rendering.MAX_READ}; no others are read")
        raise gdb.error(f"{operand} has no element {index}: its size is {content.size}")

    def _named(self, value: gdb.Value, written: str) -> str:
        """The value as an operand: a place in memory where it is one."""
        name = f"{_ELEMENT}{len(self._elements)}"
        self._elements[name] = written
        gdb.set_convenience_variable(name.removeprefix("$"), value if value.address is None else value.address)
        return name if value.address is None else f"(*{name})"


def _contents(operand: str) -> Content | None:
    try:
        return rendering.contents(gdb.parse_and_eval(operand))
    except gdb.error:  # a type, or gdb's message is repeated when it evaluates the whole expression
        return None


def _inside(content: Content | None) -> Content | None:
    """The content of the container that a holder holds, as a reference in Rust does."""
    while content is not None and content.kind == "holder":
        content = next((rendering.contents(value) for _, value in content.items), None)
    return content


def _size(operand: str) -> str:
    content = _inside(_contents(operand))
    if content is not None:
        return str(content.size)
    kind = gdb.parse_and_eval(operand).type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_ARRAY:
        raise gdb.error(f"size({operand}): {operand} is neither a container nor an array")
    low, high = kind.range()
    if kind.sizeof == 0 and high >= low:
        raise gdb.error(f"size({operand}): the type of {operand} does not say how many it has")
    return str(high - low + 1)
