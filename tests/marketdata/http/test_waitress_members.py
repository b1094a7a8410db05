"""The undocumented members of waitress that the transport uses exist in the installed release."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from waitress import parser, receiver, task, utilities

from marketdata.http import waitress_adapter

SIGNATURES: list[tuple[Any, str, str]] = [
    (parser.HTTPRequestParser, "__init__", "(self, adj)"),
    (parser.HTTPRequestParser, "received", "(self, data)"),
    (parser.HTTPRequestParser, "parse_header", "(self, header_plus)"),
    (parser.HTTPRequestParser, "close", "(self)"),
    (receiver.ChunkedReceiver, "__init__", "(self, buf)"),
    (receiver.ChunkedReceiver, "received", "(self, s)"),
    (receiver.ChunkedReceiver, "getbuf", "(self)"),
    (receiver.FixedStreamReceiver, "getbuf", "(self)"),
    (task.Task, "__init__", "(self, channel, request)"),
    (task.Task, "service", "(self)"),
    (task.Task, "start", "(self)"),
    (task.Task, "finish", "(self)"),
    (task.Task, "write", "(self, data)"),
    (task.Task, "build_response_header", "(self)"),
    (task.Task, "set_close_on_finish", "(self) -> None"),
    (task.WSGITask, "execute", "(self)"),
    (task.WSGITask, "get_environment", "(self)"),
    (task.ErrorTask, "execute", "(self)"),
    (utilities.Error, "__init__", "(self, body)"),
    (utilities.BadRequest, "__init__", "(self, body)"),
]
ATTRIBUTES: dict[type, set[str]] = {
    parser.HTTPRequestParser: {
        "adj", "body_bytes_received", "body_rcv", "chunked", "command", "completed", "content_length", "empty", "error",
        "expect_continue", "headers", "headers_finished", "path", "query", "version",
    },
    receiver.ChunkedReceiver: {"completed", "error"},
    task.WSGITask: {
        "channel", "close_on_finish", "content_bytes_written", "content_length", "has_body", "request",
        "response_headers", "status", "version", "wrote_header",
    },
    utilities.Error: {"body", "code"},
}  # fmt: skip
READ_OF_CONNECTIONS = {"addr", "adj", "server", "write_soon", "check_client_disconnected"}
READ_OF_SERVERS = {"application", "adj", "effective_port", "server_name"}


@pytest.mark.parametrize(("owner", "name", "signature"), SIGNATURES, ids=lambda value: getattr(value, "__name__", None))
def test_a_member_has_its_signature(owner: Any, name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(owner, name))) == signature


def attributes_of(tree: ast.AST, owner: str) -> set[str]:
    """Returns the attributes that are read or set on ``owner``, or on an expression that ends in ``.owner``."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if ast.unparse(node.value).split(".")[-1] == owner}


def members(owner: type) -> set[str]:
    """Returns all attributes and methods of a class, including attributes that are set on ``self``."""
    set_on_self = [attributes_of(ast.parse(inspect.getsource(each)), "self") for each in owner.__mro__[:-1]]
    return set(dir(owner)).union(*set_on_self) - set(dir(object))


@pytest.mark.parametrize("owner", ATTRIBUTES, ids=lambda owner: owner.__name__)
def test_an_attribute_exists(owner: type) -> None:
    assert ATTRIBUTES[owner] <= members(owner)


def test_a_task_reads_nothing_else_of_a_connection() -> None:
    tree = ast.parse(inspect.getsource(task))
    assert attributes_of(tree, "channel") == READ_OF_CONNECTIONS
    assert attributes_of(tree, "server") <= READ_OF_SERVERS


def test_every_member_that_is_used_is_listed() -> None:
    listed = {name for _, name, _ in SIGNATURES} | set.union(*ATTRIBUTES.values())
    tree = ast.parse(Path(inspect.getfile(waitress_adapter)).read_text(encoding="utf-8"))
    used = set.union(*(attributes_of(tree, owner) for owner in ("self", "request", "error")))
    for owner in ATTRIBUTES:
        assert (used & members(owner)) - listed == set()
