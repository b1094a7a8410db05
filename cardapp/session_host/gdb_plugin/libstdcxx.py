"""What libstdc++ has in its containers and iterators: its own printers, and what they do not do."""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gdb

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
_TREE = re.compile(r"std::(?:\w+::)*(?:multi)?(?:map|set)<")
_MAX_HEIGHT = 128
"""The height of a red-black tree with as many elements as a machine can address."""
_CAPACITY = re.compile(r", capacity \d+")
_LIBSTDCXX = "/usr/share/gcc/python"
"""Where Debian keeps the printers of libstdc++. gdb itself loads them with the shared library only."""


def name_of(value: gdb.Value) -> str:
    """The name of the value's type, behind typedefs and qualifiers."""
    return value.type.strip_typedefs().unqualified().name or ""


@functools.cache
def printers() -> Callable[[gdb.Value], Any]:
    """The printers for a program that has libstdc++ in itself."""
    if not os.path.isfile(f"{_LIBSTDCXX}/libstdcxx/v6/printers.py"):
        return lambda _value: None
    sys.path.append(_LIBSTDCXX)
    module = importlib.import_module("libstdcxx.v6.printers")
    if module.libstdcxx_printer is None:
        module.build_libstdcxx_dictionary()
    return module.libstdcxx_printer  # type: ignore[no-any-return]


def hint(printer: Any) -> str | None:
    """How gdb is to show the children: "array", "map", "string" or None."""
    return printer.display_hint() if hasattr(printer, "display_hint") else None


def canonical(words: Any) -> str | None:
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


def pointer_in(printer: Any) -> gdb.Value:
    """The pointer of a ``std::unique_ptr`` or ``std::shared_ptr``."""
    return next(iter(printer.children()))[1]


def held_by(printer: Any) -> gdb.Value | None:
    """What an optional, a variant or an any contains. The printers of GCC 12 and 14 name it differently."""
    name = "contained_value" if hasattr(printer, "contained_value") else "_contained_value"
    held: gdb.Value | None = getattr(printer, name)
    return held


def is_iterator(value: gdb.Value) -> bool:
    """Whether the value is an iterator that :func:`pointed` knows."""
    return name_of(value).partition("<")[0] in _POINTERS | _NODES


def pointed(iterator: gdb.Value) -> gdb.Value | None:
    """The element to which an iterator points; None if it points nowhere.

    The end is recognised only for maps and sets: other iterators do not tell.
    """
    kind = name_of(iterator).partition("<")[0]
    place = iterator[(_POINTERS | _NODES)[kind]]
    if int(place) == 0:
        return None
    if kind in _POINTERS:
        return place.dereference()
    node = place.type.strip_typedefs().target().strip_typedefs()
    base = node.fields()[0].type if node.fields()[0].is_base_class else node
    if kind.startswith("std::_Rb_tree") and _is_header(place):
        return None
    return _behind(place, base, iterator.type.strip_typedefs().template_argument(0))


def _is_header(node: gdb.Value) -> bool:
    """Whether a node of a tree is the one in the container itself, to which ``end()`` points. It is red, and no root
    is."""
    parent = node["_M_parent"]
    return int(node["_M_color"]) == 0 and (int(parent) == 0 or parent["_M_parent"] == node)


def is_tree(value: gdb.Value) -> bool:
    """Whether the value is a ``std::map`` or ``std::set``, or one with equal keys."""
    return _TREE.match(name_of(value)) is not None


def tree_elements(container: gdb.Value) -> Iterator[gdb.Value]:
    """The elements of a ``std::map`` (pairs) or ``std::set``, in order. Unlike that of the printers, this iteration
    also ends if the memory is not initialised and the links form a ring.

    :raises gdb.error: the memory cannot be read, or is no tree.
    """
    tree = container["_M_t"]
    element = tree.type.strip_typedefs().template_argument(1)
    node, left = tree["_M_impl"]["_M_header"]["_M_left"], int(tree["_M_impl"]["_M_node_count"])
    while left > 0:
        yield _behind(node, node.type.strip_typedefs().target().strip_typedefs(), element)
        left -= 1
        node = _next(node) if left else node


def _next(node: gdb.Value) -> gdb.Value:
    """The node with the next greater key: the first one of the right branch or, without one, the nearest parent of
    which the node is in the left branch."""
    if int(below := node["_M_right"]):
        for _ in range(_MAX_HEIGHT):
            if int(below["_M_left"]) == 0:
                return below
            below = below["_M_left"]
    else:
        for _ in range(_MAX_HEIGHT):
            parent = node["_M_parent"]
            if int(parent["_M_right"]) != int(node):
                return parent
            node = parent
    raise gdb.error("the memory holds no tree")


def _behind(place: gdb.Value, links: gdb.Type, element: gdb.Type) -> gdb.Value:
    """The element in the node at ``place``, behind its links to other nodes."""
    address = -(-(int(place) + links.sizeof) // element.alignof) * element.alignof
    return gdb.Value(address).cast(element.pointer()).dereference()
