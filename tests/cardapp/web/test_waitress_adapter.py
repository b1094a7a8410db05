"""Every undocumented member of waitress that the adapter relies on still exists with its signature.

An update of waitress that changes one fails the test of that member, before anything goes wrong at run time.
"""

from __future__ import annotations

import ast
import inspect
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import waitress.channel
import waitress.parser
import waitress.receiver
import waitress.server
import waitress.task
import waitress.utilities
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.buffers import OverflowableBuffer

from cardapp.web import waitress_adapter

MEMBERS: dict[str, dict[str, str]] = {
    "channel": {
        "__init__": "(self, server, sock, addr, adj, map=None)",
        "connected": "bool",
        "handle_close": "(self)",
        "last_activity": "float",
        "parser_class": "type",
        "received": "(self, data)",
        "request": "NoneType",
        "requests": "list",
        "server": "TcpWSGIServer",
        "service": "(self)",
        "socket": "socket",
        "task_class": "type",
        "total_outbufs_len": "int",
        "will_close": "bool",
    },
    "parser": {
        "__init__": "(self, adj)",
        "body_rcv": "FixedStreamReceiver",
        "chunked": "bool",
        "close": "(self)",
        "command": "str",
        "completed": "bool",
        "empty": "bool",
        "error": "NoneType",
        "expect_continue": "bool",
        "headers": "dict",
        "headers_finished": "bool",
        "parse_header": "(self, header_plus)",
        "path": "str",
        "received": "(self, data)",
        "request_uri": "str",
    },
    "receiver": {
        "__init__": "(self, buf)",
        "__len__": "(self)",
        "completed": "bool",
        "error": "NoneType",
        "getbuf": "(self)",
        "received": "(self, s)",
    },
    "buffer": {"append": "(self, s)"},
    "error": {"__init__": "(self, body)", "body": "str", "code": "int", "to_response": "(self, ident=None)"},
    "task": {
        "channel": "HTTPChannel",
        "get_environment": "(self)",
        "has_body": "property",
        "request": "HTTPRequestParser",
        "set_close_on_finish": "(self) -> None",
        "version": "str",
    },
    "dispatcher": {
        "lock": "lock",
        "queue": "deque",
        "set_thread_count": "(self, count)",
        "start_new_thread": "(self, target, thread_no)",
        "thread_exit_cv": "Condition",
        "threads": "set",
    },
    "server": {
        "channel_class": "type",
        "close": "(self)",
        "handle_accept": "(self)",
        "trigger": "trigger",
    },
    "trigger": {"close": "(self)", "pull_trigger": "(self, thunk=None)"},
    "wasyncore": {
        "close_all": "(map=None, ignore_all=False)",
        "dispatcher": "type",
        "poll2": "(timeout=0.0, map=None)",
    },
    "waitress.server": {
        "create_server": "(application, map=None, _start=True, _sock=None, _dispatcher=None, **kw)",
    },
    "waitress.parser": {"ParsingError": "type"},
}

NOT_OF_WAITRESS = {
    "clear", "get", "lower", "shutdown", "start", "wait",  # of the standard library
    "connections", "listen", "status",  # of this product
}  # fmt: skip
"""Names in the adapter that are also members of waitress, but are used for something else."""


@pytest.fixture(scope="module")
def owners() -> Iterator[Mapping[str, Any]]:
    """One real object for each part of waitress, since many members exist on instances only."""
    loop: dict[int, Any] = {}
    dispatcher = waitress.task.ThreadedTaskDispatcher()
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    server: Any = waitress.server.create_server(print, map=loop, _dispatcher=dispatcher, sockets=[bound])
    ours, other = socket.socketpair()
    adjustments = Adjustments()
    channel = waitress.channel.HTTPChannel(server, ours, ("127.0.0.1", 1), adjustments, map=loop)
    parser = waitress.parser.HTTPRequestParser(adjustments)
    parser.received(b"POST /path HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
    buffer = OverflowableBuffer(1)
    yield {
        "channel": channel,
        "parser": parser,
        "receiver": waitress.receiver.ChunkedReceiver(buffer),
        "buffer": buffer,
        "error": waitress.utilities.BadRequest("why"),
        "task": waitress.task.WSGITask(channel, parser),
        "dispatcher": dispatcher,
        "server": server,
        "trigger": server.trigger,
        "wasyncore": wasyncore,
        "waitress.server": waitress.server,
        "waitress.parser": waitress.parser,
    }
    wasyncore.close_all(loop)
    server.trigger.close()
    other.close()


def described(owner: Any, name: str) -> str:
    """A callable's signature, any other member's type."""
    shared = inspect.getattr_static(owner if inspect.ismodule(owner) else type(owner), name, None)
    if inspect.isfunction(shared):
        return str(inspect.signature(shared))
    if isinstance(shared, property):
        return "property"
    assert hasattr(owner, name), f"waitress has no {name} any more"
    return type(getattr(owner, name)).__name__


def test_the_members_are_as_the_adapter_expects(owners: Mapping[str, Any]) -> None:
    found = {part: {name: described(owners[part], name) for name in names} for part, names in MEMBERS.items()}
    assert found == MEMBERS


def test_a_changed_signature_is_found() -> None:
    class Newer(waitress.channel.HTTPChannel):
        def received(self, data: bytes, _more: bool) -> bool:  # type: ignore[override]
            return True

    changed = Newer.__new__(Newer)
    assert described(changed, "received") != MEMBERS["channel"]["received"]
    with pytest.raises(AssertionError, match="has no gone"):
        described(changed, "gone")


def test_every_member_in_use_is_listed(owners: Mapping[str, Any]) -> None:
    """The members of waitress that the adapter uses or overrides are in the list above."""
    tree = ast.parse(inspect.getsource(waitress_adapter))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__len__"}
    used |= {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    known = {name for owner in owners.values() if not inspect.ismodule(owner) for name in dir(owner)}
    listed = {name for names in MEMBERS.values() for name in names}
    assert (used & known) - NOT_OF_WAITRESS <= listed
