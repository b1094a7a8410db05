"""Where Rust's standard library keeps the elements of its containers, in the memory of the program.

Its private fields differ between releases, so pointers and lengths are searched for by kind and name, not by a path.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import gdb

from cardapp.session_host.gdb_plugin.content import MAX_DEPTH, Content

ADDRESSES = 1 << 47
"""A user program's memory lies below. What would be larger has no initialised length."""
NODE_ELEMENTS = 11
"""How many elements a node of a ``BTreeMap`` holds at most, in every release."""
CONTROL_BLOCK = 1 << 16
COUNTS = 16
"""The bytes of the counts of an ``Rc`` or ``Arc``. The value lies behind them."""
_OBJECT = "_cardapp_object"

SCALARS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_CHAR)
REFERRING = re.compile(r"&(?:mut )?|\*(?:const|mut) |alloc::boxed::Box<")
TEXT = re.compile(
    rf"(?:{REFERRING.pattern})(?:str|std::path::Path|std::ffi::os_str::OsStr)(?:,.*|>)?$|alloc::(?:rc::Rc|sync::Arc)<str[,>]"
    r"|alloc::string::String$|std::path::PathBuf$|std::ffi::os_str::OsString$"
)
SLICE = re.compile(rf"(?:{REFERRING.pattern})\[")
VECTOR = re.compile(r"alloc::vec::Vec<")
DEQUE = re.compile(r"alloc::collections::vec_deque::VecDeque<")
LINKED_LIST = re.compile(r"alloc::collections::linked_list::LinkedList<")
HEAP = re.compile(r"alloc::collections::binary_heap::BinaryHeap<")
HASH_MAP = re.compile(r"(?:std::collections::hash::map|hashbrown::map)::HashMap<")
HASH_SET = re.compile(r"(?:std::collections::hash::set|hashbrown::set)::HashSet<")
BTREE_MAP = re.compile(r"alloc::collections::btree::map::BTreeMap<")
BTREE_SET = re.compile(r"alloc::collections::btree::set::BTreeSet<")
COUNTED = re.compile(r"alloc::(?:rc::Rc|sync::Arc)<")
REMAINING = re.compile(r"alloc::vec::into_iter::IntoIter<|core::slice::iter::Iter(?:Mut)?<")
CHARACTERS = re.compile(r"core::str::iter::Chars$")
OPTION = re.compile(r"core::option::Option<")
BORROWED = re.compile(r"core::cell::Ref(?:Mut)?<")
GUARD = re.compile(r"std::sync::(?:\w+::)*MutexGuard<")
PIN = re.compile(r"core::pin::Pin<")
TRANSPARENT = re.compile(r"core::(?:cell::UnsafeCell|mem::(?:\w+::)?(?:ManuallyDrop|MaybeDangling))<")

Wanted = Callable[[gdb.Field], bool]


class NotInitialised(gdb.error):  # type: ignore[misc]  # mypy does not know gdb
    """The bytes are no value of their type: it has none yet, or it was overwritten."""

    def __init__(self, reason: str = "not initialised") -> None:
        super().__init__(reason)


def unordered_contents(value: gdb.Value) -> Content | None:
    """The contents with the elements of hash tables as they lie in memory; None for a value that holds nothing.

    Raises ``gdb.error``, and so do the items.
    """
    kind = value.type
    if kind.code == gdb.TYPE_CODE_PTR:
        return _reference(value)
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return _array(value)
    if kind.code == gdb.TYPE_CODE_STRUCT:
        for pattern, reader in READERS:
            if pattern.match(kind.name or ""):
                return reader(value)
    return None


# -- looking through the library's wrappers --------------------------------------------------------------------------

_paths: dict[tuple[str, Wanted], list[str] | None] = {}


def forget_layouts() -> None:
    """Layouts are kept while one value is read: all elements of a container have one type. A new build changes them."""
    _paths.clear()


def inside(value: gdb.Value, wanted: Wanted) -> gdb.Value:
    """The first wanted field, in the value or in the structures in it. Raises ``gdb.error`` where there is none."""
    found = find(value, wanted)
    if found is None:
        raise gdb.error(f"the layout of {value.type.name} is not known")
    return found


def find(value: gdb.Value, wanted: Wanted) -> gdb.Value | None:
    """Like ``inside``, and None where there is none."""
    key = (value.type.name, wanted)
    if key not in _paths:
        _paths[key] = _path(value.type, wanted)
    path = _paths[key]
    for name in path or []:
        value = value[name]
    return None if path is None else value


