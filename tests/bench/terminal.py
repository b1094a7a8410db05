"""A program on a pseudo-terminal, drawn by xterm.js: what the benches compare the page's editor with.

python -m tests.bench.terminal NODE_MODULES COLUMNS ROWS PROGRAM [ARGUMENT…]

Prints its address. A WebSocket message is what was read from the terminal at once; each page has a program of its own.
"""

from __future__ import annotations

import fcntl
import os
import pty
import socket
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from simple_websocket import ConnectionClosed, Server

PAGE = """<!DOCTYPE html>
<link rel="stylesheet" href="/css/xterm.css">
<div id="place"></div>
<script src="/lib/xterm.js"></script>
<script>
const font = { fontFamily: '"Noto Sans Mono", monospace', fontSize: 13 };
globalThis.terminal = new Terminal({ cols: COLUMNS, rows: ROWS, ...font });
terminal.open(document.getElementById('place'));
const socket = new WebSocket(`ws://${location.host}/terminal`);
socket.binaryType = 'arraybuffer';
socket.onmessage = (message) => terminal.write(new Uint8Array(message.data));
terminal.onData((keys) => socket.send(keys));
terminal.onRender(({ start, end }) => {
  const lines = [];
  for (let row = start; row <= end; row += 1) lines.push(terminal.buffer.active.getLine(row).translateToString());
  probe.drawn(lines.join('\\n'));
});
terminal.focus();
</script>
"""
TYPES = {".css": "text/css", ".js": "text/javascript"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/terminal":
            self._terminal()
        elif self.path == "/":
            self._send(PAGE.replace("COLUMNS", sys.argv[2]).replace("ROWS", sys.argv[3]).encode(), "text/html")
        elif self.path in ("/css/xterm.css", "/lib/xterm.js"):
            path = Path(sys.argv[1]) / "@xterm" / "xterm" / self.path[1:]
            self._send(path.read_bytes(), TYPES[path.suffix])
        else:
            self.send_error(404)

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _terminal(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Without compression, as the service has it.
        head = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in self.headers.items()}
        head.pop("HTTP_SEC_WEBSOCKET_EXTENSIONS", None)
        web = Server({**head, "werkzeug.socket": self.connection}, receive_bytes=64 * 1024)
        with _program() as terminal, suppress(ConnectionClosed):
            threading.Thread(target=_forward, args=(terminal, web), daemon=True).start()
            while True:
                os.write(terminal, web.receive().encode())

    def log_message(self, *_: object) -> None:
        """Standard error is for failures."""


@contextmanager
def _program() -> Iterator[int]:
    """The terminal's descriptor; the program ends when it is closed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        os.execvp(sys.argv[4], sys.argv[4:])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", int(sys.argv[3]), int(sys.argv[2]), 0, 0))
    try:
        yield terminal
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def _forward(terminal: int, web: Server) -> None:
    with suppress(OSError, ConnectionClosed):
        while data := os.read(terminal, 64 * 1024):
            web.send(data)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
