from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from mcp_types.methods import validate_client_notification, validate_client_request

from cardapp.errors import (
    FieldError,
    InvalidValue,
    McpCancelled,
    McpClosed,
    McpProtocolError,
    McpRemoteError,
    McpTimeout,
)
from cardapp.mcp.client import MAX_TOOLS, McpClient, ToolResult
from cardapp.mcp.rpc_client import MAX_UNASKED
from cardapp.mcp.server import McpServer, UnixListener
from cardapp.mcp.tool import CallContext, Tool, ToolFailure

PATIENCE = 20.0
LONG = "x" * 100_000
Background = Callable[..., Future[Any]]
Talk = tuple[McpClient, Any]

ANY = {"type": "object"}
NEVER = {"type": "object", "required": ["never"]}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": OUTPUT}


def complete(**members: Any) -> dict[str, Any]:
    return {"resultType": "complete", "content": [], **members}


def call(client: McpClient, timeout: float = PATIENCE, maximum: float = PATIENCE, **options: Any) -> ToolResult:
    return client.call_tool("t", {"x": 1}, timeout=timeout, maximum=maximum, **options)


def start(talk: Talk, background: Background, *, tool: Any = TOOL, **options: Any) -> tuple[Future[Any], Any]:
    """Start a call in the background and answer its request for the list of tools. Returns its future and request."""
    client, peer = talk
    running = background(call, client, **options)
    listing = peer.expect("tools/list")
    validate_client_request("tools/list", client.revision, listing["params"])
    peer.answer(listing, {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"})
    request = peer.expect("tools/call")
    validate_client_request("tools/call", client.revision, request["params"])
    return running, request


@pytest.fixture(params=["modern_client", "handshake_client"])
def talk(request: pytest.FixtureRequest) -> Talk:
    found: Talk = request.getfixturevalue(request.param)
    return found


# -- results -----------------------------------------------------------------------------------------------------------


def test_a_call_returns_structure_and_text(talk: Talk, background: Background) -> None:
    running, request = start(talk, background)
    assert request["params"]["name"] == "t"
    assert request["params"]["arguments"] == {"x": 1}
    content = [{"type": "text", "text": "one"}, {"type": "image", "data": "", "mimeType": "x"}, {"text": "two"}]
    talk[1].answer(request, complete(content=content, structuredContent={"n": 1}))
    assert running.result(PATIENCE) == ToolResult({"n": 1}, False, "one\ntwo")


def test_each_request_of_the_modern_era_has_an_envelope(modern_client: Talk, background: Background) -> None:
    _, request = start(modern_client, background, on_progress=print)
    meta = request["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert set(meta["io.modelcontextprotocol/clientInfo"]) == {"name", "version"}
    assert meta["progressToken"] == request["id"]
    modern_client[1].close()


def test_a_request_of_the_handshake_era_has_no_envelope(handshake_client: Talk, background: Background) -> None:
    _, request = start(handshake_client, background)
    assert "_meta" not in request["params"]
    handshake_client[1].close()


def test_the_list_of_tools_is_fetched_again_only_after_a_change(talk: Talk, background: Background) -> None:
    client, peer = talk
    running, request = start(talk, background)
    peer.answer(request, complete(structuredContent={"n": 1}))
    running.result(PATIENCE)
    second = background(call, client)
    request = peer.expect("tools/call")
    peer.send({"method": "notifications/tools/list_changed"})
    peer.answer(request, complete(structuredContent={"n": 2}))
    second.result(PATIENCE)
    third, request = start(talk, background, tool={**TOOL, "outputSchema": {"type": "string"}})
    peer.answer(request, complete(structuredContent="now a text"))
    assert third.result(PATIENCE).structured == "now a text"


def test_a_client_with_check_result_does_not_fetch_the_tools(state_dir: Path) -> None:
    """The client does not request the list of tools. So the output schema, which forbids the result, is not applied."""
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
        assert client._tools == []
    finally:
        client.close()
        listener.stop()


@pytest.mark.parametrize("value", [[1], 7, "text", None, False])
def test_structured_content_may_be_any_json(modern_client: Talk, background: Background, value: Any) -> None:
    running, request = start(modern_client, background, tool={**TOOL, "outputSchema": {}})
    modern_client[1].answer(request, complete(structuredContent=value))
    assert running.result(PATIENCE).structured == value


def test_a_result_without_a_type_is_complete(talk: Talk, background: Background) -> None:
    running, request = start(talk, background)
    talk[1].answer(request, {"content": [], "structuredContent": {"n": 1}})
    assert running.result(PATIENCE).structured == {"n": 1}


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"resultType": "input_required", "inputRequests": {}}, "further input"),
        (complete(resultType="task"), "unknown type 'task'"),
        (complete(resultType=None), "unknown type None"),
        (complete(resultType=[[]]), "unknown type"),
        ({"resultType": "complete", "structuredContent": {"n": 1}}, "content"),
        (complete(content={}, structuredContent={"n": 1}), "content"),
        (complete(structuredContent={"n": 1}, isError="no"), "isError"),
        (complete(), "no structuredContent"),
        (complete(structuredContent={"n": "1"}), "/n"),
        (complete(structuredContent=None), "root"),
    ],
)
def test_an_invalid_result_fails_its_call_and_keeps_the_connection(
    talk: Talk, background: Background, result: dict[str, Any], reason: str
) -> None:
    running, request = start(talk, background)
    talk[1].answer(request, result)
    with pytest.raises(McpProtocolError, match=reason):
        running.result(PATIENCE)
    ping(talk, background)


