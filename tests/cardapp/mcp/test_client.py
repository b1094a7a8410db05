from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from mcp_types.methods import validate_client_request

from cardapp.errors import FieldError, McpProtocolError
from cardapp.mcp.client import MAX_TOOLS, McpClient, ToolResult
from cardapp.mcp.server import McpServer, UnixListener
from cardapp.mcp.tool import CallContext, Tool, ToolFailure
from tests.cardapp.mcp.conftest import PATIENCE

Background = Callable[..., Future[Any]]
Talk = tuple[McpClient, Any]

ANY = {"type": "object"}
NEVER = {"type": "object", "required": ["never"]}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": OUTPUT}


def complete(**members: Any) -> dict[str, Any]:
    return {"resultType": "complete", "content": [], **members}


def call(client: McpClient, **options: Any) -> ToolResult:
    return client.call_tool("t", {"x": 1}, **{"timeout": PATIENCE, "maximum": PATIENCE, **options})


def start(talk: Talk, background: Background, *, tool: Any = None, **options: Any) -> tuple[Future[ToolResult], Any]:
    """Start a call in the background; if ``tool`` is given, list it first. Returns the call's future and request."""
    client, peer = talk
    running = background(call, client, **options)
    if tool is not None:
        listing = peer.expect("tools/list")
        validate_client_request("tools/list", client.revision, listing["params"])
        peer.answer(listing, {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"})
    request = peer.expect("tools/call")
    validate_client_request("tools/call", client.revision, request["params"])
    return running, request


def result_of(talk: Talk, background: Background, result: dict[str, Any], *, tool: Any = None) -> ToolResult:
    running, request = start(talk, background, tool=tool)
    talk[1].answer(request, result)
    return running.result(PATIENCE)


def change_tools(talk: Talk) -> None:
    talk[1].send({"method": "notifications/tools/list_changed"})


def ping(talk: Talk, background: Background) -> None:
    """Check that the connection still works."""
    client, peer = talk
    running = background(client.ping, timeout=PATIENCE)
    request = peer.expect("ping" if client.lifecycle == "handshake" else "server/discover")
    validate_client_request(request["method"], client.revision, request["params"])
    peer.answer(request, {"resultType": "complete"})
    running.result(PATIENCE)


@pytest.fixture(params=["modern_client", "handshake_client"])
def talk(request: pytest.FixtureRequest) -> Talk:
    found: Talk = request.getfixturevalue(request.param)
    return found


# -- results -----------------------------------------------------------------------------------------------------------


def test_a_call_returns_structure_and_text(talk: Talk, background: Background) -> None:
    client, peer = talk
    running, request = start(talk, background, tool=TOOL, on_progress=lambda *_report: None)
    assert (request["params"]["name"], request["params"]["arguments"]) == ("t", {"x": 1})
    meta = {"progressToken": request["id"]}
    if client.lifecycle == "stateless":
        meta |= {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "cardapp", "version": "1"},
        }
    assert request["params"]["_meta"] == meta
    content = [{"type": "text", "text": "one"}, {"type": "image", "data": "", "mimeType": "x"}, {"text": "two"}]
    peer.answer(request, complete(content=content, structuredContent={"n": 1}))
    assert running.result(PATIENCE) == ToolResult({"n": 1}, False, "one\ntwo")
    running, request = start(talk, background)
    assert ("_meta" in request["params"]) == (client.lifecycle == "stateless")
    peer.answer(request, {"content": [], "structuredContent": {"n": 2}})  # a result without a type is complete
    assert running.result(PATIENCE).structured == {"n": 2}
    ping(talk, background)


def test_a_tools_failure_is_a_result_and_need_not_match_the_schema(modern_client: Talk, background: Background) -> None:
    failure = {"code": "no_luck", "reason": "why"}
    failed = complete(content=[{"type": "text", "text": "why"}], isError=True, structuredContent=failure)
    assert result_of(modern_client, background, failed, tool=TOOL) == ToolResult(failure, True, "why")


def test_an_invalid_result_fails_its_call_and_keeps_the_connection(modern_client: Talk, background: Background) -> None:
    result_of(modern_client, background, complete(structuredContent={"n": 1}), tool=TOOL)
    for result, reason in (
        ({"resultType": "input_required", "inputRequests": {}}, "further input"),
        (complete(resultType="task"), "unknown type 'task'"),
        (complete(resultType=None), "unknown type None"),
        (complete(resultType=[[]]), "unknown type"),
        ({"resultType": "complete", "structuredContent": {"n": 1}}, "content must be a list"),
        (complete(content={}, structuredContent={"n": 1}), "content must be a list"),
        (complete(structuredContent={"n": 1}, isError="no"), "isError a boolean"),
        (complete(), "no structuredContent"),
        (complete(structuredContent={"n": "1"}), "output schema at /n"),
        (complete(structuredContent=None), "output schema at its root"),
    ):
        with pytest.raises(McpProtocolError, match=reason):
            result_of(modern_client, background, result)
    ping(modern_client, background)


def test_an_output_schema_that_cannot_be_used_fails_the_call(modern_client: Talk, background: Background) -> None:
    for schema in (
        {"$ref": "https://example.com/schema.json"},  # found only when the schema is applied
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"type": "objekt"},
        "no schema",
    ):
        client, peer = modern_client
        running = background(call, client)
        peer.answer(peer.expect("tools/list"), {"tools": [{**TOOL, "outputSchema": schema}]})
        if "$ref" in schema:
            peer.answer(peer.expect("tools/call"), complete(structuredContent={}))
        with pytest.raises(McpProtocolError, match="output schema"):
            running.result(PATIENCE)
        change_tools(modern_client)
        ping(modern_client, background)


