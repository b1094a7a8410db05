from __future__ import annotations

import json
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_types.methods import parse_server_notification, validate_server_result

from cardapp.mcp.revisions import REVISIONS
from cardapp.mcp.server import CallContext, McpServer, Tool, ToolFailure
from cardapp.mcp.tool_schema import ToolSchema, UnusableSchema

EXAMPLE = runpy.run_path(str(Path(__file__).with_name("example_server.py")))
HANDSHAKE = [name for name, revision in REVISIONS.items() if revision.lifecycle == "handshake"]
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "scripted", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ANY = {"type": "object"}
PATIENCE = 20.0

Serve = Callable[[McpServer], Any]


class Caller:
    """Sends requests of one revision and checks each answer with the reference types of this revision."""

    def __init__(self, peer: Any, revision: str) -> None:
        self.peer = peer
        self.revision = revision
        self.next_id = 0
        if revision != MODERN:
            self.ask("initialize", protocolVersion=revision, capabilities={}, clientInfo={"name": "x", "version": "0"})
            peer.send({"method": "notifications/initialized"})

    def start(self, method: str, _meta: dict[str, Any] | None = None, **params: Any) -> int:
        self.next_id += 1
        meta = {**(META if self.revision == MODERN else {}), **(_meta or {})}
        self.peer.send({"id": self.next_id, "method": method, "params": {**params, "_meta": meta}})
        return self.next_id

    def ask(self, method: str, _meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        request_id = self.start(method, _meta, **params)
        answer: dict[str, Any] = self.peer.receive()
        assert answer["id"] == request_id, answer
        if "result" in answer:
            validate_server_result(method, self.revision, answer["result"])
        return answer

    def call(self, name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        return self.ask("tools/call", meta, name=name, arguments=arguments or {})


@pytest.fixture(params=[*HANDSHAKE, MODERN])
def caller(served: Serve, request: pytest.FixtureRequest) -> Caller:
    return Caller(served(EXAMPLE["example_server"]()), request.param)


@pytest.fixture
def modern(served: Serve) -> Caller:
    return Caller(served(EXAMPLE["example_server"]()), MODERN)


# -- opening -----------------------------------------------------------------------------------------------------------


def initialize(peer: Any, **params: Any) -> dict[str, Any]:
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
    peer.send({"id": "open", "method": "initialize", "params": {**client, **params}})
    answer: dict[str, Any] = peer.receive()
    return answer


@pytest.mark.parametrize("asked", HANDSHAKE)
def test_a_known_revision_is_accepted(served: Serve, asked: str) -> None:
    result = initialize(served(EXAMPLE["example_server"]()), protocolVersion=asked)["result"]
    validate_server_result("initialize", asked, result)
    assert result == {
        "protocolVersion": asked,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "example", "version": "1.0"},
        "instructions": "Adds and counts.",
    }


@pytest.mark.parametrize("asked", ["1999-01-01", MODERN, ""])
def test_another_revision_is_answered_with_the_latest_that_has_a_handshake(served: Serve, asked: str) -> None:
    answer = initialize(served(EXAMPLE["example_server"]()), protocolVersion=asked)
    assert answer["result"]["protocolVersion"] == "2025-11-25"


def test_initialize_is_a_handshake_even_with_the_modern_envelope(served: Serve) -> None:
    answer = initialize(served(EXAMPLE["example_server"]()), _meta=META)
    assert answer["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("wrong", [{"protocolVersion": 1}, {"capabilities": None}, {"clientInfo": {"name": "x"}}])
def test_initialize_with_wrong_parameters_is_refused(served: Serve, wrong: dict[str, Any]) -> None:
    peer = served(EXAMPLE["example_server"]())
    assert initialize(peer, **wrong)["error"]["code"] == -32602
    assert "result" in initialize(peer)


def test_a_second_initialize_is_refused(served: Serve) -> None:
    peer = served(EXAMPLE["example_server"]())
    initialize(peer)
    assert initialize(peer)["error"]["code"] == -32600


def test_before_initialize_only_ping_is_answered(served: Serve) -> None:
    peer = served(EXAMPLE["example_server"]())
    peer.send({"id": 1, "method": "ping"}, {"id": 2, "method": "tools/list"}, {"id": 3, "method": "resources/list"})
    assert peer.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    early = peer.receive()
    assert early["error"]["code"] == -32602
    assert "initialize" in early["error"]["message"]
    assert peer.receive()["error"]["code"] == -32601


def test_discover_lists_revisions_capabilities_and_the_server(modern: Caller) -> None:
    result = modern.ask("server/discover")["result"]
    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == [MODERN, *reversed(HANDSHAKE)]
    assert result["capabilities"] == {"tools": {}}
    assert result["instructions"] == "Adds and counts."
    assert result["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "example", "version": "1.0"}}
    assert result["ttlMs"] >= 0
    assert result["cacheScope"] == "private"


@pytest.mark.parametrize("version", ["2027-01-01", "2025-11-25", ""])
def test_the_error_of_an_unsupported_revision_lists_the_supported_ones(modern: Caller, version: str) -> None:
    error = modern.ask("tools/list", {"io.modelcontextprotocol/protocolVersion": version})["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": [MODERN, *reversed(HANDSHAKE)], "requested": version}


@pytest.mark.parametrize(
    "wrong",
    [
        {"io.modelcontextprotocol/protocolVersion": 1},
        {"io.modelcontextprotocol/clientCapabilities": None},
        {"io.modelcontextprotocol/clientInfo": "me"},
        {"progressToken": 1.5},
    ],
)
def test_an_incomplete_envelope_is_refused(modern: Caller, wrong: dict[str, Any]) -> None:
    error = modern.ask("tools/list", wrong)["error"]
    assert error["code"] == -32602
    assert next(iter(wrong)).rpartition("/")[2] in error["message"]


def test_discover_without_an_envelope_is_refused(served: Serve) -> None:
    peer = served(EXAMPLE["example_server"]())
    peer.send({"id": 1, "method": "server/discover"}, {"id": 2, "method": "server/discover", "params": {"_meta": 1}})
    assert peer.receive()["error"]["code"] == -32602
    assert peer.receive()["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/list", "subscriptions/listen", "nonsense"])
def test_unknown_methods_are_refused(modern: Caller, method: str) -> None:
    assert modern.ask(method)["error"]["code"] == -32601


def test_one_connection_serves_both_eras(served: Serve) -> None:
    peer = served(EXAMPLE["example_server"]())
    caller = Caller(peer, "2025-06-18")
    assert "resultType" not in caller.call("add", {"a": 1, "b": 2})["result"]
    peer.send({"id": "m", "method": "tools/list", "params": {"_meta": META}})
    assert peer.receive()["result"]["resultType"] == "complete"


# -- tools -------------------------------------------------------------------------------------------------------------


def test_the_list_of_tools_has_the_members_of_its_revision(caller: Caller) -> None:
    result = caller.ask("tools/list")["result"]
    assert [tool["name"] for tool in result["tools"]] == [tool.name for tool in EXAMPLE["TOOLS"]]
    assert "nextCursor" not in result
    structured = REVISIONS[caller.revision].structured
    for tool in result["tools"]:
        assert ("outputSchema" in tool, "title" in tool) == (structured, structured)
    assert ("ttlMs" in result, "cacheScope" in result) == (caller.revision == MODERN,) * 2


def test_an_unknown_cursor_is_refused(caller: Caller) -> None:
    assert caller.ask("tools/list", cursor="x")["error"]["code"] == -32602


def test_a_result_has_text_and_structured_content(caller: Caller) -> None:
    result = caller.call("add", {"a": 1, "b": 2.5})["result"]
    assert result["isError"] is False
    assert result["content"] == [{"type": "text", "text": '{"sum": 3.5}'}]
    structured = REVISIONS[caller.revision].structured
    assert result.get("structuredContent") == ({"sum": 3.5} if structured else None)
    assert result.get("resultType") == ("complete" if caller.revision == MODERN else None)


def test_a_tools_failure_is_a_result(caller: Caller) -> None:
    result = caller.call("fail")["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == "it cannot be done"
    if REVISIONS[caller.revision].structured:
        assert result["structuredContent"] == {"code": "no_luck", "reason": "it cannot be done", "attempts": 3}


@pytest.mark.parametrize(("name", "arguments"), [("add", {"a": 1, "b": 2}), ("fail", {}), ("add", {"a": "1"})])
def test_a_result_is_validated_by_the_schema_that_was_listed(
    caller: Caller, name: str, arguments: dict[str, Any]
) -> None:
    """A failure is validated too, because the TypeScript reference implementation drops one that does not match."""
    listed = {tool["name"]: tool for tool in caller.ask("tools/list")["result"]["tools"]}
    structured = caller.call(name, arguments).get("result", {}).get("structuredContent", {})
    if REVISIONS[caller.revision].structured and structured:
        schema = ToolSchema(listed[name]["outputSchema"])
        assert schema.faults(structured) == ()
        assert schema.faults({"sum": "three"})
        assert schema.faults({"code": "no_luck"})


def test_a_listed_schema_keeps_its_dialect_and_its_definitions(served: Serve) -> None:
    number = {"$ref": "#/$defs/number"}
    output = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"number": {"type": "number"}},
        **EXAMPLE["schema"](["sum"], sum=number),
    }
    tool = Tool("add", "Add", "Adds.", ANY, output, lambda *_: {"sum": 3})
    [listed] = Caller(served(McpServer("x", "1", [tool])), MODERN).ask("tools/list")["result"]["tools"]
    schema = ToolSchema(listed["outputSchema"])
    assert listed["outputSchema"]["$schema"] == output["$schema"]
    assert schema.faults({"sum": 3}) == ()
    assert schema.faults({"sum": "three"})


def test_wrong_arguments_are_answered_as_the_revision_requires(caller: Caller) -> None:
    answer = caller.call("add", {"a": "1", "b": 2})
    if caller.revision in ("2025-11-25", MODERN):
        assert answer["result"]["isError"] is True
        assert answer["result"]["structuredContent"]["code"] == "invalid_arguments"
        errors = answer["result"]["structuredContent"]["errors"]
    else:
        assert answer["error"]["code"] == -32602
        errors = answer["error"]["data"]["errors"]
    assert [error["pointer"] for error in errors] == ["/a"]


@pytest.mark.parametrize("params", [{"name": "nope"}, {"name": 1}, {}, {"name": "add", "arguments": [1, 2]}])
def test_malformed_calls_are_protocol_errors(caller: Caller, params: dict[str, Any]) -> None:
    assert caller.ask("tools/call", **params)["error"]["code"] == -32602


@pytest.mark.parametrize("name", ["crash", "fail_badly"])
def test_a_defect_in_a_tool_is_an_internal_error_without_details(
    modern: Caller, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = modern.call(name)["error"]
    assert error["code"] == -32603
    assert name in error["message"]
    assert "internal detail" not in error["message"]
    assert name in caplog.text
    assert "result" in modern.call("add", {"a": 1, "b": 1})


def test_too_deeply_nested_arguments_are_refused_and_the_connection_stays(served: Serve) -> None:
    tree = {"type": "object", "additionalProperties": {"$ref": "#"}}
    tool = Tool("deep", "Deep", "", tree, ANY, lambda _arguments, _context: {})
    caller = Caller(served(McpServer("deep", "1", [tool])), MODERN)
    arguments: dict[str, Any] = {}
    for _ in range(400):
        arguments = {"a": arguments}
    answer = caller.call("deep", arguments)
    assert answer["error"]["code"] == -32602
    assert "result" in caller.call("deep")


def test_a_request_is_answered_although_the_input_ends_at_once() -> None:
    """The input of ``serve_stdio`` ends after the request. What the tool prints must not be in the output."""
    call = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode() + b"\n"
    command = [sys.executable, str(Path(__file__).with_name("example_server.py"))]
    done = subprocess.run(command, input=line, capture_output=True, timeout=PATIENCE, check=True)
    answers = [json.loads(each) for each in done.stdout.splitlines()]
    assert [answer["result"]["structuredContent"] for answer in answers] == [{"sum": 3}]
    assert b"what a tool prints" in done.stderr


def test_a_server_with_invalid_tools_is_refused() -> None:
    def tool(name: str, schema: dict[str, Any]) -> Tool:
        return Tool(name, "", "", schema, ANY, lambda _arguments, _context: {})

    with pytest.raises(ValueError, match="same name"):
        McpServer("x", "1", [tool("a", ANY), tool("a", ANY)])
    with pytest.raises(ValueError, match="type object"):
        McpServer("x", "1", [tool("a", {"type": "array"})])
    with pytest.raises(UnusableSchema):
        McpServer("x", "1", [tool("a", {"type": "object", "required": "b"})])


# -- while a call runs -------------------------------------------------------------------------------------------------


def test_progress_is_sent_before_the_result_and_increases(caller: Caller) -> None:
    request_id = caller.start("tools/call", {"progressToken": "token"}, name="count", arguments={"steps": 3})
    seen = [caller.peer.receive() for _ in range(4)]
    for message in seen[:3]:
        parse_server_notification(message["method"], caller.revision, message["params"])
    messages = [message["params"].get("message") for message in seen[:3]]
    expected = ["step 1", "step 2", "step 3"] if REVISIONS[caller.revision].progress_message else [None] * 3
    assert messages == expected
    assert [message["params"]["progress"] for message in seen[:3]] == [1, 2, 3]
    assert {message["params"]["progressToken"] for message in seen[:3]} == {"token"}
    assert seen[3]["id"] == request_id


def test_a_call_without_a_progress_token_gets_no_progress(caller: Caller) -> None:
    assert "result" in caller.call("count", {"steps": 3})


def held(release: threading.Event, contexts: list[CallContext]) -> Tool:
    """A tool that keeps its context and runs until ``release``."""

    def handler(_arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        contexts.append(context)
        context.progress(1)
        assert release.wait(PATIENCE)
        return {}

    return Tool("held", "Held", "", ANY, ANY, handler)


def test_only_progress_that_increases_is_sent_and_none_after_the_end(served: Serve) -> None:
    contexts: list[CallContext] = []

    def handler(_arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        contexts.append(context)
        for done in (1.0, 1.0, 0.5, 2.0):
            context.progress(done)
        return {}

    caller = Caller(served(McpServer("p", "1", [Tool("p", "P", "", ANY, ANY, handler)])), MODERN)
    caller.start("tools/call", {"progressToken": 7}, name="p")
    assert [caller.peer.receive()["params"]["progress"] for _ in range(2)] == [1.0, 2.0]
    assert "result" in caller.peer.receive()
    contexts[0].progress(3.0)
    assert caller.ask("server/discover")["result"]["resultType"] == "complete"


def test_ping_and_other_calls_are_answered_during_a_call(served: Serve) -> None:
    release = threading.Event()
    caller = Caller(served(McpServer("h", "1", [held(release, [])])), "2025-11-25")
    running = caller.start("tools/call", {"progressToken": 1}, name="held")
    caller.peer.expect("notifications/progress")
    assert caller.ask("ping")["result"] == {}
    assert len(caller.ask("tools/list")["result"]["tools"]) == 1
    release.set()
    assert caller.peer.receive()["id"] == running


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_cancelled_call_is_notified_and_gets_no_response(served: Serve, revision: str) -> None:
    release, contexts = threading.Event(), list[CallContext]()
    caller = Caller(served(McpServer("h", "1", [held(release, contexts)])), revision)
    running = caller.start("tools/call", {"progressToken": 1}, name="held")
    caller.peer.expect("notifications/progress")
    for request_id in ("unknown", None, [1], True, running):
        caller.peer.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
    assert contexts[0].cancelled.wait(PATIENCE)
    contexts[0].progress(2)
    release.set()
    assert caller.ask("tools/list")["id"] == running + 1  # no answer to the cancelled call came before


def test_a_request_with_an_id_in_use_is_refused(served: Serve) -> None:
    release = threading.Event()
    caller = Caller(served(McpServer("h", "1", [held(release, [])])), MODERN)
    running = caller.start("tools/call", {"progressToken": 1}, name="held")
    caller.peer.expect("notifications/progress")
    caller.next_id = running - 1
    caller.start("tools/call", name="held")
    refused = caller.peer.receive()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    release.set()
    assert caller.peer.receive()["id"] == running
    caller.next_id = running - 1
    assert "result" in caller.call("held")  # the slot for a call is free again


def test_calls_above_the_limit_fail_as_busy(served: Serve) -> None:
    release = threading.Event()
    caller = Caller(served(McpServer("h", "1", [held(release, [])], max_calls=1)), MODERN)
    running = caller.start("tools/call", {"progressToken": 1}, name="held")
    caller.peer.expect("notifications/progress")
    assert caller.call("held")["result"]["structuredContent"]["code"] == "busy"
    release.set()
    assert caller.peer.receive()["id"] == running
    for _ in range(3):
        assert caller.call("held")["result"]["isError"] is False


def test_a_call_for_which_there_is_no_thread_fails_as_busy(served: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(served(McpServer("h", "1", EXAMPLE["TOOLS"], max_calls=1)), MODERN)
    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", no_thread)
        assert caller.call("add", {"a": 1, "b": 2})["result"]["structuredContent"]["code"] == "busy"
    # The id and the slot of the call are free again, and the connection still works.
    caller.next_id -= 1
    assert caller.call("add", {"a": 1, "b": 2})["result"]["structuredContent"] == {"sum": 3}


def no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_when_a_peer_ends_its_side_its_calls_are_cancelled_and_answered(served: Serve) -> None:
    def handler(_arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        assert context.cancelled.wait(PATIENCE)
        raise ToolFailure("cancelled", "the call was cancelled")

    caller = Caller(served(McpServer("e", "1", [Tool("e", "E", "", ANY, ANY, handler)])), MODERN)
    caller.start("tools/call", name="e")
    caller.peer.end_sending()
    assert caller.peer.receive()["result"]["structuredContent"]["code"] == "cancelled"
    assert caller.peer.receive() is None


def test_a_peer_that_vanishes_during_a_call_affects_no_other(served: Serve) -> None:
    contexts: list[CallContext] = []
    release = threading.Event()
    caller = Caller(served(McpServer("h", "1", [held(release, contexts)])), MODERN)
    caller.start("tools/call", {"progressToken": 1}, name="held")
    caller.peer.expect("notifications/progress")
    caller.peer.close()
    assert contexts[0].cancelled.wait(PATIENCE)
    release.set()


# -- nonsense ----------------------------------------------------------------------------------------------------------


def test_invalid_data_is_answered_and_the_connection_stays(modern: Caller) -> None:
    modern.peer.send_raw(b"garbage\n\xff\n\n[]\n{}\n")
    codes = [modern.peer.receive()["error"]["code"] for _ in range(4)]
    assert codes == [-32700, -32700, -32600, -32600]
    modern.peer.send({"id": 5, "result": {}}, {"id": None, "error": {"code": 1, "message": "?"}}, {"method": "x/y"})
    assert "result" in modern.call("add", {"a": 1, "b": 1})


def test_a_huge_line_is_refused_and_the_connection_stays(modern: Caller) -> None:
    modern.peer.send_raw(b"[" + b" " * (4 * 1024 * 1024) + b"]\n")
    assert modern.peer.receive()["error"]["code"] == -32600
    assert "result" in modern.call("add", {"a": 1, "b": 1})


def test_requests_may_be_split_at_every_byte(modern: Caller) -> None:
    line = b'{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"nope","_meta":%s}}\n'

    for byte in line % json.dumps(META).encode():
        modern.peer.send_raw(bytes([byte]))
    assert modern.peer.receive()["error"]["message"] == "Unknown tool: nope"


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [name for name in [*HANDSHAKE, MODERN] if name != "2025-03-26"])
def test_batches_are_refused_in_revisions_without_them(served: Serve, revision: str) -> None:
    caller = Caller(served(EXAMPLE["example_server"]()), revision)
    caller.peer.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
    assert caller.peer.receive()["error"]["code"] == -32600


def test_a_batch_is_answered_with_one_array(served: Serve) -> None:
    caller = Caller(served(EXAMPLE["example_server"]()), "2025-03-26")
    call = {"name": "add", "arguments": {"a": 1, "b": 2}}
    caller.peer.send(
        [
            {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": call},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            7,
            {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {}},
        ]
    )
    answers = caller.peer.receive()
    assert isinstance(answers, list)
    assert {answer["id"] for answer in answers} == {"c", "p", None, "i"}
    assert next(answer for answer in answers if answer["id"] == "i")["error"]["code"] == -32600


def test_a_batch_of_notifications_gets_no_answer(served: Serve) -> None:
    caller = Caller(served(EXAMPLE["example_server"]()), "2025-03-26")
    caller.peer.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert caller.ask("ping")["result"] == {}


def test_a_cancelled_call_of_a_batch_is_left_out_of_its_answers(served: Serve) -> None:
    release, contexts = threading.Event(), list[CallContext]()
    caller = Caller(served(McpServer("h", "1", [held(release, contexts)])), "2025-03-26")
    call = {"name": "held", "_meta": {"progressToken": 1}}
    caller.peer.send(
        [
            {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": call},
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        ]
    )
    caller.peer.expect("notifications/progress")
    caller.peer.send({"method": "notifications/cancelled", "params": {"requestId": "c"}})
    assert contexts[0].cancelled.wait(PATIENCE)
    release.set()
    assert [answer["id"] for answer in caller.peer.receive()] == ["p"]