def ping(talk: Talk, background: Background) -> None:
    """Check that the connection still works."""
    client, peer = talk
    running = background(client.ping, timeout=PATIENCE)
    request = peer.expect("ping" if client.lifecycle == "handshake" else "server/discover")
    validate_client_request(request["method"], client.revision, request["params"])
    peer.answer(request, {"resultType": "complete"})
    running.result(PATIENCE)


def test_a_tools_failure_is_a_result_and_need_not_match_the_schema(talk: Talk, background: Background) -> None:
    running, request = start(talk, background)
    failure = {"code": "no_luck", "reason": "why"}
    content = [{"type": "text", "text": "why"}]
    talk[1].answer(request, complete(content=content, isError=True, structuredContent=failure))
    assert running.result(PATIENCE) == ToolResult(failure, True, "why")


def test_an_error_response_fails_the_call_with_its_code(talk: Talk, background: Background) -> None:
    running, request = start(talk, background)
    talk[1].refuse(request, -32602, {"why": 1})
    with pytest.raises(McpRemoteError) as caught:
        running.result(PATIENCE)
    assert (caught.value.rpc_code, caught.value.data) == (-32602, {"why": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"type": "objekt"},
        "no schema",
    ],
)
def test_an_output_schema_that_cannot_be_used_fails_the_call(talk: Talk, background: Background, schema: Any) -> None:
    client, peer = talk
    running = background(call, client)
    listing = peer.expect("tools/list")
    peer.answer(listing, {"resultType": "complete", "tools": [{**TOOL, "outputSchema": schema}]})
    if isinstance(schema, dict) and "$ref" in schema:  # found only when the schema is applied
        peer.answer(peer.expect("tools/call"), complete(structuredContent={}))
    with pytest.raises(McpProtocolError, match="output schema"):
        running.result(PATIENCE)


def test_a_call_of_an_unlisted_tool_is_sent_and_the_server_refuses_it(talk: Talk, background: Background) -> None:
    running, request = start(talk, background, tool={**TOOL, "name": "other"})
    talk[1].refuse(request, -32602)
    with pytest.raises(McpRemoteError):
        running.result(PATIENCE)


def test_arguments_that_are_not_json_raise_invalid_value(talk: Talk) -> None:
    client, _ = talk
    with pytest.raises(InvalidValue, match="sent"):
        client._rpc.request("x", {"n": float("nan")}, timeout=PATIENCE)


# -- pages of tools ----------------------------------------------------------------------------------------------------


def test_cursors_are_followed(talk: Talk, background: Background) -> None:
    client, peer = talk
    listing = background(client.list_tools, timeout=PATIENCE)
    first = peer.expect("tools/list")
    assert "cursor" not in first["params"]
    peer.answer(first, {"resultType": "complete", "tools": [{"name": "a"}], "nextCursor": ""})
    second = peer.expect("tools/list")
    assert second["params"]["cursor"] == ""
    peer.answer(second, {"resultType": "complete", "tools": [{"name": "b"}]})
    assert [tool["name"] for tool in listing.result(PATIENCE)] == ["a", "b"]


