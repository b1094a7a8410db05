from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from cardapp.mcp.jsonrpc import MAX_LINE
from cardapp.mcp.revisions import REVISIONS
from cardapp.mcp.server import CallContext, McpServer, Tool, ToolFailure
from cardapp.mcp.tool_schema import ToolSchema, UnusableSchema
from tests.cardapp.mcp.conftest import PATIENCE, ScriptedPeer
from tests.cardapp.mcp.example_server import example_server

HANDSHAKE = [name for name, revision in REVISIONS.items() if revision.lifecycle == "handshake"]
MODERN = "2026-07-28"
ENVELOPE = "io.modelcontextprotocol"
META = {
    f"{ENVELOPE}/protocolVersion": MODERN,
    f"{ENVELOPE}/clientInfo": {"name": "scripted", "version": "0"},
    f"{ENVELOPE}/clientCapabilities": {},
}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
ANY = {"type": "object"}

Serve = Callable[[McpServer], ScriptedPeer]


class Caller:
    """Sends requests of one revision and checks each answer with the reference types of this revision."""

    def __init__(self, peer: ScriptedPeer, revision: str) -> None:
        self.peer = peer
        self.revision = revision
        self.next_id = 0
        if revision != MODERN:
            self.ask("initialize", **OPENING | {"protocolVersion": revision})
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

    def call(self, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.ask("tools/call", name=name, arguments=arguments or {})

    def refusal(self, method: str, _meta: dict[str, Any] | None = None, **params: Any) -> tuple[int, str]:
        error = self.ask(method, _meta, **params)["error"]
        return error["code"], error["message"]


@pytest.fixture
def peer(served: Serve) -> ScriptedPeer:
    return served(example_server())


@pytest.fixture(params=REVISIONS)
def caller(peer: ScriptedPeer, request: pytest.FixtureRequest) -> Caller:
    return Caller(peer, request.param)


@pytest.fixture
def modern(peer: ScriptedPeer) -> Caller:
    return Caller(peer, MODERN)


# -- opening -----------------------------------------------------------------------------------------------------------


def initialize(peer: ScriptedPeer, **params: Any) -> dict[str, Any]:
    peer.send({"id": "open", "method": "initialize", "params": {**OPENING, **params}})
    answer: dict[str, Any] = peer.receive()
    return answer


@pytest.mark.parametrize("asked", [*HANDSHAKE, "1999-01-01", MODERN, ""])
def test_initialize_is_answered_with_the_asked_revision_or_the_latest_with_a_handshake(
    peer: ScriptedPeer, asked: str
) -> None:
    agreed = asked if asked in HANDSHAKE else "2025-11-25"
    # It is a handshake even with the envelope of the modern revision.
    result = initialize(peer, protocolVersion=asked, **({"_meta": META} if asked == MODERN else {}))["result"]
    validate_server_result("initialize", agreed, result)
    assert result == {
        "protocolVersion": agreed,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "example", "version": "1.0"},
        "instructions": "Adds and counts.",
    }
    assert initialize(peer)["error"]["code"] == -32600


def test_initialize_with_wrong_parameters_is_refused(peer: ScriptedPeer) -> None:
    for wrong in (
        {"protocolVersion": 1}, {"capabilities": None},
        *({"clientInfo": info} for info in ({"name": "x"}, {"version": "0"}, {"name": "x", "version": 1}, None)),
    ):  # fmt: skip
        assert initialize(peer, **wrong)["error"]["code"] == -32602, wrong
    assert "result" in initialize(peer)


def test_before_initialize_only_ping_is_answered(peer: ScriptedPeer) -> None:
    peer.send({"id": 1, "method": "ping"}, {"id": 2, "method": "tools/list"}, {"id": 3, "method": "resources/list"})
    assert peer.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    early = peer.receive()
    assert early["error"]["code"] == -32602
    assert "initialize" in early["error"]["message"]
    assert peer.receive()["error"]["code"] == -32601


def test_discover_lists_revisions_capabilities_and_the_server(modern: Caller) -> None:
    assert modern.ask("server/discover")["result"] == {
        "resultType": "complete",
        "supportedVersions": [MODERN, *reversed(HANDSHAKE)],
        "capabilities": {"tools": {}},
        "instructions": "Adds and counts.",
        "ttlMs": 3_600_000,
        "cacheScope": "private",
        "_meta": {f"{ENVELOPE}/serverInfo": {"name": "example", "version": "1.0"}},
    }


