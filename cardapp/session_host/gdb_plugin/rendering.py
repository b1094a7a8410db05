"""The canonical text of a value: what the language's printers show, the same on every machine.

An address is shown as ``*``, followed by the text to which a ``char *`` points (``* "ada"``) or by the name of what the
program itself has there (``* <table+8>``). An array of ``char`` is shown as its text up to the first NUL, an array of
``unsigned char`` or ``signed char`` as numbers, unless all of it is printable text. ``std::unique_ptr`` and
``std::shared_ptr`` show the value that they own, as ``* VALUE``; what cannot be shown is ``{…}``. Containers are shown
by the printers of libstdc++, which run no code of the program, without type arguments and capacity. The elements of an
unordered container are sorted by the text of their key. Values of a program in Rust: ``rust_values.py``.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin import libstdcxx, rust_values
from cardapp.session_host.gdb_plugin.content import MAX_DEPTH, MAX_ELEMENTS, MAX_SORTED, Content

MAX_PARTS = 5000
"""How many elements are shown of all containers in a value, however they are nested."""
MAX_LINKS = 200
"""How many owning pointers in a value are followed."""
MAX_READ = 100_000
"""How many elements of a container are read to find one. The memory may not be initialised."""

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
    "static_members": False,  # they are no part of the value, and not every file that uses the class knows them
    "max_elements": MAX_ELEMENTS,
    "max_depth": MAX_DEPTH,
    "repeat_threshold": 10,
}
_SCALARS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_ENUM)
_REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)
_BYTES = {"unsigned char": "u", "signed char": "d"}
"""The types that are numbers rather than characters, with the format of such a number."""
_SHOWN_BY_ADDRESS = (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_METHOD, gdb.TYPE_CODE_METHODPTR)
_OWNER = re.compile(r"std::(?:__\w+::)*(?:unique|shared)_ptr<")
_HOLDER = re.compile(r"std::(?:\w+::)*(?:optional|variant|any)\b")
_STRING = re.compile(r"std::(?:__\w+::)*basic_string<")
_TUPLE = re.compile(r"std::(?:__\w+::)*tuple<")
_UNORDERED = re.compile(r"std::(?:\w+::)*unordered_")
_ARRAY = re.compile(r"std::(?:__\w+::)*array<")
_SIZE = re.compile(r"(?:of length|with) (\d+)")
_VIRTUAL_TABLE = re.compile(r"(?:\b0x[0-9a-f]+ |(?<== ))(?=<vtable for )")
_VIRTUAL_OFFSET = re.compile(r"(&virtual table offset )\d+")
_BASE_CLASS = re.compile(r"(?<=[{ ])<(std::[\w:]+)<[^=]*?>> = ")
"""A base class of the library with its type arguments, which gdb shows before the base class's value."""
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_QUOTED = re.compile(r'("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')')
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
    return _outside_texts(_masked, str(value.format_string(**_FORMAT | options)).strip())


def _outside_texts(change: Callable[[str], str], shown: str) -> str:
    """The text, changed where it is not in quotes: a text of the program may have dots or a number, too."""
    return "".join(each if number % 2 else change(each) for number, each in enumerate(_QUOTED.split(shown)))


def _without_addresses(shown: str) -> str:
    return _outside_texts(lambda each: _ADDRESS.sub("*", each), shown)