@pytest.mark.parametrize(
    ("cursor", "pages"),
    [(lambda n: "same", 2), (lambda n: str(n % 3), 4), (str, 101), (lambda n: 7, 1)],
    ids=["the same", "three in turn", "ever new", "no string"],
)
def test_endless_cursors_are_refused(
    talk: Talk, background: Background, cursor: Callable[[int], Any], pages: int
) -> None:
    client, peer = talk
    listing = background(client.list_tools, timeout=PATIENCE)
    for page in range(pages):
        peer.answer(peer.expect("tools/list"), {"resultType": "complete", "tools": [], "nextCursor": cursor(page)})
    with pytest.raises(McpProtocolError, match="does not end"):
        listing.result(PATIENCE)


def test_an_excessive_number_of_tools_is_refused(talk: Talk, background: Background) -> None:
    client, peer = talk
    listing = background(client.list_tools, timeout=PATIENCE)
    tools = [{"name": str(number)} for number in range(MAX_TOOLS + 1)]
    peer.answer(peer.expect("tools/list"), {"resultType": "complete", "tools": tools})
    with pytest.raises(McpProtocolError, match=f"more than {MAX_TOOLS} tools"):
        listing.result(PATIENCE)


@pytest.mark.parametrize("tools", [None, {}, [7], [{"title": "nameless"}]])
def test_a_list_of_tools_with_an_invalid_tool_is_refused(talk: Talk, background: Background, tools: Any) -> None:
    client, peer = talk
    listing = background(client.list_tools, timeout=PATIENCE)
    peer.answer(peer.expect("tools/list"), {"resultType": "complete", "tools": tools})
    with pytest.raises(McpProtocolError, match="tools/list"):
        listing.result(PATIENCE)


# -- waiting -----------------------------------------------------------------------------------------------------------


def cancelled(talk: Talk, request: dict[str, Any]) -> None:
    """Check that the next message cancels ``request``."""
    client, peer = talk
    note = peer.expect("notifications/cancelled")
    validate_client_notification(note["method"], client.revision, note["params"])
    assert note["params"]["requestId"] == request["id"]


def test_a_timeout_cancels_the_call_and_a_late_reply_is_ignored(talk: Talk, background: Background) -> None:
    """The fault of python-sdk's issue 1458: the client did not cancel the request at the server."""
    running, request = start(talk, background, timeout=0.2)
    cancelled(talk, request)
    with pytest.raises(McpTimeout):
        running.result(PATIENCE)
    talk[1].answer(request, complete(structuredContent={"n": 1}))
    ping(talk, background)


def test_progress_is_reported_in_order_and_only_while_it_increases(talk: Talk, background: Background) -> None:
    reports: list[tuple[float, float | None, str | None]] = []
    running, request = start(talk, background, on_progress=lambda *report: reports.append(report))
    token = request["params"]["_meta"]["progressToken"]

    def report(**params: Any) -> None:
        talk[1].send({"method": "notifications/progress", "params": {"progressToken": token, **params}})

    report(progress=1, total=3, message="one")
    report(progress=1, message="again")
    report(progress=0.5)
    report(progress="2")
    report(progress=True)
    report()
    report(progress=2, total="three", message=7)
    report(progress=9, progressToken="unknown")
    report(progress=9, progressToken=[token])
    report(progress=9, progressToken=str(token))
    report(progress=3.5)
    talk[1].answer(request, complete(structuredContent={"n": 1}))
    report(progress=4, message="after the end")
    running.result(PATIENCE)
    ping(talk, background)
    assert reports == [(1, 3, "one"), (2, None, None), (3.5, None, None)]


