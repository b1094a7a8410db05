"""A scripted server over real HTTP. A test decides its responses; by default it speaks JSON-RPC."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Raw(NamedTuple):
    """A response in bytes; ``length`` replaces the Content-Length."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None


Answer = Callable[[Any, dict[str, str]], Any]
"""Called with a request's JSON and headers; returns the response as JSON, or as a :class:`Raw`."""


class Provider:
    """Serves on a free port of this machine until ``close``; ``asked`` are the requests so far."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Any] = []
        self.connections = 0
        self.headers: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="provider")
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def respond(self, method: str, path: str, body: bytes) -> Any:
        """The response to a request. Subclasses override this to serve something other than JSON-RPC."""
        request = json.loads(body)
        self.asked.append((path, request))
        return self.answer(request, self.headers)

    def close(self) -> None:
        """Stop serving. Idempotent."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def _handler(provider) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes

            def setup(self) -> None:
                provider.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                provider.headers = dict(self.headers)
                found = provider.respond(self.command, self.path, body)
                raw = found if isinstance(found, Raw) else Raw(json.dumps(found).encode())
                self.send_response(raw.status)
                self.send_header("Content-Length", str(len(raw.body) if raw.length is None else raw.length))
                for name, value in raw.headers:
                    self.send_header(name, value)
                self.end_headers()
                with suppress(BrokenPipeError):  # the client has closed the connection
                    self.wfile.write(raw.body)
                self.close_connection = raw.length is not None

            do_GET = do_PUT = do_DELETE = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def result(request: Any, value: Callable[[str, Any], Any]) -> Any:
    """Answers a request by its method and parameters. The answers to a batch are in another order than its calls."""
    if isinstance(request, list):
        return [result(each, value) for each in reversed(request)]
    return {"jsonrpc": "2.0", "id": request["id"], "result": value(request["method"], request["params"])}


def error(request: Any, message: str, code: int = -32000) -> Any:
    found = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
    if isinstance(request, list):
        return [found | {"id": each["id"]} for each in request]
    return found | {"id": request["id"]}