def test_the_envelope_of_the_modern_era_is_checked(modern: Caller) -> None:
    for version in ("2027-01-01", "2025-11-25", ""):
        error = modern.ask("tools/list", {f"{ENVELOPE}/protocolVersion": version})["error"]
        supported = {"supported": [MODERN, *reversed(HANDSHAKE)], "requested": version}
        assert (error["code"], error["data"]) == (-32022, supported)
    for name, wrong in (
        ("protocolVersion", 1), ("clientCapabilities", None), ("clientInfo", "me"), ("progressToken", 1.5),
    ):  # fmt: skip
        key = name if name == "progressToken" else f"{ENVELOPE}/{name}"
        code, message = modern.refusal("tools/list", {key: wrong})
        assert (code, name in message) == (-32602, True), message
    for number, params in enumerate(({}, {"_meta": 1}, {"_meta": {}})):
        modern.peer.send({"id": number, "method": "server/discover", "params": params})
        assert modern.peer.receive()["error"]["code"] == -32602


def test_unknown_methods_are_refused(modern: Caller) -> None:
    for method in ("ping", "initialized", "logging/setLevel", "resources/list", "subscriptions/listen"):
        assert modern.refusal(method) == (-32601, f"Method not found: {method}")


# -- tools in each revision --------------------------------------------------------------------------------------------


def test_the_list_of_tools_has_the_members_of_its_revision(caller: Caller) -> None:
    result = caller.ask("tools/list")["result"]
    assert [tool["name"] for tool in result["tools"]] == ["add", "count", "stopped", "fail", "fail_badly", "crash"]
    structured = REVISIONS[caller.revision].structured
    for tool in result["tools"]:
        assert ("outputSchema" in tool, "title" in tool) == (structured, structured)
    hints = {"ttlMs", "cacheScope", "resultType", "_meta"} if caller.revision == MODERN else set()
    assert result.keys() == {"tools"} | hints
    caller.peer.send({"id": "m", "method": "tools/list", "params": {"_meta": META}})  # a connection serves both eras
    assert caller.peer.receive()["result"]["resultType"] == "complete"
    assert caller.refusal("tools/list", cursor="x")[0] == -32602


def test_a_call_is_answered_as_its_revision_requires(caller: Caller) -> None:
    structured = REVISIONS[caller.revision].structured
    result = caller.call("add", {"a": 1, "b": 2.5})["result"]
    assert (result["isError"], result["content"]) == (False, [{"type": "text", "text": '{"sum": 3.5}'}])
    assert result.get("structuredContent") == ({"sum": 3.5} if structured else None)
    assert result.get("resultType") == ("complete" if caller.revision == MODERN else None)
    failed = caller.call("fail")["result"]
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "it cannot be done")
    failure = {"code": "no_luck", "reason": "it cannot be done", "attempts": 3}
    assert failed.get("structuredContent") == (failure if structured else None)
    if caller.revision in ("2025-11-25", MODERN):
        wrong = caller.call("add", {"a": "1", "b": 2})["result"]
        assert (wrong["isError"], wrong["structuredContent"]["code"]) == (True, "invalid_arguments")
        errors = wrong["structuredContent"]["errors"]
    else:
        error = caller.call("add", {"a": "1", "b": 2})["error"]
        assert error["code"] == -32602
        errors = error["data"]["errors"]
    assert [each["pointer"] for each in errors] == ["/a"]
    for params in ({"name": "nope"}, {"name": 1}, {}, {"name": "add", "arguments": [1, 2]}):
        assert caller.refusal("tools/call", **params)[0] == -32602, params


# -- tools -------------------------------------------------------------------------------------------------------------


def test_a_result_and_a_failure_match_the_listed_schema(modern: Caller) -> None:
    """A failure is validated too, because the TypeScript reference implementation drops one that does not match."""
    listed = {tool["name"]: ToolSchema(tool["outputSchema"]) for tool in modern.ask("tools/list")["result"]["tools"]}
    for name, arguments in (("add", {"a": 1, "b": 2}), ("fail", {}), ("add", {"a": "1"})):
        assert listed[name].faults(modern.call(name, arguments)["result"]["structuredContent"]) == ()
        assert listed[name].faults({"sum": "three"})
        assert listed[name].faults({"code": "no_luck"})


