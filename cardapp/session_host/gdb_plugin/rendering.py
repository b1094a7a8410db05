"""The canonical text of a value: what the language's printers show, the same on every machine.

An address is shown as ``*``, followed by the text to which a ``char *`` points (``* "ada"``) or by the name of what the
program itself has there (``* <table+8>``). ``std::unique_ptr`` and ``std::shared_ptr`` show the value that they own, as
``* VALUE``. Containers are shown by the printers of libstdc++, which run no code of the program, without type arguments
and capacity. The elements of an unordered container are sorted by the text of their key. Values of a program in Rust:
``rust_values.py``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin import rust_values
from cardapp.session_host.gdb_plugin.content import MAX_DEPTH, MAX_ELEMENTS, Content

MAX_PARTS = 5000
"""How many elements are shown of all containers in a value, however they are nested."""
MAX_LINKS = 200
"""How many owning pointers in a value are followed."""
MAX_READ = 100_000
"""How many elements of a container are read, to sort them or to find one. The memory may not be initialised."""

# gdb's defaults, passed explicitly because the learner may have changed them. See gdb.Value.format_string.
_FORMAT: dict[str, Any] = {
    "pretty_arrays": False,
    "pretty_structs": False,
    "array_indexes": False,
    "symbols": True,
    "unions": True,
    "address": True,
    "deref_refs": False,
    "actual_objects": True,
    "static_members": True,
    "max_elements": MAX_ELEMENTS,
    "max_depth": MAX_DEPTH,
    "repeat_threshold": 10,
}
_SCALARS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_ENUM)
_REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)
_OWNER = re.compile(r"std::(?:__\w+::)*(?:unique|shared)_ptr<")
_HOLDER = re.compile(r"std::(?:\w+::)*(?:optional|variant|any)\b")
_TUPLE = re.compile(r"std::(?:__\w+::)*tuple<")
_UNORDERED = re.compile(r"std::(?:\w+::)*unordered_")
_ARRAY = re.compile(r"std::(?:__\w+::)*array<")
_POINTERS = {"__gnu_cxx::__normal_iterator": "_M_current", "std::_Deque_iterator": "_M_cur"}
"""The iterators of libstdc++ that have a pointer to the element, with the name of this pointer."""
_NODES = {
    "std::_List_iterator": "_M_node",
    "std::_List_const_iterator": "_M_node",
    "std::_Fwd_list_iterator": "_M_node",
    "std::_Fwd_list_const_iterator": "_M_node",
    "std::_Rb_tree_iterator": "_M_node",
    "std::_Rb_tree_const_iterator": "_M_node",
    "std::__detail::_Node_iterator": "_M_cur",
    "std::__detail::_Node_const_iterator": "_M_cur",
}
"""The iterators that have a pointer to the node in which the element is, behind the links to other nodes."""
_CAPACITY = re.compile(r", capacity \d+")
_SIZE = re.compile(r"(?:of length|with) (\d+)")
_VIRTUAL_TABLE = re.compile(r"(?:\b0x[0-9a-f]+ |(?<== ))(?=<vtable for )")
_VIRTUAL_OFFSET = re.compile(r"(&virtual table offset )\d+")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_QUOTED = re.compile(r'("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')')
_LIBSTDCXX = "/usr/share/gcc/python"
"""Where Debian keeps the printers of libstdc++. gdb itself loads them with the shared library only."""

Item = tuple[gdb.Value | None, gdb.Value]


def text(value: gdb.Value, letter: str | None = None) -> str:
    """The canonical text of ``value``. ``letter`` is one of gdb's print formats.

    :raises gdb.error: the value, or its memory, cannot be read.
    """
    if letter is None and rust_values.in_rust():
        return rust_values.text(value)
    if letter is None and value.type.strip_typedefs().code in _SCALARS:
        return _format(value, raw=True)
    shown = _Rendering(letter).text(value)
    # A text is compared by its characters, wherever it lies.
    return shown.removeprefix("* ") if letter is None and points_to_text(value) else shown


def contents(value: gdb.Value) -> Content | None:
    """What a container, an optional or an owning pointer holds. None: it is none of these.

    :raises gdb.error: it cannot be read.
    """
    if rust_values.in_rust():
        return rust_values.contents(value)
    value = plain(value)
    if value.type.strip_typedefs().code != gdb.TYPE_CODE_STRUCT:
        return None
    try:
        return _Rendering().content(value)
    except Exception as error:  # other people's code, which reads what the program may not have initialised
        raise gdb.error(str(error)) from error


def _format(value: gdb.Value, **options: Any) -> str:
    shown = str(value.format_string(**_FORMAT | options)).strip()
    parts = _QUOTED.split(shown)  # a text of the program may have dots, too
    return "".join(each if number % 2 else _masked(each) for number, each in enumerate(parts))


def _masked(shown: str) -> str:
    """The text without the addresses that gdb shows without asking a printer, the same for each compiler."""
    shown = shown.replace("...", "…").replace("_vptr$", "_vptr.")  # as clang calls it, and GCC
    return _VIRTUAL_OFFSET.sub(r"\1*", _VIRTUAL_TABLE.sub("* ", shown))


def points_to_text(value: gdb.Value) -> bool:
    """Whether gdb shows the text to which the value points. A null pointer points to no text."""
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_PTR or int(value) == 0:
        return False
    target = kind.target().strip_typedefs().unqualified()
    is_wide = target.name in ("wchar_t", "char16_t", "char32_t")
    return is_wide or (target.sizeof == 1 and target.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR))


def plain(value: gdb.Value) -> gdb.Value:
    """The object to which a reference refers; any object as one of its own class, which may be a derived one."""
    if value.type.strip_typedefs().code in _REFERENCES:
        value = value.referenced_value()
    is_object = value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT and value.address is not None
    return value.cast(value.dynamic_type) if is_object else value


def _name(value: gdb.Value) -> str:
    return value.type.strip_typedefs().unqualified().name or ""


# -- rendering -------------------------------------------------------------------------------------------------------


class _Rendering:
    """Renders one value. gdb asks :meth:`_shown_as` about each part of the value, which asks the other printers."""

    def __init__(self, letter: str | None = None) -> None:
        self._options: dict[str, Any] = {} if letter is None else {"format": letter}
        self._parts_left = MAX_PARTS
        self._links_left = MAX_LINKS
        self._depth = MAX_DEPTH
        self._owners = [each for each in (*gdb.objfiles(), gdb.current_progspace()) if each.pretty_printers]
        found = [each for owner in self._owners for each in owner.pretty_printers] + gdb.pretty_printers
        self._printers = [each for each in found if getattr(each, "enabled", True)]

    def text(self, value: gdb.Value) -> str:
        """The text of the whole value."""
        with self._alone():
            return self._part(value)

    def content(self, value: gdb.Value) -> Content | None:
        """What the object ``value`` holds; None if it is no container."""
        with self._alone():
            return self._content(value)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Make gdb ask no other printer. Those of a file come before all others, so they are taken away meanwhile."""
        kept, everywhere = [(owner, owner.pretty_printers) for owner in self._owners], gdb.pretty_printers
        try:
            for owner, _ in kept:
                owner.pretty_printers = []
            gdb.pretty_printers = [self._shown_as]
            yield
        finally:
            gdb.pretty_printers = everywhere
            for owner, printers in kept:
                owner.pretty_printers = printers

    def _content(self, value: gdb.Value) -> Content | None:
        if _ARRAY.match(_name(value)):
            elements = value["_M_elems"]
            low, high = elements.type.strip_typedefs().range()
            return Content("sequence", high + 1 - low, [(None, elements[n]) for n in range(low, high + 1)])
        if _is_iterator(value):
            pointed = _pointed(value)
            return _holder(None if pointed is None else plain(pointed))
        printer = self._printer(value)
        if printer is None:
            return None
        if _OWNER.match(_name(value)):
            pointer = _pointer_in(printer)
            return _holder(plain(pointer.dereference()) if int(pointer) else None)
        if _HOLDER.match(_name(value)):
            return _holder(_held_by(printer))
        if _hint(printer) == "string":
            return _characters(printer.to_string())
        return self._elements(value, printer) if hasattr(printer, "children") else None

    def _part(self, value: gdb.Value) -> str:
        return _format(value, raw=False, max_depth=self._depth, **self._options)

    def _deeper(self, value: gdb.Value) -> str:
        self._depth -= 1
        try:
            return self._part(value)
        finally:
            self._depth += 1

    def _printer(self, value: gdb.Value) -> Any:
        """The printer of an object; None if its class has none."""
        for lookup in self._printers:
            if (found := lookup(value)) is not None:
                return found
        return _printer_of_libstdcxx()(value) if _name(value).startswith("std::") else None

    def _shown_as(self, value: gdb.Value) -> Any:
        """gdb calls this for each part. None: gdb shows the part itself."""
        code = value.type.strip_typedefs().code
        if code == gdb.TYPE_CODE_PTR:
            return None if self._options else _Text(self._pointer(value))
        if code in _REFERENCES:
            return _Text(plain(value))
        if code != gdb.TYPE_CODE_STRUCT:
            return None
        try:
            if _is_iterator(value):
                pointed = _pointed(value)
                return _Text("non-dereferenceable iterator" if pointed is None else pointed)
            printer = self._printer(value)
            return None if printer is None else self._container(value, printer)
        except Exception as error:  # other people's code, which reads what the program may not have initialised
            return _Text(f"<cannot be read: {_ADDRESS.sub('*', str(error))}>")

    def _pointer(self, value: gdb.Value) -> str:
        if int(value) == 0:
            return "0x0"
        behind = _ADDRESS.sub("*", _format(value, raw=True, address=False))
        # The name of a variable or function of a library differs between its versions.
        is_foreign = behind.startswith("<") and ("@" in behind or gdb.solib_name(int(value)) is not None)
        return f"* {behind}" if behind and not is_foreign else "*"

    def _container(self, value: gdb.Value, printer: Any) -> Any:
        if _OWNER.match(_name(value)):
            return _Text(self._owned(value, _pointer_in(printer)))
        if _hint(printer) == "string":
            return _Text(printer.to_string(), "string")
        words = _canonical(printer.to_string()) if hasattr(printer, "to_string") else None
        if _HOLDER.match(_name(value)):
            held = _held_by(printer)
            return _Parts((words or "").split(" containing ")[0], [] if held is None else [("", held)], "array")
        if not hasattr(printer, "children"):
            return _Text(words or "")
        is_renumbered = _UNORDERED.match(_name(value)) or _TUPLE.match(_name(value))  # GCC 12 counts a tuple from 1
        if _hint(printer) != "map" and not is_renumbered:
            return _Parts(words, self._bounded(printer.children()), _hint(printer))
        found = self._elements(value, printer)
        if found.kind == "sequence":
            return _Parts(words, self._bounded((f"[{n}]", each) for n, (_, each) in enumerate(found.items)), None)
        # gdb counts key and element as two, so it would show half as many.
        pairs = (("", f"[{self._deeper(key)}] = {self._deeper(each)}") for key, each in found.items if key is not None)
        return _Parts(words, self._bounded(pairs), "array")

    def _bounded(self, parts: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """One part more than is shown, so that gdb shows that there are more."""
        found = list(itertools.islice(parts, min(MAX_ELEMENTS, self._parts_left) + 1))
        self._parts_left -= min(len(found), self._parts_left)
        return found if self._parts_left else [*found, ("", "…")]

    def _elements(self, value: gdb.Value, printer: Any) -> Content:
        """The elements of a container, those of an unordered one by the text of their key."""
        size = _SIZE.search(str(printer.to_string()))
        parts = (_value(each) for _, each in printer.children())
        is_map = _hint(printer) == "map"
        items: Iterable[Item] = zip(parts, parts, strict=False) if is_map else ((None, each) for each in parts)
        items = itertools.islice(items, MAX_READ)
        if _UNORDERED.match(_name(value)):
            items = sorted(items, key=lambda item: self._deeper(item[1] if item[0] is None else item[0]))
        elif size is None:
            items = list(items)
        return Content("map" if is_map else "sequence", len(list(items)) if size is None else int(size[1]), items)

    def _owned(self, value: gdb.Value, pointer: gdb.Value) -> str:
        """The pointer and the value that it owns. The length of an array is not known."""
        is_array = "[]" in _name(value)
        if int(pointer) == 0 or is_array or pointer.type.target().sizeof == 0 or points_to_text(pointer):
            return self._pointer(pointer)
        if self._links_left == 0 or self._depth <= 1:
            return "* {…}"
        self._links_left -= 1
        return f"* {self._deeper(plain(pointer.dereference()))}"


class _Text:
    """Shows a text, or a value as gdb shows it, in place of a part. With the hint "string" the text is quoted."""

    def __init__(self, shown: Any, hint: str | None = None) -> None:
        self._shown = shown
        self._hint = hint

    def to_string(self) -> Any:
        return self._shown

    def display_hint(self) -> str | None:
        return self._hint


class _Parts:
    """Shows the words and parts of a container."""

    def __init__(self, words: str | None, parts: list[tuple[str, Any]], hint: str | None) -> None:
        self._words = words
        self._parts = parts
        self._hint = hint

    def to_string(self) -> str | None:
        return self._words

    def children(self) -> Iterator[tuple[str, Any]]:
        return iter(self._parts)

    def display_hint(self) -> str | None:
        return self._hint


# -- the printers of libstdc++ ---------------------------------------------------------------------------------------


@functools.cache
def _printer_of_libstdcxx() -> Callable[[gdb.Value], Any]:
    """The printers for a program that has libstdc++ in itself."""
    if not os.path.isfile(f"{_LIBSTDCXX}/libstdcxx/v6/printers.py"):
        return lambda _value: None
    sys.path.append(_LIBSTDCXX)
    printers = importlib.import_module("libstdcxx.v6.printers")
    if printers.libstdcxx_printer is None:
        printers.build_libstdcxx_dictionary()
    return printers.libstdcxx_printer  # type: ignore[no-any-return]


def _hint(printer: Any) -> str | None:
    return printer.display_hint() if hasattr(printer, "display_hint") else None


def _canonical(words: Any) -> str | None:
    """The words of a container without its capacity and type arguments, which differ between libraries."""
    if words is None:
        return None
    shown, depth = [], 0
    for letter in _CAPACITY.sub("", str(words)):
        depth += letter == "<"
        if depth == 0:
            shown.append(letter)
        depth -= letter == ">" and depth > 0
    return "".join(shown)


def _pointer_in(printer: Any) -> gdb.Value:
    """The pointer of a ``std::unique_ptr`` or ``std::shared_ptr``."""
    return next(iter(printer.children()))[1]


def _held_by(printer: Any) -> gdb.Value | None:
    """What an optional, a variant or an any contains. The printers of GCC 12 and 14 name it differently."""
    name = "contained_value" if hasattr(printer, "contained_value") else "_contained_value"
    held: gdb.Value | None = getattr(printer, name)
    return held


def _is_iterator(value: gdb.Value) -> bool:
    return _name(value).partition("<")[0] in _POINTERS | _NODES


def _pointed(iterator: gdb.Value) -> gdb.Value | None:
    """The element to which an iterator points; None if it points nowhere.

    As in the printers of libstdc++, an iterator behind the last element is not recognised.
    """
    kind = _name(iterator).partition("<")[0]
    place = iterator[(_POINTERS | _NODES)[kind]]
    if int(place) == 0:
        return None
    if kind in _POINTERS:
        return place.dereference()
    node = place.type.strip_typedefs().target().strip_typedefs()
    base = node.fields()[0].type if node.fields()[0].is_base_class else node
    element = iterator.type.strip_typedefs().template_argument(0)
    behind = -(-(int(place) + base.sizeof) // element.alignof) * element.alignof
    return gdb.Value(behind).cast(element.pointer()).dereference()


def _holder(held: gdb.Value | None) -> Content:
    return Content("holder", 0, []) if held is None else Content("holder", 1, [(None, held)])


def _characters(shown: Any) -> Content | None:
    """The characters of a string, which its printer shows as a lazy string."""
    if not hasattr(shown, "length"):
        return None
    first = gdb.Value(shown.address).cast(shown.type.strip_typedefs().target().pointer())
    return Content("sequence", shown.length, ((None, (first + n).dereference()) for n in range(shown.length)))


def _value(part: Any) -> gdb.Value:
    return part if isinstance(part, gdb.Value) else gdb.Value(part)
