"""What the adapter uses of waitress, held to the release that is installed: each member exists, with its signature."""

from __future__ import annotations

import ast
import inspect
import threading
from pathlib import Path
from typing import Any

import pytest
from waitress import channel, parser, receiver, server, task, trigger, utilities, wasyncore

from marketdata.http import waitress_adapter, waitress_tasks
from marketdata.http.listener.channel import Channel
from marketdata.http.listener.parser import Parser
from tests.marketdata.api.conftest import eventually
from tests.marketdata.api.wire import connected, listening, quick

SIGNATURES: list[tuple[Any, str, str]] = [
    (channel.HTTPChannel, "__init__", "(self, server, sock, addr, adj, map=None)"),
    (channel.HTTPChannel, "service", "(self)"),
    (channel.HTTPChannel, "received", "(self, data)"),
    (channel.HTTPChannel, "readable", "(self)"),
    (channel.HTTPChannel, "writable", "(self)"),
    (channel.HTTPChannel, "send", "(self, data, do_close=True)"),
    (channel.HTTPChannel, "handle_write", "(self)"),
    (channel.HTTPChannel, "handle_close", "(self)"),
    (channel.HTTPChannel, "write_soon", "(self, data)"),
    (channel.HTTPChannel, "send_continue", "(self)"),
    (channel.HTTPChannel, "cancel", "(self)"),
    (channel.HTTPChannel, "_flush_outbufs_below_high_watermark", "(self)"),
    (parser.HTTPRequestParser, "__init__", "(self, adj)"),
    (parser.HTTPRequestParser, "received", "(self, data)"),
    (parser.HTTPRequestParser, "parse_header", "(self, header_plus)"),
    (parser.HTTPRequestParser, "close", "(self)"),
    (receiver.ChunkedReceiver, "__init__", "(self, buf)"),
    (receiver.ChunkedReceiver, "received", "(self, s)"),
    (receiver.ChunkedReceiver, "getbuf", "(self)"),
    (receiver.FixedStreamReceiver, "getbuf", "(self)"),
    (task.Task, "__init__", "(self, channel, request)"),
    (task.WSGITask, "write", "(self, data)"),
    (task.WSGITask, "build_response_header", "(self)"),
    (task.WSGITask, "set_close_on_finish", "(self) -> None"),
    (task.ErrorTask, "execute", "(self)"),
    (task.ErrorTask, "write", "(self, data)"),
    (server, "create_server", "(application, map=None, _start=True, _sock=None, _dispatcher=None, **kw)"),
    (server.TcpWSGIServer, "add_task", "(self, task)"),
    (server.TcpWSGIServer, "pull_trigger", "(self)"),
    (trigger.trigger, "pull_trigger", "(self, thunk=None)"),
    (trigger.trigger, "close", "(self)"),
    (utilities.Error, "__init__", "(self, body)"),
    (utilities.BadRequest, "__init__", "(self, body)"),
    (wasyncore, "poll2", "(timeout=0.0, map=None)"),
    (wasyncore, "close_all", "(map=None, ignore_all=False)"),
    (wasyncore.dispatcher, "close", "(self)"),
]

ATTRIBUTES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "channel": {
        "addr": tuple, "adj": object, "close_when_flushed": bool, "connected": bool, "outbuf_lock": threading.Condition,
        "request": parser.HTTPRequestParser, "requests": list, "requests_lock": object, "server": object,
        "socket": object, "total_outbufs_len": int, "will_close": bool, "task_class": type, "error_task_class": type,
        "parser_class": object,
    },
    "parser": {
        "body_bytes_received": int, "body_rcv": receiver.FixedStreamReceiver, "chunked": bool, "command": str,
        "completed": bool, "content_length": int, "empty": bool, "error": (type(None), utilities.Error),
        "expect_continue": bool, "headers": dict, "headers_finished": bool, "path": str, "version": str,
    },
    "task": {
        "channel": object, "close_on_finish": bool, "content_bytes_written": int, "content_length": (type(None), int),
        "has_body": bool, "request": object, "response_headers": list, "start_time": (int, float), "status": str,
        "version": str, "wrote_header": bool,
    },
    "receiver": {"completed": bool, "error": (type(None), utilities.Error)},
    "error": {"body": str, "code": int},
    "server": {"channel_class": object, "next_channel_cleanup": (int, float), "task_dispatcher": object,
               "trigger": trigger.trigger},
    "options": {"outbuf_high_watermark": int},
}  # fmt: skip
"""Of instances as a request is arriving."""