def test_a_defect_in_a_tool_is_an_internal_error_without_details(
    modern: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("crash", "fail_badly"):
        code, message = modern.refusal("tools/call", name=name)
        assert (code, message) == (-32603, f"internal error in the tool {name}; see the server's log")
        assert name in caplog.text
    assert "result" in modern.call("add", {"a": 1, "b": 1})


def test_a_server_with_invalid_tools_is_refused() -> None:
    def tool(name: str, takes: dict[str, Any], gives: dict[str, Any] = ANY) -> Tool:
        return Tool(name, "", "", takes, gives, lambda _arguments, _context: {})

    with pytest.raises(ValueError, match="same name"):
        McpServer("x", "1", [tool("a", ANY), tool("a", ANY)])
    for takes, gives in (({"type": "array"}, ANY), (ANY, {"type": "array"}), ({}, {})):
        with pytest.raises(ValueError, match="type object"):
            McpServer("x", "1", [tool("a", takes, gives)])
    for takes, gives in (({"type": "object", "required": "b"}, ANY), (ANY, {"type": "object", "required": "b"})):
        with pytest.raises(UnusableSchema):
            McpServer("x", "1", [tool("a", takes, gives)])


# -- while a call runs -------------------------------------------------------------------------------------------------


class Held:
    """A server with a tool that keeps its context and runs until ``release``."""

    def __init__(self, served: Serve, revision: str = MODERN, **options: Any) -> None:
        self.release = threading.Event()
        self.contexts: list[CallContext] = []
        self.caller = Caller(
            served(McpServer("h", "1", [Tool("held", "Held", "", ANY, ANY, self._handle)], **options)), revision
        )
        self.peer = self.caller.peer

    def _handle(self, _arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        self.contexts.append(context)
        context.progress(1)
        assert self.release.wait(PATIENCE)
        return {}

    def start(self) -> int:
        """Start a call and wait until it runs. Returns its id."""
        running = self.caller.start("tools/call", {"progressToken": 1}, name="held")
        self.peer.expect("notifications/progress")
        return running


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
    held = Held(served, "2025-11-25")
    running = held.start()
    assert held.caller.ask("ping")["result"] == {}
    assert len(held.caller.ask("tools/list")["result"]["tools"]) == 1
    held.release.set()
    assert held.peer.receive()["id"] == running


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_cancelled_call_is_notified_and_gets_no_response(served: Serve, revision: str) -> None:
    held = Held(served, revision)
    running = held.start()
    for request_id in ("unknown", None, [1], True, running):
        held.peer.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
    assert held.contexts[0].cancelled.wait(PATIENCE)
    held.contexts[0].progress(2)
    held.release.set()
    assert held.caller.ask("tools/list")["id"] == running + 1  # no answer to the cancelled call came before


def test_a_request_with_an_id_in_use_is_refused(served: Serve) -> None:
    held = Held(served)
    running = held.start()
    held.caller.next_id = running - 1
    held.caller.start("tools/call", name="held")
    refused = held.peer.receive()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    held.release.set()
    assert held.peer.receive()["id"] == running
    held.caller.next_id = running - 1
    assert "result" in held.caller.call("held")  # the id is free again


def test_calls_above_the_limit_fail_as_busy(served: Serve) -> None:
    held = Held(served, max_calls=1)
    running = held.start()
    assert held.caller.call("held")["result"]["structuredContent"]["code"] == "busy"
    held.release.set()
    assert held.peer.receive()["id"] == running
    for _ in range(3):
        assert held.caller.call("held")["result"]["isError"] is False


def test_when_a_peer_ends_its_side_its_calls_are_cancelled_and_answered(served: Serve) -> None:
    def handler(_arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        assert context.cancelled.wait(PATIENCE)
        raise ToolFailure("cancelled", "the call was cancelled")

    caller = Caller(served(McpServer("e", "1", [Tool("e", "E", "", ANY, ANY, handler)])), MODERN)
    caller.start("tools/call", name="e")
    caller.peer.end_sending()
    assert caller.peer.receive()["result"]["structuredContent"]["code"] == "cancelled"
    assert caller.peer.receive() is None


# -- invalid messages and batches --------------------------------------------------------------------------------------


def test_an_invalid_message_is_refused_and_the_connection_stays(modern: Caller) -> None:
    modern.peer.send_raw(b"garbage\n\xff\n\n[]\n{}\n")
    codes = [modern.peer.receive()["error"]["code"] for _ in range(4)]
    assert codes == [-32700, -32700, -32600, -32600]
    modern.peer.send_raw(b"[" + b" " * MAX_LINE + b"]\n")
    assert modern.peer.receive()["error"]["code"] == -32600
    modern.peer.send({"id": 5, "result": {}}, {"id": None, "error": {"code": 1, "message": "?"}}, {"method": "x/y"})
    assert "result" in modern.call("add", {"a": 1, "b": 1})


def test_a_batch_is_answered_with_one_array_in_the_revision_that_has_batches(caller: Caller) -> None:
    add = {"name": "add", "arguments": {"a": 1, "b": 2}}
    caller.peer.send(
        [
            {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": add},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            7,
            {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {}},
        ]
    )
    answers = caller.peer.receive()
    if caller.revision != "2025-03-26":
        assert answers["error"]["code"] == -32600
        return
    assert sorted(str(answer["id"]) for answer in answers) == ["None", "c", "i", "p"]
    assert next(answer for answer in answers if answer["id"] == "i")["error"]["code"] == -32600
    caller.peer.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert caller.ask("ping")["result"] == {}  # a batch of notifications got no answer
