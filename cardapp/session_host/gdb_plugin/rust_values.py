"""Values of Rust programs as Rust's own ``{:?}`` writes them, without a call of the program and without rustc."""

from __future__ import annotations

import codecs
import itertools
import re
import struct
import unicodedata

import gdb

from cardapp.session_host.gdb_plugin import rust_layouts as layouts
from cardapp.session_host.gdb_plugin.content import MAX_DEPTH, MAX_ELEMENTS, MAX_SORTED, Content

MAX_PARTS = 10_000
"""How many values a text is made of at most. A small graph of ``Rc`` can have an endless text."""

WEAK = re.compile(r"alloc::(?:rc|sync)::Weak<")
CELL = re.compile(r"core::cell::(?:Cell|RefCell)<")
LOCK = re.compile(r"std::sync::(?:\w+::)*(?:Mutex|RwLock)<")
COPY_ON_WRITE = re.compile(r"alloc::borrow::Cow<")
RANGE = re.compile(r"core::ops::range::Range<")
ATOMIC_BOOL = re.compile(r"core::sync::atomic::Atomic(?:Bool$|<bool>)")
NUMBER = re.compile(
    r"core::num::(?:nonzero::NonZero|wrapping::Wrapping<|saturating::Saturating<)|core::sync::atomic::Atomic(?!Ptr|<\*)"
)
POINTER = re.compile(r"core::ptr::(?:non_null::NonNull|unique::Unique)<|core::sync::atomic::Atomic(?:Ptr|<\*)")
NAME_ONLY = re.compile(r"core::(?:marker::PhantomData|mem::maybe_uninit::MaybeUninit)<")

ESCAPES = {"\0": r"\0", "\t": r"\t", "\r": r"\r", "\n": r"\n", "\\": r"\\"}


def in_rust() -> bool:
    """Whether the selected frame is one of Rust, so that values evaluated in it are for this module."""
    try:
        return str(gdb.selected_frame().language()) == "rust"
    except gdb.error:
        return False


def check_readable(kind: gdb.Type) -> None:
    """Raise ``gdb.error`` for the type of a variable that gdb does not survive to read; see ``has_wide_tag``."""
    if in_rust():
        layouts.refuse_wide_tag(kind)


def text(value: gdb.Value) -> str:
    """The value as ``{:?}`` writes it, of bounded length.

    References, ``Box``, ``Rc`` and ``Arc`` show what they refer to, and so do raw pointers: gdb cannot tell them from
    references. Pointers to functions are ``* <NAME>``, null is ``0x0``. What a pointer refers to is ``{…}`` if its type
    is not known. Hash tables are sorted by key: numbers as numbers, others by their text. What cannot be read is
    ``<cannot be read: REASON>``, where it stands.
    """
    layouts.forget_layouts()
    return _Text().of(value, 0)


def contents(value: gdb.Value) -> Content | None:
    """What the value holds; None for a value that holds nothing by number, key or ``*``.

    A reference or ``Box`` of a container is a holder of it. Text is a sequence of bytes. Hash tables are sorted as in
    ``text``, unless they have more than ``MAX_SORTED`` elements. Raises ``gdb.error`` for a value that cannot be read,
    and so do the items.
    """
    layouts.forget_layouts()
    return _sorted(value, layouts.unordered_contents(value))


def _sorted(value: gdb.Value, content: Content | None) -> Content | None:
    if content is None or content.size > MAX_SORTED or not _is_hashed(value.type.name or ""):
        return content
    keyed = sorted(content.items, key=lambda item: _order(item[1] if item[0] is None else item[0]))
    return Content(content.kind, content.size, keyed)


def _is_hashed(name: str) -> bool:
    return bool(layouts.HASH_MAP.match(name) or layouts.HASH_SET.match(name))


def _order(key: gdb.Value) -> tuple[int, str]:
    is_number = key.type.code == gdb.TYPE_CODE_INT and key.type.sizeof > 0
    return (_integer(key), "") if is_number else (0, _Text().of(key, 0))