def _path(kind: gdb.Type, wanted: Wanted) -> list[str] | None:
    for field in kind.fields():
        if wanted(field):
            return [field.name]
        rest = _path(field.type, wanted) if field.type.code == gdb.TYPE_CODE_STRUCT else None
        if rest is not None:
            return [field.name, *rest]
    return None


def is_pointer(field: gdb.Field) -> bool:
    """For ``inside``: a pointer that is not wrapped any more."""
    return bool(field.type.code == gdb.TYPE_CODE_PTR)


def is_scalar(field: gdb.Field) -> bool:
    """For ``inside``: a number, truth value or character."""
    return field.type.code in SCALARS and field.type.sizeof > 0


def _is_table(field: gdb.Field) -> bool:
    return str(field.type.name).startswith("hashbrown::raw::RawTable<")


def _named(*names: str) -> Wanted:
    return lambda field: field.name in names


LENGTH, CAPACITY, VTABLE = _named("len", "length"), _named("cap"), _named("vtable")
BUCKET_MASK, ITEMS = _named("bucket_mask"), _named("items")


def _number(value: gdb.Value, wanted: Wanted) -> int:
    return _as_number(inside(value, wanted))


def _as_number(value: gdb.Value) -> int:
    return int(value if value.type.code in SCALARS else inside(value, is_scalar))


def unwrapped(value: gdb.Value) -> gdb.Value:
    """The value in a cell's or lock's innermost field."""
    while TRANSPARENT.match(value.type.name or ""):
        value = value[value.type.fields()[0]]
    return value


def memory(address: int, length: int) -> bytes:
    """``length`` bytes of the program. Raises ``gdb.MemoryError``."""
    return bytes(gdb.selected_inferior().read_memory(address, length)) if length else b""


def _bytes(pointer: gdb.Value) -> gdb.Value:
    return pointer.cast(gdb.lookup_type("u8").pointer())


def _at(pointer: gdb.Value, index: int) -> gdb.Value:
    return target(pointer + index if pointer.type.target().sizeof else pointer)


def target(pointer: gdb.Value) -> gdb.Value:
    """What the pointer points to. Raises ``gdb.error`` for what gdb does not survive; see ``has_wide_tag``."""
    refuse_wide_tag(pointer.type.target())
    return pointer.dereference()


def refuse_wide_tag(kind: gdb.Type) -> None:
    if has_wide_tag(kind):
        raise gdb.error("gdb cannot read an enum whose tag has 128 bits")


def has_wide_tag(kind: gdb.Type) -> bool:
    """Whether the type holds, or points to, an enum whose tag has 128 bits, like today's ``Option<u128>``.

    gdb 13 has an error for a value of it, and gdb 16 aborts as soon as it evaluates a variable of such a type.
    """
    while kind.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_ARRAY):
        kind = kind.target()
    if not kind.dynamic or kind.code != gdb.TYPE_CODE_STRUCT:
        return False
    fields = kind.fields()
    return any(field.artificial and field.type.sizeof > 8 for field in fields) or any(
        has_wide_tag(field.type) for field in fields if field.type.code != gdb.TYPE_CODE_PTR
    )


def _checked(pointer: gdb.Value, length: int, capacity: int | None = None) -> gdb.Value:
    size = pointer.type.target().sizeof
    if not 0 < int(pointer) < ADDRESSES or not 0 <= length * max(size, 1) < ADDRESSES:
        raise NotInitialised
    if size and capacity is not None and length > capacity:
        raise NotInitialised
    return pointer


# -- containers ------------------------------------------------------------------------------------------------------


def span(value: gdb.Value) -> tuple[gdb.Value, int]:
    """A pointer to the first element, and the number of elements, of a vector, slice or text (its bytes)."""
    pointer, name = inside(value, is_pointer), value.type.name
    if COUNTED.match(name):
        pointer = _behind_counts(pointer)
    elif VECTOR.match(name):
        pointer = pointer.cast(value.type.template_argument(0).pointer())
    elif pointer.type.target().code == gdb.TYPE_CODE_STRUCT and TEXT.match(name):  # of a path
        pointer = _bytes(pointer)
    length = _number(value, LENGTH)
    return _checked(pointer, length, _capacity(value)), length


def _capacity(value: gdb.Value) -> int | None:
    found = find(value, CAPACITY)
    return None if found is None else _as_number(found)


