"""Takes a struct, array, tuple or container apart into its parts, as gdb, C, C++ and Rust write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from cardapp.card.constant import Language, NoValue

_QUOTED = re.compile(r"""[LuU]?8?"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'""", re.DOTALL)
_SIGN = re.compile(rf"{_QUOTED.pattern}|[{{}}\[\](),=:]", re.DOTALL)
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_REPEATED = re.compile(r"(.*\S) <repeats ([0-9]+) times>", re.DOTALL)
_ARRAY = re.compile(r"\s*(.*\S)\s*;\s*([0-9]+)\s*", re.DOTALL)
"""The inside of an array of Rust with equal elements: ``[0; 16]``."""
_EMPTY = re.compile(r"std::[\w:]+ (?:of length 0|with 0 elements|\[no contained value\])|(?:std::)?nullopt")
"""How gdb shows an empty container of C++, and how the language writes an empty ``std::optional``."""
_MAX_REPEATED = 1000
_MAX_DEPTH = 40
_COLLAPSED = 10
"""gdb writes this many equal elements of an array, or more, as one: ``0 <repeats 16 times>``."""


class Item(NamedTuple):
    """A part: its name, or the key of a map's element, and its value."""

    name: str | None
    value: Aggregate | str


class Aggregate(NamedTuple):
    """``prefix`` is what stands before the opening bracket: a type, ``Some``, or ``std::vector of length 2 =``."""

    prefix: str
    opening: str
    items: Sequence[Item]

    @property
    def _container(self) -> str:
        """The prefix without the ``*`` of an owning pointer."""
        return self.prefix.removeprefix("* ")

    @property
    def holds_one(self) -> bool:
        """Whether it is an optional or another holder, whose value can be written without braces around it."""
        return self._container.startswith(("std::optional", "std::variant", "std::any", "std::atomic"))

    @property
    def held(self) -> Aggregate | str | None:
        """The value in what :attr:`holds_one`; None if there is none."""
        return self.items[0].value if self.items else None

    def is_set(self, language: Language) -> bool:
        """Whether the order of the elements says nothing."""
        if language == "rust":
            return self.opening == "{" and not self.prefix and all(item.name is None for item in self.items)
        return re.match(r"std::(?:unordered_)?(?:multi)?set\b", self._container) is not None

    def is_map(self, language: Language) -> bool:
        """Whether the debugger shows the elements of a map, each with its key as its name."""
        if language == "rust":
            return self.opening == "{" and not self.prefix and any(item.name is not None for item in self.items)
        return re.match(r"std::(?:unordered_)?(?:multi)?map\b", self._container) is not None

    @property
    def bare(self) -> str:
        """The name in the prefix, without its scope and type arguments."""
        match = re.match(r"[\w:]+", self._container)
        return match[0].rpartition("::")[2] if match else ""


def parse(text: str, language: Language, depth: int = 0) -> Aggregate | None:
    """The parts of the text; None if it is no aggregate."""
    text = text.strip()
    if _EMPTY.fullmatch(text):
        return Aggregate(text, "{", [])
    at = _opening(text, language)
    if at is None or depth > _MAX_DEPTH:
        return None
    prefix, opening, inner = text[:at].strip(), text[at], text[at + 1 : -1]
    if opening == "(" and not prefix and inner.strip() and len(list(_split(inner, ","))) < 2:
        return None  # an expression in parentheses
    items: list[Item] = []
    repeated = _ARRAY.fullmatch(inner) if opening == "[" else None
    for part in [f"{repeated[1]} <repeats {repeated[2]} times>"] if repeated else _split(inner, ","):
        if part.strip():
            items += _items(part.strip(), language, depth)
    return _unwrapped(Aggregate(_without_cast(prefix), opening, items))


def _unwrapped(found: Aggregate) -> Aggregate:
    """The elements of a ``std::array``, which gdb shows as a member."""
    inner = found.items[0].value if len(found.items) == 1 and found.items[0].name == "_M_elems" else found
    return inner if isinstance(inner, Aggregate) else found


def _opening(text: str, language: Language) -> int | None:
    """Where the bracket opens that the last character closes."""
    brackets = "{[(" if language == "rust" else "{"
    for at, sign in _signs(text):
        if sign in brackets:
            return at if _end(text, at) == len(text) - 1 else None
    return None


