"""The bridge that the conformance suite uses, tested with peers that speak HTTP themselves."""

from __future__ import annotations

import json
import runpy
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client

from cardapp.errors import McpRemoteError
from cardapp.mcp.client import McpClient
from cardapp.mcp.server import UnixListener
from tests.functional.mcp_http_bridge import HttpBack, HttpFront

pytestmark = pytest.mark.functional

EXAMPLE = Path(__file__).resolve().parent.parent / "cardapp" / "mcp" / "example_server.py"
PATIENCE = 20.0
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}},
}


@pytest.fixture
def front(state_dir: Path) -> Iterator[HttpFront]:
    listener = UnixListener(state_dir / "s", runpy.run_path(str(EXAMPLE))["example_server"]())
    listener.start()
    with HttpFront(state_dir / "s") as front:
        yield front
    listener.stop()


@pytest.mark.parametrize(("mode", "agreed"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_reference_client_calls_our_server_over_http(
    front: HttpFront, mode: Literal["legacy", "auto"], agreed: str
) -> None:
    seen: list[float] = []

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        seen.append(progress)

    async def script() -> None:
        with anyio.fail_after(PATIENCE):
            async with Client(front.url, mode=mode) as client:
                assert client.session.protocol_version == agreed
                assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
                assert (await client.call_tool("fail", {})).is_error
                await client.call_tool("count", {"steps": 3}, progress_callback=note)

    anyio.run(script)
    assert seen == [1, 2, 3]


def test_our_client_calls_our_server_through_both_bridges(front: HttpFront) -> None:
    end = HttpBack(front.url).client_end
    seen: list[float] = []
    with closing(McpClient(end, end, timeout=PATIENCE)) as client:
        assert client.revision == "2026-07-28"
        assert client.call_tool("add", {"a": 1, "b": 2}, timeout=5, maximum=5).structured == {"sum": 3}
        client.call_tool("count", {"steps": 3}, timeout=5, maximum=5, on_progress=lambda done, *_: seen.append(done))
        with pytest.raises(McpRemoteError, match="Unknown tool: nope"):
            client.call_tool("nope", {}, timeout=5, maximum=5)
    assert seen == [1, 2, 3]


def request(url: str, method: str, body: Any = None, **headers: str) -> tuple[int, str | None, Any]:
    """Status, session id and JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        answer = opener.open(asked, timeout=PATIENCE)
    except urllib.error.HTTPError as refusal:
        answer = refusal
    with answer:
        text = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, answer.headers.get("Mcp-Session-Id"), json.loads(text) if is_json else None


def test_a_session_lives_until_it_is_deleted(front: HttpFront) -> None:
    status, session, opened = request(front.url, "POST", OPENING)
    assert (status, opened["result"]["protocolVersion"]) == (200, "2025-11-25")
    assert session
    named = {"Mcp-Session-Id": session}
    assert request(front.url, "POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **named)[0] == 202
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert request(front.url, "POST", ping, **named) == (200, session, {"jsonrpc": "2.0", "id": 2, "result": {}})
    assert request(front.url, "GET", **named)[0] == 405
    assert request(front.url, "DELETE", **named)[0] == 204
    assert request(front.url, "POST", ping, **named)[0] == 404
    assert request(front.url, "DELETE", **named)[0] == 404


def test_an_error_of_the_modern_era_has_its_http_status(front: HttpFront) -> None:
    version = "io.modelcontextprotocol/protocolVersion"
    for meta, method, status in (({}, "server/discover", 400), ({version: "2026-07-28"}, "ping", 400)):
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
        found = request(front.url, "POST", asked)
        assert (found[0], found[1], "error" in found[2]) == (status, None, True)
    meta = {version: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": meta}}
    assert request(front.url, "POST", asked)[0] == 404


class Refusing(BaseHTTPRequestHandler):
    """Answers the first request with an error that names no id, the second one with no message at all."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(400)
        self.end_headers()
        if message["method"] == "server/discover":
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Server not initialized"}}
            self.wfile.write(json.dumps(error).encode())
        else:
            self.wfile.write(b"go away")

    def log_message(self, *_line: object) -> None:
        pass


def test_a_refusal_without_an_id_answers_its_request() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        end = HttpBack(f"http://127.0.0.1:{server.server_address[1]}/").client_end
        with pytest.raises(McpRemoteError, match=r"HTTP 400.*go away"):
            McpClient(end, end, timeout=PATIENCE)
        server.shutdown()
        serving.join()