def test_a_peer_that_floods_an_idle_connection_is_disconnected(talk: Talk) -> None:
    client, peer = talk
    line = {"method": "notifications/message", "params": {"data": LONG}}
    for _ in range(MAX_UNASKED // len(LONG) - 10):
        peer.send(line)
    assert not client.closed.is_set()
    with contextlib.suppress(OSError):
        for _ in range(20):
            peer.send(line)
    assert client.closed.wait(PATIENCE)
    with pytest.raises(McpProtocolError, match="without a request"):
        client.ping()


def test_long_texts_of_a_peer_are_cut(talk: Talk, background: Background) -> None:
    reports: list[Any] = []
    running, request = start(talk, background, on_progress=lambda *report: reports.append(report))
    token = request["params"]["_meta"]["progressToken"]
    talk[1].send(
        {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": LONG}}
    )
    talk[1].send({"id": request["id"], "error": {"code": -32000, "message": LONG}})
    with pytest.raises(McpRemoteError) as refused:
        running.result(PATIENCE)
    assert reports == [(1, None, LONG[:1000])]
    assert refused.value.detail == LONG[:2000] + "…"


def test_progress_restarts_the_timeout(talk: Talk, background: Background) -> None:
    running, request = start(talk, background, timeout=1.0, on_progress=lambda *report: None)
    token = request["params"]["_meta"]["progressToken"]
    for done in range(4):
        threading.Event().wait(0.4)
        talk[1].send({"method": "notifications/progress", "params": {"progressToken": token, "progress": done}})
    talk[1].answer(request, complete(structuredContent={"n": 1}))
    assert running.result(PATIENCE).structured == {"n": 1}


def test_progress_that_does_not_increase_does_not_restart_the_timeout(talk: Talk, background: Background) -> None:
    running, request = start(talk, background, timeout=0.3, on_progress=lambda *report: None)
    token = request["params"]["_meta"]["progressToken"]
    while not running.done():
        talk[1].send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        threading.Event().wait(0.02)
    with pytest.raises(McpTimeout):
        running.result(PATIENCE)


def test_progress_does_not_extend_the_maximum(talk: Talk, background: Background) -> None:
    running, request = start(talk, background, maximum=0.5, on_progress=lambda *report: None)
    token, done = request["params"]["_meta"]["progressToken"], 0
    while not running.done():
        done += 1
        talk[1].send({"method": "notifications/progress", "params": {"progressToken": token, "progress": done}})
        threading.Event().wait(0.005)
    with pytest.raises(McpTimeout, match="maximum"):
        running.result(PATIENCE)
    cancelled(talk, request)


def test_a_cancel_event_ends_the_wait_and_tells_the_server(talk: Talk, background: Background) -> None:
    cancel = threading.Event()
    running, request = start(talk, background, cancel=cancel)
    cancel.set()
    with pytest.raises(McpCancelled):
        running.result(PATIENCE)
    cancelled(talk, request)
    ping(talk, background)


def test_a_cancel_event_also_ends_the_request_for_the_list_of_tools(talk: Talk, background: Background) -> None:
    client, peer = talk
    cancel = threading.Event()
    running = background(call, client, cancel=cancel)
    request = peer.expect("tools/list")
    cancel.set()
    with pytest.raises(McpCancelled):
        running.result(PATIENCE)
    cancelled(talk, request)


def test_an_exception_of_on_progress_cancels_the_call(talk: Talk, background: Background) -> None:
    def taker(*_report: Any) -> None:
        raise LookupError("the taker failed")

    running, request = start(talk, background, on_progress=taker)
    token = request["params"]["_meta"]["progressToken"]
    talk[1].send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    with pytest.raises(LookupError):
        running.result(PATIENCE)
    cancelled(talk, request)


def test_replies_are_matched_by_id_in_any_order_and_only_once(talk: Talk, background: Background) -> None:
    client, peer = talk
    first, request = start(talk, background)
    others = [background(call, client) for _ in range(3)]
    requests = [peer.expect("tools/call") for _ in others]
    ids = [request["id"], *(each["id"] for each in requests)]
    assert len(set(ids)) == 4
    for wrong in (str(request["id"]), 10_000, "nobody"):
        peer.answer({"id": wrong}, complete(structuredContent={"n": -1}))
    peer.send({"id": None, "error": {"code": -32700, "message": "what?"}})
    for n, each in enumerate([*reversed(requests), request]):
        peer.answer(each, complete(structuredContent={"n": each["id"]}))
        peer.answer(each, complete(structuredContent={"n": -1 - n}))
    results = {running.result(PATIENCE).structured["n"] for running in (first, *others)}
    assert results == set(ids)


# -- the end of the peer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last_words", [b"", b'{"jsonrpc":"2.0","id":'])
def test_all_pending_calls_fail_when_the_peer_ends(talk: Talk, background: Background, last_words: bytes) -> None:
    """The fault of python-sdk's issues 332 and 1577: calls kept waiting after the peer had ended."""
    client, peer = talk
    first, _ = start(talk, background)
    others = [background(call, client) for _ in range(3)]
    for _ in others:
        peer.expect("tools/call")
    peer.send_raw(last_words)
    peer.close()
    for running in (first, *others):
        with pytest.raises(McpClosed, match="middle of a message" if last_words else "gone"):
            running.result(PATIENCE)
    assert client.closed.wait(PATIENCE)
    with pytest.raises(McpClosed):
        client.ping()


def test_a_reply_right_before_the_end_is_delivered(talk: Talk, background: Background) -> None:
    running, request = start(talk, background)
    talk[1].answer(request, complete(structuredContent={"n": 1}))
    talk[1].close()
    assert running.result(PATIENCE).structured == {"n": 1}


def test_close_fails_pending_calls_and_is_idempotent(talk: Talk, background: Background) -> None:
    client, peer = talk
    running, _ = start(talk, background)
    client.close()
    client.close()
    with pytest.raises(McpClosed, match="this side"):
        running.result(PATIENCE)
    assert peer.receive() is None
    assert client.closed.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "mcp-client"]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"garbage\n",
        b"\xff\xff\n",
        b'{"jsonrpc":"2.0","id":1,"result":[]}\n',
        b'{"jsonrpc":"2.0"}\n',
        b"[]\n",
        b'[{"jsonrpc":"2.0","method":"notifications/x"}]\n',
        b"x" * (4 * 1024 * 1024 + 1),
    ],
    ids=["garbage", "not utf-8", "bad result", "no message", "empty batch", "batch", "huge line"],
)
def test_an_invalid_message_ends_the_connection(talk: Talk, background: Background, nonsense: bytes) -> None:
    client, peer = talk
    running, _ = start(talk, background)
    peer.send_raw(nonsense)
    with pytest.raises(McpProtocolError):
        running.result(PATIENCE)
    assert client.closed.wait(PATIENCE)
    with pytest.raises(McpProtocolError):
        client.ping()