def _signs(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Each bracket and separator that is not in quotes, with its place."""
    return ((match.start(), match[0]) for match in _SIGN.finditer(text, start) if len(match[0]) == 1)


def _end(text: str, start: int) -> int | None:
    """Where the bracket at ``start`` is closed."""
    waiting: list[str] = []
    for at, sign in _signs(text, start):
        if sign in "{[(":
            waiting.append(_CLOSING[sign])
        elif sign in "}])":
            if waiting.pop() != sign:
                return None
            if not waiting:
                return at
    return None


def _split(text: str, separator: str) -> Iterator[str]:
    """The parts between the separators that are in no brackets or quotes."""
    depth, start = 0, 0
    for at, sign in _signs(text):
        depth += (sign in "{[(") - (sign in "}])")
        if sign == separator and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def key_of(name: str | None) -> str | None:
    """The name without what is only notation: brackets, quotes and blanks."""
    if name is None:
        return None
    inner = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return inner.strip().strip('"')


def _items(part: str, language: Language, depth: int) -> Iterator[Item]:
    name, value = _named(part, language)
    count = 1
    if (repeated := _REPEATED.fullmatch(value)) and " <repeats " not in repeated[1]:
        value, count = repeated[1], min(int(repeated[2]), _MAX_REPEATED)
    yield from [Item(name, parse(value, language, depth + 1) or value)] * count


def _named(part: str, language: Language) -> tuple[str | None, str]:
    """The name and the value: ``x = 1``, ``.x = 1`` and, in Rust, ``x: 1``. A key is in brackets, as gdb writes it:
    ``["saw"] = 1``. In C and C++ ``saw: 1`` is one, too."""
    for at, sign in _signs(part):
        if sign in "{(" or (sign == "[" and at > 0):
            break
        around = part[max(at - 1, 0) : at + 2]
        if (sign == "=" and not re.search(r"[=!<>]=|==", around)) or (sign == ":" and "::" not in around):
            name = part[:at].strip()
            is_key = _is_key(name)
            # Else it is a container: std::vector of length 1 = {5}
            if name and "::" not in name and (sign == ":" or language != "rust" or is_key):
                name = " ".join(name.removeprefix(".").split())
                if sign == ":" and language != "rust" and not is_key:
                    name = f"[{name}]"
                return name, part[at + 1 :].strip()
            break
    return None, part


def arranged(said: Aggregate, known: Aggregate | None, language: Language) -> Aggregate:
    """What a learner wrote, with the names that ``known``, a value of the same kind, has: the keys of a map.

    :raises NoValue: it is no way to write a map in the language.
    """
    if known is None:
        return said
    if known.is_map(language):
        return said._replace(items=[_element(item, language) for item in said.items])
    names = {key_of(each.name): each.name for each in known.items if each.name is not None}
    return said._replace(items=[Item(names.get(key_of(name), name), value) for name, value in said.items])


def _element(item: Item, language: Language) -> Item:
    """The element of a map, with its key as the name. C++ writes it ``{"saw", 1}``."""
    name, value = item
    if language == "rust":
        if name is None:
            raise NoValue("write a map as {key: value}")
        return item
    if _is_key(name):
        return item
    parts = () if isinstance(value, str) or value.prefix else value.items
    if name is not None or len(parts) != 2 or _is_key(parts[0].name):
        raise NoValue("write a map as {{key, value}}")
    key, element = parts
    return Item(f"[{spelled(key.value, language)}]", element.value)


def _is_key(name: str | None) -> bool:
    return name is not None and name.startswith("[")


def without_holder(said: Aggregate | str, holder: Aggregate, language: Language) -> Aggregate | str | None:
    """What ``said`` has in ``holder``, which holds one value: in braces of its own, or alone. None: nothing."""
    if isinstance(said, str):
        return said
    if said.holds_one:
        return said.held
    is_nothing = not said.items and (not said.prefix or said.bare == "nullopt")
    if is_nothing and holder.bare == "optional":
        return None
    if said.prefix or len(said.items) != 1 or said.items[0].name is not None:
        return said
    if isinstance(holder.held, Aggregate) and holder.held.is_map(language):
        with suppress(NoValue):  # the only element of a map, {{"saw", 1}}
            arranged(said, holder.held, language)
            return said
    return said.held if _depth(said) > _depth(holder.held) else said


def _depth(value: Aggregate | str | None) -> int:
    """How many brackets are in one another."""
    if not isinstance(value, Aggregate):
        return 0
    return 1 + max((_depth(each.value) for each in value.items), default=0)


def spelled(value: Aggregate | str, language: Language) -> str:
    """The value as one text."""
    if isinstance(value, str):
        return value
    return text_of(value, language, [(name, spelled(part, language)) for name, part in value.items])


def _without_cast(prefix: str) -> str:
    """The prefix without the type of a compound literal: ``(struct point)``."""
    return "" if prefix.startswith("(") and prefix.endswith(")") else " ".join(prefix.split())


def text_of(aggregate: Aggregate, language: Language, items: Sequence[tuple[str | None, str]]) -> str:
    """Write the aggregate with these items, as the debugger writes one of its language."""
    parts = [f"{_name_before(name, language)}{value}" for name, value in items]
    inner = ", ".join(parts if language == "rust" else _collapsed(parts))
    if language == "rust" and aggregate.opening == "{" and aggregate.prefix and inner:
        inner = f" {inner} "
    if language == "rust" and aggregate.opening == "(" and not aggregate.prefix and len(parts) == 1:
        inner += ","
    separator = " " if aggregate.prefix and aggregate.opening == "{" else ""
    return f"{aggregate.prefix}{separator}{aggregate.opening}{inner}{_CLOSING[aggregate.opening]}"


def _name_before(name: str | None, language: Language) -> str:
    if name is None:
        return ""
    return f"{name}: " if language == "rust" else f"{name} = "


def _collapsed(found: Sequence[str]) -> Iterator[str]:
    start = 0
    while start < len(found):
        end = start
        while end < len(found) and found[end] == found[start]:
            end += 1
        count = end - start
        yield from [f"{found[start]} <repeats {count} times>"] if count >= _COLLAPSED else found[start:end]
        start = end