CLASSES: dict[str, type] = {
    "channel": channel.HTTPChannel, "parser": parser.HTTPRequestParser, "task": task.ErrorTask,
    "receiver": receiver.ChunkedReceiver, "error": utilities.Error, "server": server.TcpWSGIServer,
}  # fmt: skip

OFFERED = {
    "channel": {
        "connected", "socket", "will_close", "outbuf_lock", "received", "send", "write_soon", "handle_close",
        "__init__",
    },
    "parser": {
        "version", "command", "path", "headers", "chunked", "content_length", "body_bytes_received", "close",
        "__init__",
    },
}  # fmt: skip
"""waitress' own names that the adapter's docstrings pass on to the listener."""


@pytest.mark.parametrize(("owner", "name", "signature"), SIGNATURES, ids=lambda value: getattr(value, "__name__", None))
def test_a_member_has_its_signature(owner: Any, name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(owner, name))) == signature


def test_an_attribute_has_its_type() -> None:
    with listening(quick, body_bytes=10_000) as listener, connected(listener.port) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\nx")
        eventually(lambda: any(each.arriving for each in listener.channels()))
        (found,) = listener.channels()
        assert found.arriving is not None
        instances = {
            "channel": found, "parser": found.arriving, "task": task.WSGITask(found, found.arriving),
            "receiver": receiver.ChunkedReceiver(None), "error": utilities.BadRequest("why"),
            "server": listener._server._server, "options": found.adj,
        }  # fmt: skip
        for kind, attributes in ATTRIBUTES.items():
            for name, wanted in attributes.items():
                assert isinstance(getattr(instances[kind], name), wanted), f"{kind}.{name}"


def members(owner: type) -> set[str]:
    """Every attribute and method of a class of waitress, those that are set on ``self`` too."""
    found = set(dir(owner)) - set(dir(object))
    for each in owner.__mro__[:-1]:
        tree = ast.parse(inspect.getsource(each))
        attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        found |= {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "self"}
    return found


def names(module: Any, only: str | None = None) -> set[str]:
    """The attributes and methods that a module, or its classes from ``only``, names; those in strings too."""
    tree: ast.AST = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    if only is not None:
        tree = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == only)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.ClassDef):
            assigned = [each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
            targets = [
                target for each in assigned for target in getattr(each, "targets", [getattr(each, "target", None)])
            ]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("kind", CLASSES)
def test_an_attribute_is_one_of_waitress(kind: str) -> None:
    """The adapter sets some of them itself: those must not be its own alone."""
    assert ATTRIBUTES[kind].keys() <= members(CLASSES[kind])


@pytest.mark.parametrize("kind", CLASSES)
def test_every_member_that_the_adapter_names_is_listed(kind: str) -> None:
    listed = {name for _, name, _ in SIGNATURES} | {name for each in ATTRIBUTES.values() for name in each}
    used = (names(waitress_adapter) | names(waitress_tasks)) & members(CLASSES[kind])
    assert used - listed - {"_map", "__len__"} == set()


@pytest.mark.parametrize(("ours", "kind"), [(Channel, "channel"), (Parser, "parser")])
def test_the_listener_names_only_what_the_adapter_offers(ours: type, kind: str) -> None:
    used = names(inspect.getmodule(ours), ours.__name__) & members(CLASSES[kind])
    assert used - OFFERED[kind] == set()
    assert all(f"``{name}``" in (waitress_adapter.__doc__ or "") + inspect.getsource(ours.__base__)
               for name in OFFERED[kind] - {"__init__", "handle_close"})  # fmt: skip