def _masked(shown: str) -> str:
    """The text without the addresses that gdb shows without asking a printer, the same for each compiler."""
    shown = shown.replace("...", "…").replace("_vptr$", "_vptr.")  # as clang calls it, and GCC
    shown = _BASE_CLASS.sub(r"<\1> = ", shown)
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
            with gdb.with_parameter("print null-stop", True):
                yield
        finally:
            gdb.pretty_printers = everywhere
            for owner, printers in kept:
                owner.pretty_printers = printers

    def _content(self, value: gdb.Value) -> Content | None:
        if _ARRAY.match(libstdcxx.name_of(value)):
            elements = value["_M_elems"]
            low, high = elements.type.strip_typedefs().range()
            return Content("sequence", high + 1 - low, [(None, elements[n]) for n in range(low, high + 1)])
        if libstdcxx.is_iterator(value):
            pointed = libstdcxx.pointed(value)
            return _holder(None if pointed is None else plain(pointed))
        printer = self._printer(value)
        if printer is None:
            return self._inherited(value)
        if _OWNER.match(libstdcxx.name_of(value)):
            pointer = libstdcxx.pointer_in(printer)
            return _holder(plain(pointer.dereference()) if int(pointer) else None)
        if _HOLDER.match(libstdcxx.name_of(value)):
            return _holder(libstdcxx.held_by(printer))
        if libstdcxx.hint(printer) == "string":
            return _characters(printer.to_string())
        return self._elements(value, printer, printer.to_string()) if hasattr(printer, "children") else None

    def _inherited(self, value: gdb.Value) -> Content | None:
        """What the first base class that is a container holds."""
        bases = (field for field in value.type.strip_typedefs().fields() if field.is_base_class)
        return next((found for base in bases if (found := self._content(value[base])) is not None), None)

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
        return libstdcxx.printers()(value) if libstdcxx.name_of(value).startswith("std::") else None

    def _shown_as(self, value: gdb.Value) -> Any:
        """gdb calls this for each part. None: gdb shows the part itself."""
        code = value.type.strip_typedefs().code
        if code == gdb.TYPE_CODE_PTR:
            return None if self._options else _Text(self._pointer(value))
        if code in _REFERENCES:
            return _Text(plain(value))
        if code in _SHOWN_BY_ADDRESS or (code == gdb.TYPE_CODE_ARRAY and value.type.sizeof == 0):
            return None if self._options else _Text(_without_addresses(_format(value, raw=True)))
        if code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_ARRAY):
            return None
        try:
            if code == gdb.TYPE_CODE_ARRAY:
                return None if self._options else _bytes(value)
            if libstdcxx.is_iterator(value):
                pointed = libstdcxx.pointed(value)
                return _Text("non-dereferenceable iterator" if pointed is None else pointed)
            printer = self._printer(value)
            return None if printer is None else self._container(value, printer)
        except Exception as error:  # other people's code, which reads what the program may not have initialised
            return _Text(f"<cannot be read: {_ADDRESS.sub('*', str(error))}>")

    def _pointer(self, value: gdb.Value) -> str:
        if int(value) == 0:
            return "0x0"
        behind = _without_addresses(_format(value, raw=True, address=False))
        # The name of a variable or function of a library differs between its versions.
        is_foreign = behind.startswith("<") and ("@" in behind or gdb.solib_name(int(value)) is not None)
        return f"* {behind}" if behind and not is_foreign else "*"

    def _container(self, value: gdb.Value, printer: Any) -> Any:
        if _OWNER.match(libstdcxx.name_of(value)):
            return _Text(self._owned(value, libstdcxx.pointer_in(printer)))
        if libstdcxx.hint(printer) == "string":
            return _Text(_whole(value, printer.to_string()), "string")
        words = libstdcxx.canonical(printer.to_string()) if hasattr(printer, "to_string") else None
        if _HOLDER.match(libstdcxx.name_of(value)):
            held = libstdcxx.held_by(printer)
            return _Parts((words or "").split(" containing ")[0], [] if held is None else [("", held)], "array")
        if not hasattr(printer, "children"):
            return _Text(words or "")
        hint, name = libstdcxx.hint(printer), libstdcxx.name_of(value)
        is_numbered = _UNORDERED.match(name) or _TUPLE.match(name) or libstdcxx.is_tree(value)  # GCC 12: tuples from 1
        if hint != "map" and not is_numbered:
            return _Parts(words, self._bounded(printer.children()), hint)
        found = self._elements(value, printer, words)
        if _UNORDERED.match(name) and found.size > MAX_SORTED:
            return _Parts(words, [("", "…")], "array")
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

    def _elements(self, value: gdb.Value, printer: Any, words: Any) -> Content:
        """The elements of a container. Those of an unordered container are sorted by the text of their key. ``words``
        is what the printer writes before the elements; it contains their number."""
        size = _SIZE.search(str(words))
        is_map = libstdcxx.hint(printer) == "map"
        if libstdcxx.is_tree(value):
            elements = libstdcxx.tree_elements(value)
            parts = itertools.chain.from_iterable((e["first"], e["second"]) for e in elements) if is_map else elements
        else:
            parts = (_value(each) for _, each in printer.children())
        items: Iterable[Item] = zip(parts, parts, strict=False) if is_map else ((None, each) for each in parts)
        items = itertools.islice(items, MAX_READ)
        if _UNORDERED.match(libstdcxx.name_of(value)) and size is not None and int(size[1]) <= MAX_SORTED:
            items = sorted(items, key=lambda item: self._deeper(item[1] if item[0] is None else item[0]))
        elif size is None:
            items = list(items)
        return Content("map" if is_map else "sequence", len(list(items)) if size is None else int(size[1]), items)

    def _owned(self, value: gdb.Value, pointer: gdb.Value) -> str:
        """The pointer and the value that it owns. The length of an array is not known."""
        is_array = "[]" in libstdcxx.name_of(value)
        if int(pointer) == 0 or points_to_text(pointer):
            return self._pointer(pointer)
        if is_array or pointer.type.target().sizeof == 0 or self._links_left == 0 or self._depth <= 1:
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


def _holder(held: gdb.Value | None) -> Content:
    return Content("holder", 0, []) if held is None else Content("holder", 1, [(None, held)])


def _bytes(array: gdb.Value) -> _Text | None:
    """An array of bytes as numbers. None: gdb shows the array."""
    letter = _BYTES.get(array.type.strip_typedefs().target().strip_typedefs().unqualified().name or "")
    if letter is None or _is_printable(array):
        return None
    return _Text(_format(array, raw=True, format=letter))


def _is_printable(array: gdb.Value) -> bool:
    """Whether bytes are printable characters, with nothing but NUL behind them."""
    low, high = array.type.strip_typedefs().range()
    shown = range(low, min(high, low + MAX_ELEMENTS) + 1)
    text = bytes(int(array[n]) & 0xFF for n in shown).rstrip(b"\0").decode("latin-1")
    return text != "" and text.isascii() and text.isprintable()


def _whole(value: gdb.Value, shown: Any) -> Any:
    """The text of a string, which its printer shows as a lazy string. gdb leaves out a NUL at the end of a text, and a
    ``std::string`` has one more behind its text."""
    has_nul = _STRING.match(libstdcxx.name_of(value)) and hasattr(shown, "length") and shown.length < MAX_ELEMENTS
    return _first(shown).lazy_string(length=shown.length + 1) if has_nul else shown


def _characters(shown: Any) -> Content | None:
    """The characters of a string, which its printer shows as a lazy string."""
    if not hasattr(shown, "length"):
        return None
    first = _first(shown)
    return Content("sequence", shown.length, ((None, (first + n).dereference()) for n in range(shown.length)))


def _first(shown: gdb.LazyString) -> gdb.Value:
    """The pointer to the first character."""
    return gdb.Value(shown.address).cast(shown.type.strip_typedefs().target().pointer())


def _value(part: Any) -> gdb.Value:
    return part if isinstance(part, gdb.Value) else gdb.Value(part)