class _Text:
    """Writes one value. It remembers the pointers that it is behind: a value that holds itself ends with ``{…}``."""

    def __init__(self) -> None:
        self.parts = 0
        self.behind: set[tuple[int, str]] = set()

    def of(self, value: gdb.Value, depth: int) -> str:
        self.parts += 1
        if self.parts > MAX_PARTS:
            return "…"
        try:
            return _scalar(value) or self._aggregate(value, depth)
        except gdb.MemoryError:
            return "<cannot be read: no memory there>"
        except (RuntimeError, OverflowError) as error:  # gdb.error is a RuntimeError
            if "optimized out" in str(error):
                return "<optimized out>"
            return f"<cannot be read: {re.sub('0x[0-9a-f]+', '*', str(error))}>"

    def _aggregate(self, value: gdb.Value, depth: int) -> str:
        name = value.type.name or ""
        if depth > MAX_DEPTH:
            return "{…}"
        if value.type.code == gdb.TYPE_CODE_FUNC:
            return "*"
        if value.type.code == gdb.TYPE_CODE_PTR and value.type.target().code == gdb.TYPE_CODE_FUNC:
            return _function(int(value))
        if value.type.code == gdb.TYPE_CODE_PTR:
            return self._referred(value, value, depth)
        if layouts.TEXT.match(name):
            return _quoted(*layouts.span(value))
        if layouts.COUNTED.match(name):
            return self._referred(value, layouts.inside(value, layouts.is_pointer), depth)
        if layouts.variant(value) is None:
            content = layouts.unordered_contents(value)
            if content is not None:
                return self._content(value, content, depth)
        return self._known(value, name, depth) or self._structure(value, name, depth)

    def _referred(self, value: gdb.Value, pointer: gdb.Value, depth: int) -> str:
        content = layouts.unordered_contents(value)
        if content is None:
            return "*" if value.type.code == gdb.TYPE_CODE_PTR else "{…}"
        if content == ("holder", 0, []):
            return "0x0"
        here = int(pointer), str(pointer.type)
        if here in self.behind:
            return "{…}"
        self.behind.add(here)
        try:
            return self._content(value, content, depth)
        finally:
            self.behind.discard(here)

    def _content(self, value: gdb.Value, content: Content, depth: int) -> str:
        name = value.type.name or ""
        if content.kind == "holder":
            return "".join(self.of(element, depth) for _, element in content.items) or "0x0"
        if _is_hashed(name) and content.size > MAX_SORTED:
            return "{…}"
        ordered = _sorted(value, content) or content
        shown = [self._item(key, element, depth + 1) for key, element in itertools.islice(ordered.items, MAX_ELEMENTS)]
        if content.size > MAX_ELEMENTS:
            shown.append("…")
        if layouts.REMAINING.match(name):
            return f"{_short(name)}([{', '.join(shown)}])"
        braces = content.kind == "map" or layouts.HASH_SET.match(name) or layouts.BTREE_SET.match(name)
        return f"{{{', '.join(shown)}}}" if braces else f"[{', '.join(shown)}]"

    def _item(self, key: gdb.Value | None, element: gdb.Value, depth: int) -> str:
        shown = self.of(element, depth)
        return shown if key is None else f"{self.of(key, depth)}: {shown}"

    def _known(self, value: gdb.Value, name: str, depth: int) -> str | None:
        """The text of a type of the standard library that does not write its fields."""
        if WEAK.match(name):
            return "(Weak)"
        if NAME_ONLY.match(name):
            return _short(name) + name[name.index("<") :]
        if POINTER.match(name):
            return "*" if int(layouts.inside(value, layouts.is_pointer)) else "0x0"
        if ATOMIC_BOOL.match(name):
            return _truth(int(layouts.inside(value, layouts.is_scalar)))
        if NUMBER.match(name):
            return self.of(layouts.inside(value, layouts.is_scalar), depth)
        if RANGE.match(name):
            return f"{self.of(value['start'], depth + 1)}..{self.of(value['end'], depth + 1)}"
        if layouts.CHARACTERS.match(name):
            return f"Chars([{', '.join(_characters(*layouts.remaining(value['iter'])))}])"
        if CELL.match(name):
            return f"{_short(name)} {{ value: {self.of(layouts.unwrapped(value['value']), depth + 1)} }}"
        if LOCK.match(name):
            data = self.of(layouts.unwrapped(value["data"]), depth + 1)
            poisoned = _truth(int(layouts.inside(value["poison"], layouts.is_scalar)))
            return f"{_short(name)} {{ data: {data}, poisoned: {poisoned}, .. }}"
        if layouts.REFERRING.match(name):  # to an object of an unknown type, or to a structure of no fixed length
            return "{…}"
        return None

    def _structure(self, value: gdb.Value, name: str, depth: int) -> str:
        found = layouts.variant(value)
        if found is None:
            return self._fields(_short(name), value, depth)
        if COPY_ON_WRITE.match(name):
            return self.of(found[1]["__0"], depth)
        return self._fields(*found, depth)

    def _fields(self, name: str, value: gdb.Value, depth: int) -> str:
        shown = [(field.name, self.of(value[field], depth + 1)) for field in value.type.fields()]
        if not shown:
            return name
        if all(re.fullmatch(r"__\d+", label) for label, _ in shown):
            comma = "," if not name and len(shown) == 1 else ""
            return f"{name}({', '.join(each for _, each in shown)}{comma})"
        return f"{name} {{ {', '.join(f'{label}: {each}' for label, each in shown)} }}"