def _array(value: gdb.Value) -> Content:
    refuse_wide_tag(value.type.target())
    low, high = value.type.range()
    return Content("sequence", high - low + 1, ((None, value[index]) for index in range(low, high + 1)))


def _sequence(value: gdb.Value) -> Content:
    pointer, length = span(value)
    return Content("sequence", length, ((None, _at(pointer, index)) for index in range(length)))


def remaining(value: gdb.Value) -> tuple[gdb.Value, int]:
    """A pointer to the next element of an iterator over a vector or slice, and the number of elements to come."""
    element = value.type.template_argument(0)
    first = value["ptr"] if value["ptr"].type.code == gdb.TYPE_CODE_PTR else inside(value["ptr"], is_pointer)
    (end,) = (field for field in value.type.fields() if field.name in ("end", "end_or_len"))
    if element.sizeof == 0 and end.name == "end_or_len":
        length = int(value[end])
    else:
        length = (int(value[end]) - int(first)) // max(element.sizeof, 1)
    return _checked(first.cast(element.pointer()), length), length


def _remaining(value: gdb.Value) -> Content:
    pointer, length = remaining(value)
    return Content("sequence", length, ((None, _at(pointer, index)) for index in range(length)))


def _deque(value: gdb.Value) -> Content:
    pointer = inside(value, is_pointer).cast(value.type.template_argument(0).pointer())
    capacity = _number(value, CAPACITY)
    if find(value, LENGTH) is not None:
        first, length = int(value["head"]), int(value["len"])
    else:  # before Rust 1.67
        first = int(value["tail"])
        length = (int(value["head"]) - first) % max(capacity, 1)
    _checked(pointer, length, capacity)
    ring = capacity or max(length, 1)  # elements without a size have no capacity
    return Content("sequence", length, ((None, _at(pointer, (first + index) % ring)) for index in range(length)))


def _linked_list(value: gdb.Value) -> Content:
    length = int(value["len"])
    if length >= ADDRESSES:
        raise NotInitialised
    elements = itertools.islice(_chain(value["head"]), length)
    return Content("sequence", length, ((None, element) for element in elements))


def _chain(link: gdb.Value) -> Iterator[gdb.Value]:
    while (variant(link) or ("", link))[0] == "Some":
        node = target(inside(link, is_pointer))
        yield node["element"]
        link = node["next"]


def _heap(value: gdb.Value) -> Content:
    return _sequence(value["data"])


def _hash_map(value: gdb.Value) -> Content:
    size, pairs = _pairs(value)
    return Content("map", size, ((pair["__0"], pair["__1"]) for pair in pairs))


def _hash_set(value: gdb.Value) -> Content:
    size, pairs = _pairs(value)
    return Content("sequence", size, ((None, pair["__0"]) for pair in pairs))


def _pairs(value: gdb.Value) -> tuple[int, Iterator[gdb.Value]]:
    table = inside(value, _is_table)
    size, buckets = _number(table, ITEMS), _number(table, BUCKET_MASK) + 1
    control = inside(table, is_pointer)
    behind = _checked(control.cast(table.type.template_argument(0).pointer()), buckets)
    if buckets & (buckets - 1) or size > buckets:
        raise NotInitialised
    return size, itertools.islice(_used(int(control), behind, buckets), size)


def _used(control: int, behind: gdb.Value, buckets: int) -> Iterator[gdb.Value]:
    """hashbrown's pairs lie before its control bytes, the first one last. A used bucket's byte has no high bit."""
    for start in range(0, buckets, CONTROL_BLOCK):
        block = memory(control + start, min(buckets - start, CONTROL_BLOCK))
        for used in re.finditer(rb"[\0-\x7f]", block):
            yield _at(behind, -(start + used.start() + 1))


def _btree_map(value: gdb.Value) -> Content:
    length = int(value["length"])
    if not length:
        return Content("map", 0, [])
    name, found = variant(value["root"]) or ("", value)
    if name != "Some" or length >= ADDRESSES:
        raise NotInitialised
    key, element = (value.type.template_argument(index).pointer() for index in (0, 1))
    node = _checked(inside(found, is_pointer), 1)
    items = _below(node, int(found["__0"]["height"]), key, element)
    return Content("map", length, itertools.islice(items, length))