def test_a_client_with_check_result_applies_it_in_place_of_the_listed_schemas(state_dir: Path) -> None:
    checked: list[tuple[str, Any]] = []

    def check(name: str, structured: Any) -> tuple[FieldError, ...]:
        checked.append((name, structured))
        return (FieldError("/n", "is 2"),) if structured == {"n": 2} else ()

    def count(arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        if arguments.get("fail"):
            raise ToolFailure("no_luck", "it cannot be done")
        return {"n": arguments["n"]}

    listener = UnixListener(state_dir / "s", McpServer("s", "1", [Tool("t", "", "", ANY, NEVER, count)]))
    listener.start()
    client = McpClient.connect(state_dir / "s", timeout=PATIENCE, check_result=check)
    try:
        called = client.call_tool("t", {"n": 1}, timeout=PATIENCE, maximum=PATIENCE)
        assert called.structured == {"n": 1}
        assert client.call_tool("t", {"fail": 1}, timeout=PATIENCE, maximum=PATIENCE).is_error
        with pytest.raises(McpProtocolError, match="what this client expects at /n: is 2"):
            client.call_tool("t", {"n": 2}, timeout=PATIENCE, maximum=PATIENCE)
        assert checked == [("t", {"n": 1}), ("t", {"n": 2})]
    finally:
        client.close()
        listener.stop()


# -- the list of tools -------------------------------------------------------------------------------------------------


def test_the_list_of_tools_is_fetched_again_only_after_a_change(modern_client: Talk, background: Background) -> None:
    result_of(modern_client, background, complete(structuredContent={"n": 1}), tool=TOOL)
    running, request = start(modern_client, background)
    change_tools(modern_client)
    modern_client[1].answer(request, complete(structuredContent={"n": 2}))
    running.result(PATIENCE)
    text = {**TOOL, "outputSchema": {"type": "string"}}
    assert result_of(modern_client, background, complete(structuredContent="a text"), tool=text).structured == "a text"


def test_cursors_are_followed(modern_client: Talk, background: Background) -> None:
    client, peer = modern_client
    listing = background(client.list_tools, timeout=PATIENCE)
    first = peer.expect("tools/list")
    assert "cursor" not in first["params"]
    peer.answer(first, {"resultType": "complete", "tools": [{"name": "a"}], "nextCursor": ""})
    second = peer.expect("tools/list")
    assert second["params"]["cursor"] == ""
    peer.answer(second, {"resultType": "complete", "tools": [{"name": "b"}]})
    assert [tool["name"] for tool in listing.result(PATIENCE)] == ["a", "b"]


def test_endless_cursors_are_refused(modern_client: Talk, background: Background) -> None:
    client, peer = modern_client
    cursors: tuple[tuple[Callable[[int], Any], int], ...] = (
        (lambda page: "same", 2), (lambda page: str(page % 3), 4), (str, 101), (lambda page: 7, 1),
    )  # fmt: skip
    for cursor, pages in cursors:
        listing = background(client.list_tools, timeout=PATIENCE)
        for page in range(pages):
            peer.answer(peer.expect("tools/list"), {"resultType": "complete", "tools": [], "nextCursor": cursor(page)})
        with pytest.raises(McpProtocolError, match="does not end"):
            listing.result(PATIENCE)


def test_a_list_with_too_many_or_with_invalid_tools_is_refused(modern_client: Talk, background: Background) -> None:
    client, peer = modern_client
    most = [{"name": str(number)} for number in range(MAX_TOOLS)]
    for tools, reason in (
        ([*most, {"name": "more"}], f"more than {MAX_TOOLS} tools"),
        *((tools, "must be a list of objects with a name") for tools in (None, {}, [7], [{"title": "nameless"}])),
        (most, None),
    ):
        listing = background(client.list_tools, timeout=PATIENCE)
        peer.answer(peer.expect("tools/list"), {"resultType": "complete", "tools": tools})
        if reason is None:
            assert listing.result(PATIENCE) == most
            continue
        with pytest.raises(McpProtocolError, match=reason):
            listing.result(PATIENCE)


# -- what the server asks ----------------------------------------------------------------------------------------------


def test_requests_of_a_server_are_answered_in_the_handshake_era_only(talk: Talk, background: Background) -> None:
    client, peer = talk
    peer.send({"id": "a", "method": "ping"})
    if client.lifecycle == "handshake":
        assert peer.receive() == {"jsonrpc": "2.0", "id": "a", "result": {}}
    ping(talk, background)  # the answer to this ping is read after the request
    ping(talk, background)  # an answer to the request would have come before this one


@pytest.mark.parametrize("handshake_client", ["2025-03-26"], indirect=True)
def test_batches_are_accepted_in_the_revision_that_has_them(handshake_client: Talk, background: Background) -> None:
    running, request = start(handshake_client, background, tool=TOOL)
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": complete(structuredContent={"n": 1})}
    handshake_client[1].send([{"jsonrpc": "2.0", "method": "notifications/x"}, answer])
    assert running.result(PATIENCE).structured == {"n": 1}