def _function(address: int) -> str:
    """A pointer to a function, by the function's name if it is known."""
    if address == 0:
        return "0x0"
    block = gdb.block_for_pc(address)
    return "*" if block is None or block.function is None else f"* <{block.function}>"


def _short(name: str) -> str:
    """The name without path and type arguments. A tuple has none."""
    return "" if name.startswith("(") else name.partition("<")[0].rpartition("::")[2]


# -- scalars ---------------------------------------------------------------------------------------------------------


def _scalar(value: gdb.Value) -> str | None:
    kind = value.type
    if kind.code == gdb.TYPE_CODE_ENUM:
        return _c_like(value)
    if kind.code not in layouts.SCALARS:
        return None
    if kind.sizeof == 0:
        return "()"
    if kind.code == gdb.TYPE_CODE_FLT:
        return _float(value)
    number = _integer(value)
    if kind.code == gdb.TYPE_CODE_BOOL:
        return _truth(number)
    return _character(number) if kind.code == gdb.TYPE_CODE_CHAR else str(number)


def _integer(value: gdb.Value) -> int:
    if value.type.sizeof <= 8:
        return int(value)
    # gdb 13 prints 128 bits, but makes no number of them
    return int(value.format_string(format="d" if value.type.name.startswith("i") else "u"))


def _truth(number: int) -> str:
    if number not in (0, 1):
        raise layouts.NotInitialised
    return "true" if number else "false"


def _c_like(value: gdb.Value) -> str:
    bits = (1 << 8 * value.type.sizeof) - 1
    for field in value.type.fields():
        if (field.enumval ^ int(value)) & bits == 0:  # rustc 1.63 describes -1 as 255
            return _short(field.name)
    raise layouts.NotInitialised


def _float(value: gdb.Value) -> str:
    number = float(value)
    if number != number:
        return "NaN"
    if value.type.sizeof == 4:
        candidates = (float(f"{number:.{digits}g}") for digits in range(1, 10))
        number = next((each for each in candidates if _as_single(each) == number), number)
    digits, letter, exponent = repr(number).partition("e")
    return f"{digits}e{int(exponent)}" if letter else digits


def _as_single(number: float) -> float | None:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return None


def _character(code: int) -> str:
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise layouts.NotInitialised
    return "'" + _escaped(chr(code), "'") + "'"


def _quoted(pointer: gdb.Value, length: int) -> str:
    text, is_whole = _decoded(pointer, length)
    shown = "".join(_escaped(each, '"') for each in text)
    return f'"{shown}"{"" if is_whole else "…"}'


def _characters(pointer: gdb.Value, length: int) -> list[str]:
    text, is_whole = _decoded(pointer, length)
    return [*("'" + _escaped(each, "'") + "'" for each in text), *([] if is_whole else ["…"])]


def _decoded(pointer: gdb.Value, length: int) -> tuple[str, bool]:
    """The first characters of a text of ``length`` bytes, and whether these are all."""
    read = layouts.memory(int(pointer), min(length, 4 * MAX_ELEMENTS))
    try:
        decoded = codecs.getincrementaldecoder("utf-8")().decode(read, final=length == len(read))
    except UnicodeDecodeError as error:
        raise layouts.NotInitialised("no UTF-8") from error
    return decoded[:MAX_ELEMENTS], length == len(read) and len(decoded) <= MAX_ELEMENTS


def _escaped(character: str, quote: str) -> str:
    if character == quote:
        return f"\\{quote}"
    if character in ESCAPES:
        return ESCAPES[character]
    if not character.isprintable() or unicodedata.category(character) in ("Mn", "Me"):
        return f"\\u{{{ord(character):x}}}"
    return character