def _below(node: gdb.Value, height: int, key: gdb.Type, element: gdb.Type) -> Iterator[tuple[gdb.Value, gdb.Value]]:
    """The elements of a node in their order. Behind the fields of a node with children are pointers to them."""
    size = int(node["len"])
    if size > NODE_ELEMENTS or height > MAX_DEPTH:
        raise NotInitialised
    keys, elements = node["keys"].address.cast(key), node["vals"].address.cast(element)
    children = (node + 1).cast(node.type.pointer())
    for index in range(size + 1):
        if height:
            yield from _below((children + index).dereference(), height - 1, key, element)
        if index < size:
            yield _at(keys, index), _at(elements, index)


def _btree_set(value: gdb.Value) -> Content:
    keys = _btree_map(value["map"])
    return Content("sequence", keys.size, ((None, key) for key, _ in keys.items))


# -- holders and enums -----------------------------------------------------------------------------------------------


def _holder(*values: gdb.Value) -> Content:
    return Content("holder", len(values), [(None, value) for value in values])


def _reference(pointer: gdb.Value) -> Content | None:
    if pointer.type.target().code in (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_VOID):
        return None
    return _holder(target(pointer)) if int(pointer) else _holder()


def _option(value: gdb.Value) -> Content:
    name, found = variant(value) or ("", value)
    return _holder(found["__0"]) if name == "Some" else _holder()


def _counted(value: gdb.Value) -> Content | None:
    if find(value, LENGTH) is not None:
        return _sequence(value)
    if find(value, VTABLE) is not None:
        return _trait_object(value)
    return _holder(target(_behind_counts(_checked(inside(value, is_pointer), 1))))


def _trait_object(value: gdb.Value) -> Content | None:
    """What a pointer with a vtable refers to. None: it has no vtable, or gdb does not know the type of that vtable."""
    is_counted = COUNTED.match(value.type.name)
    path = _path(value.type, VTABLE)
    if path is None:
        return None
    for name in path[:-1]:
        value = value[name]
    address = int(inside(value, is_pointer))
    if address == 0:
        return _holder()
    gdb.set_convenience_variable(_OBJECT, value)
    try:
        found = gdb.parse_and_eval(f"*${_OBJECT}")
    except gdb.error:
        return None
    finally:
        gdb.set_convenience_variable(_OBJECT, None)
    if is_counted:
        offset = -(-COUNTS // found.type.alignof) * found.type.alignof
        found = target(gdb.Value(address + offset).cast(found.type.pointer()))
    return _holder(found)


def _behind_counts(pointer: gdb.Value) -> gdb.Value:
    """A pointer to the value behind the counts of an ``Rc`` or ``Arc``, or to the first element of its slice."""
    field = next(each for each in pointer.type.target().fields() if each.name in ("value", "data"))
    return (_bytes(pointer) + field.bitpos // 8).cast(field.type.pointer())


def _borrowed(value: gdb.Value) -> Content | None:
    pointer = value["value"]
    while pointer.type.code == gdb.TYPE_CODE_STRUCT and len(pointer.type.fields()) == 1:
        pointer = pointer[pointer.type.fields()[0]]
    return _reference(pointer) if pointer.type.code == gdb.TYPE_CODE_PTR else None


def _guard(value: gdb.Value) -> Content:
    return _holder(unwrapped(target(value["lock"])["data"]))


def _pinned(value: gdb.Value) -> Content | None:
    return unordered_contents(value[value.type.fields()[0]])


READERS: list[tuple[re.Pattern[str], Callable[[gdb.Value], Content | None]]] = [
    (VECTOR, _sequence),
    (TEXT, _sequence),
    (SLICE, _sequence),
    (OPTION, _option),
    (HASH_MAP, _hash_map),
    (HASH_SET, _hash_set),
    (BTREE_MAP, _btree_map),
    (BTREE_SET, _btree_set),
    (DEQUE, _deque),
    (REMAINING, _remaining),
    (LINKED_LIST, _linked_list),
    (HEAP, _heap),
    (COUNTED, _counted),
    (BORROWED, _borrowed),
    (GUARD, _guard),
    (PIN, _pinned),
    (REFERRING, _trait_object),
]


def variant(value: gdb.Value) -> tuple[str, gdb.Value] | None:
    """Name and fields of the variant that an enum with fields has; None for a type that is none.

    gdb gives such a value a type of its own: the discriminant, if there is one, and the variant that is there.
    """
    fields = value.type.fields()
    if not fields or not fields[0].artificial:
        only = fields[0] if len(fields) == 1 else None
        if only is None or only.type.name != f"{value.type.name}::{only.name}":
            return None
    elif len(fields) != 2:
        raise NotInitialised
    return fields[-1].name, value[fields[-1]]
