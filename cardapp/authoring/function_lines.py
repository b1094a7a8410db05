"""Finds the lines of a function in its source file, for C, C++ and Rust.

The lines are found in the text alone. A definition begins where the previous declaration ends, without the comments in
between, and ends at the brace that closes its body. So this also works for a program that was never built, or was built
without debug information. Definitions that a macro writes, and operators of C++, are not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cardapp.errors import InvalidValue

_C_TOKEN = re.compile(
    r"""
    (?P<skipped> \s+ | //[^\n]* | /\*.*?(?:\*/|\Z) | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'
      | (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)" )
  | (?P<directive> ^[ \t]*\#(?:\\\r?\n|[^\n])* )
  | (?P<token> \.?[0-9](?:'?[\w.])* | ~?[A-Za-z_$][\w$]* | :: | . )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_RUST_TOKEN = re.compile(
    r"""
    (?P<skipped> \s+ | //[^\n]* | b?c?r(?P<mark>\#*)".*?"(?P=mark) | "(?:\\.|[^"\\])*"
      | '(?:\\[^']*'|\\'|[^'\\]') | '[A-Za-z_]\w* )
  | (?P<opening> /\* )
  | (?P<token> [0-9][\w.]* | [A-Za-z_]\w* | :: | -> | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_RUST_COMMENT = re.compile(r"/\*|\*/")
_ACCESS = {"public", "private", "protected"}
_ATTRIBUTES = {"alignas", "__attribute__", "__declspec", "decltype"}
AMBIGUOUS = "ambiguous_function"
"""The code of the error for a file that defines several functions with the same name."""
_IDENTIFIER = re.compile(r"~?[A-Za-z_$][\w$]*")
_ARGUMENTS = re.compile(r"<.*>|\([^()]*\)(?:\s*const)?$")


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    directive: bool = False


@dataclass(frozen=True)
class _Open:
    """An open brace.

    ``names`` are the names of a scope, whose declarations are read; None for any other brace. ``first`` is the line
    where the definition of ``function`` begins. ``head`` has the tokens before the brace that initializes a member; the
    head continues after it.
    """

    names: tuple[str, ...] | None = None
    function: tuple[str, ...] | None = None
    first: int = 0
    head: tuple[_Token, ...] = ()


@dataclass
class _Reader:
    """Reads tokens and notes each definition of ``name`` as ``(qualified name, first line, last line)``."""

    name: str
    rust: bool
    found: list[tuple[tuple[str, ...], int, int]] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _head: list[_Token] = field(default_factory=list)
    """The tokens of the current declaration, up to the token that is read."""
    _branches: list[tuple[list[_Open], list[_Token]]] = field(default_factory=list)

    def read(self, tokens: Iterator[_Token]) -> None:
        for token in tokens:
            if token.directive:
                self._direct(token.text)
            elif token.text == "{" and not self._in_parentheses():
                self._begin()
            elif token.text == "}" and self._open and not self._in_parentheses():
                self._end(token)
            elif not self._is_opaque():
                self._declare(token)

    def _is_opaque(self) -> bool:
        return bool(self._open) and self._open[-1].names is None

    def _in_parentheses(self) -> bool:
        """Whether the head has an open parenthesis. A brace within it, as in ``f(int x = {})``, does not begin a
        body."""
        return sum({"(": 1, ")": -1}.get(token.text, 0) for token in self._head) > 0

    def _declare(self, token: _Token) -> None:
        before = self._head[-1].text if self._head else ""
        if (token.text == ";" and not _declares_parameters(self._head)) or (token.text == ":" and before in _ACCESS):
            self._head.clear()
        else:
            self._head.append(token)

    def _begin(self) -> None:
        if self._is_opaque():
            self._open.append(_Open())
            return
        head = _definition_head(self._head)
        function = _rust_function(head, self.name) if self.rust else _c_function(head, self.name)
        if function is None:
            self._open.append(_Open(_rust_scope(head) if self.rust else _c_scope(head)))
        elif not self.rust and _initializes_member(head):
            self._open.append(_Open(head=tuple(head)))
        else:
            self._open.append(_Open(function=function, first=head[0].line))
        self._head.clear()

    def _end(self, brace: _Token) -> None:
        opened = self._open.pop()
        self._head = [*opened.head, brace] if opened.head else []
        if opened.function is not None:
            scopes = tuple(name for each in self._open for name in each.names or ())
            self.found.append((scopes + opened.function, opened.first, brace.line))

    def _direct(self, text: str) -> None:
        """Read each branch of a conditional as if it were the only one, so that braces balance."""
        directive = text.strip().lstrip("#").lstrip()
        if directive.startswith("if"):
            self._branches.append((list(self._open), list(self._head)))
        elif directive.startswith("el") and self._branches:
            opened, head = self._branches[-1]
            self._open, self._head = list(opened), list(head)
        elif directive.startswith("endif") and self._branches:
            self._branches.pop()


def function_lines(function: str, file: str, lines: Sequence[str]) -> tuple[int, int]:
    """The first and the last line (from 1) of the definition of ``function``, whose name may be qualified.

    :param file: the file's name; its suffix determines the language.
    :param lines: the file's lines, without line ends.
    :raises InvalidValue: the file does not define the function, or defines several of this name.
    """
    wanted = tuple(_ARGUMENTS.sub("", function).split("::"))
    rust = file.endswith(".rs")
    reader = _Reader(wanted[-1], rust)
    text = "\n".join(lines)
    reader.read(_rust_tokens(text) if rust else _c_tokens(text))
    found = [each for each in reader.found if _is_named(each[0], wanted, rust)]
    if not found:
        raise InvalidValue(f"{file} does not define the function {function}{_mentions(wanted[-1], lines)}")
    places = sorted({(first, last) for _, first, last in found})
    if len(places) > 1:
        names = ", ".join(f"lines {first} to {last}" for first, last in places)
        detail = f"{file} defines {function} {len(places)} times ({names}): name the lines with from and to"
        raise InvalidValue(detail, code=AMBIGUOUS)
    return places[0]


def _is_named(found: tuple[str, ...], wanted: tuple[str, ...], rust: bool) -> bool:
    if rust:  # the names of the crate and of the file's module are in no source file
        return all(one == other for one, other in zip(reversed(found), reversed(wanted), strict=False))
    named = tuple(name for name in wanted if name not in ("", "(anonymous namespace)"))
    return found[-len(named) :] == named


def _mentions(name: str, lines: Sequence[str]) -> str:
    found = [str(number) for number, line in enumerate(lines, 1) if re.search(rf"\b{re.escape(name)}\b", line)]
    if not found:
        return "; no line of it has this name"
    return f"; the name stands in line{'s' if len(found) > 1 else ''} {', '.join(found[:5])}"


# -- tokens --------------------------------------------------------------------------------------------------------


def _c_tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _C_TOKEN.finditer(text):
        if match["token"] is not None or match["directive"] is not None:
            yield _Token(match.group(), line, match["directive"] is not None)
        line += match.group().count("\n")


def _rust_tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while (match := _RUST_TOKEN.match(text, at)) is not None:
        at = match.end() if match["opening"] is None else _comment_end(text, match.start())
        if match["token"] is not None:
            yield _Token(match.group(), line)
        line += text.count("\n", match.start(), at)


def _comment_end(text: str, start: int) -> int:
    """The end of a comment of Rust, which may contain other comments."""
    depth = 0
    for match in _RUST_COMMENT.finditer(text, start):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


# -- what stands before a brace ------------------------------------------------------------------------------------


def _at_depth_0(head: Sequence[_Token]) -> Iterator[tuple[int, str]]:
    """The tokens outside parentheses, each with its index. Opening parentheses are included."""
    depth = 0
    for number, token in enumerate(head):
        if token.text == ")":
            depth -= 1
        if depth == 0:
            yield number, token.text
        if token.text == "(":
            depth += 1


def _c_function(head: Sequence[_Token], name: str) -> tuple[str, ...] | None:
    """The name of the function ``name`` as written in its definition, qualified or not; None if the head is not such a
    definition."""
    outer = list(_at_depth_0(head))
    for place, (number, text) in enumerate(outer):
        if text in ("=", ":"):  # an initializer, or the members that a constructor initializes
            return None
        if text == name and place + 1 < len(outer) and outer[place + 1] == (number + 1, "("):
            names = [name]
            while number >= 2 and head[number - 1].text == "::" and _IDENTIFIER.fullmatch(head[number - 2].text):
                number -= 2
                names.insert(0, head[number].text)
            return tuple(names)
    return None


def _initializes_member(head: Sequence[_Token]) -> bool:
    """Whether a brace after the head of a constructor initializes a member, as in ``Box(int n) : n_{n} {``."""
    return any(text == ":" for _, text in _at_depth_0(head)) and head[-1].text not in (")", "}")


def _c_scope(head: Sequence[_Token]) -> tuple[str, ...] | None:
    """The names of a namespace or class, no names for ``extern "C"``; None for anything else."""
    outer = list(_at_depth_0(head))
    words = [text for _, text in outer]
    if "namespace" in words:
        return tuple(text for text in words[words.index("namespace") + 1 :] if _IDENTIFIER.fullmatch(text))
    if words == ["extern"]:
        return ()
    calls = [head[number - 1].text for number, text in outer if text == "(" and number > 0]
    kind = next((word for word in words if word in ("class", "struct", "union")), None)
    if kind is None or "=" in words or "enum" in words or any(call not in _ATTRIBUTES for call in calls):
        return None
    after = words[words.index(kind) + 1 :]
    named = after[: after.index(":")] if ":" in after else after
    names = [text for text in named if _IDENTIFIER.fullmatch(text) and text not in _ATTRIBUTES | {"final"}]
    return (names[0],) if names else ()


def _declares_parameters(head: Sequence[_Token]) -> bool:
    """Whether the head belongs to a function whose parameters are declared after the parentheses (before C23)."""
    texts = [token.text for token in head]
    if ")" not in texts or "(" not in texts or texts[-1] == ")":
        return False
    opening, closing = texts.index("("), texts.index(")")
    names = texts[opening + 1 : closing]
    return (
        opening > 0
        and "=" not in texts
        and bool(names)
        and all((text == ",") == bool(place % 2) for place, text in enumerate(names))
        and all(_IDENTIFIER.fullmatch(text) for text in names[::2])
        and _IDENTIFIER.fullmatch(texts[closing + 1]) is not None
    )


def _definition_head(head: Sequence[_Token]) -> Sequence[_Token]:
    """The part of the head that belongs to the brace. Declared parameters, each with a semicolon, may precede it."""
    ends = [number for number, token in enumerate(head) if token.text == ";"]
    if not ends:
        return head
    after = head[ends[-1] + 1 :]
    return after or head[: ends[0]]


def _rust_function(head: Sequence[_Token], name: str) -> tuple[str, ...] | None:
    texts = [token.text for token in head]
    is_named = any(pair == ("fn", name) for pair in pairwise(texts))
    return (name,) if is_named else None


def _rust_scope(head: Sequence[_Token]) -> tuple[str, ...] | None:
    """The name of a module or trait, or of the type of an ``impl``; None for anything else."""
    texts = [token.text for token in head]
    for word in ("mod", "trait"):
        if word in texts[:-1]:
            return (texts[texts.index(word) + 1],)
    if "impl" not in texts:
        return None
    after = texts[texts.index("for") + 1 :] if "for" in texts else _without_parameters(texts[texts.index("impl") + 1 :])
    plain = after[: after.index("<")] if "<" in after else after
    names = [text for text in plain if _IDENTIFIER.fullmatch(text) and text not in ("dyn", "mut")]
    return (names[-1],) if names else ()


def _without_parameters(texts: Sequence[str]) -> Sequence[str]:
    """The tokens after the type parameters of an ``impl``."""
    depth = 0
    for number, text in enumerate(texts):
        depth += {"<": 1, ">": -1}.get(text, 0)
        if depth == 0:
            return texts[number + 1 :] if text == ">" else texts
    return texts