def test_messages_may_be_split_at_every_byte(talk: Talk, background: Background) -> None:
    running, request = start(talk, background)
    line = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"n":5}}}\n' % request["id"]
    for byte in line:
        talk[1].send_raw(bytes([byte]))
    assert running.result(PATIENCE).structured == {"n": 5}


def test_a_peer_that_does_not_read_is_disconnected(talk: Talk) -> None:
    client, _ = talk
    with pytest.raises(McpClosed, match="read"):
        client._rpc.request("x", {"text": "x" * 10_000_000}, timeout=0.2)


# -- what the server asks ----------------------------------------------------------------------------------------------


def test_requests_of_a_server_are_answered_in_the_handshake_era(handshake_client: Talk, background: Background) -> None:
    _, peer = handshake_client
    peer.send({"id": "a", "method": "ping"}, {"id": 1, "method": "sampling/createMessage", "params": {}})
    assert peer.receive() == {"jsonrpc": "2.0", "id": "a", "result": {}}
    refused = peer.receive()
    assert (refused["id"], refused["error"]["code"]) == (1, -32601)
    peer.send({"method": "notifications/message", "params": {"level": "info", "data": ""}})
    ping(handshake_client, background)


def test_requests_of_a_server_are_ignored_in_the_modern_era(modern_client: Talk, background: Background) -> None:
    modern_client[1].send({"id": "a", "method": "ping"}, {"id": 1, "method": "roots/list"})
    ping(modern_client, background)  # the answer to this ping is read after both requests
    ping(modern_client, background)  # answers to the requests would have come before this one


@pytest.mark.parametrize("handshake_client", ["2025-03-26"], indirect=True)
def test_batches_are_accepted_in_the_revision_that_has_them(handshake_client: Talk, background: Background) -> None:
    running, request = start(handshake_client, background)
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": complete(structuredContent={"n": 1})}
    handshake_client[1].send([{"jsonrpc": "2.0", "method": "notifications/x"}, answer])
    assert running.result(PATIENCE).structured == {"n": 1}


@pytest.mark.parametrize("handshake_client", ["2025-03-26"], indirect=True)
def test_an_invalid_message_in_a_batch_ends_the_connection(handshake_client: Talk) -> None:
    client, peer = handshake_client
    peer.send([{"jsonrpc": "2.0", "method": "notifications/x"}, 7])
    assert client.closed.wait(PATIENCE)
