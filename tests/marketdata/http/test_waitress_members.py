"""The undocumented members of waitress that the transport uses exist in the installed release."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

from waitress import parser, receiver, utilities

from marketdata.http import response_task, waitress_adapter

SIGNATURES: list[tuple[Any, str, str]] = [
    (parser.HTTPRequestParser, "__init__", "(self, adj)"),
    (parser.HTTPRequestParser, "received", "(self, data)"),
    (parser.HTTPRequestParser, "parse_header", "(self, header_plus)"),
    (parser.HTTPRequestParser, "close", "(self)"),
    (parser.HTTPRequestParser, "get_body_stream", "(self)"),
    (receiver.ChunkedReceiver, "__init__", "(self, buf)"),
    (receiver.ChunkedReceiver, "received", "(self, s)"),
    (receiver.ChunkedReceiver, "getbuf", "(self)"),
    (receiver.FixedStreamReceiver, "__init__", "(self, cl, buf)"),
    (receiver.FixedStreamReceiver, "received", "(self, data)"),
    (receiver.FixedStreamReceiver, "getbuf", "(self)"),
    (utilities.Error, "__init__", "(self, body)"),
    (utilities.BadRequest, "__init__", "(self, body)"),
]
ATTRIBUTES: dict[type, set[str]] = {
    parser.HTTPRequestParser: {
        "adj", "body_bytes_received", "body_rcv", "chunked", "command", "completed", "content_length", "empty", "error",
        "expect_continue", "headers", "headers_finished", "path", "query", "request_uri", "version",
    },
    receiver.ChunkedReceiver: {"completed", "error"},
    utilities.Error: {"body", "code"},
}  # fmt: skip


def attributes_of(tree: ast.AST, owner: str) -> set[str]:
    """Returns the attributes that are read or set on ``owner``, or on an expression that ends in ``.owner``."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if ast.unparse(node.value).split(".")[-1] == owner}


def members(owner: type) -> set[str]:
    """Returns all attributes and methods of a class, including attributes that are set on ``self``."""
    set_on_self = [attributes_of(ast.parse(inspect.getsource(each)), "self") for each in owner.__mro__[:-1]]
    return set(dir(owner)).union(*set_on_self) - set(dir(object))


def test_the_members_are_there_with_their_signatures() -> None:
    for owner, name, signature in SIGNATURES:
        assert str(inspect.signature(getattr(owner, name))) == signature, (owner, name)
    for owner, names in ATTRIBUTES.items():
        assert names <= members(owner), owner


def test_every_member_that_is_used_is_listed() -> None:
    listed = {name for _, name, _ in SIGNATURES} | set.union(*ATTRIBUTES.values())
    trees = [
        ast.parse(Path(inspect.getfile(each)).read_text(encoding="utf-8")) for each in (waitress_adapter, response_task)
    ]
    owners = ((trees[0], "self"), (trees[0], "error"), (trees[1], "request"))
    used = set.union(*(attributes_of(*each) for each in owners))
    for owner in ATTRIBUTES:
        assert (used & members(owner)) - listed == set(), owner
