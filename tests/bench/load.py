"""Many kept-alive clients in one thread, so that the clients do not wait for each other's interpreter lock.

``python -m tests.bench.load PORT METHOD PATH [BODY ...]`` prints the seconds of every request as JSON.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time

CLIENTS = 16
REQUESTS = 200
WARM_UP = 10


class Client:
    """One connection that sends its next request when the previous answer has arrived."""

    def __init__(self, port: int, requests: list[bytes]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = requests
        self._buffer = b""
        self._began = 0.0
        self.took: list[float] = []

    def send(self) -> None:
        self._buffer = b""
        self._began = time.perf_counter()
        self.socket.sendall(self._requests[len(self.took) % len(self._requests)])

    def receive(self) -> bool:
        """Read what has arrived. Returns True when the answer is complete."""
        self._buffer += self.socket.recv(1 << 18)
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return False
        self.took.append(time.perf_counter() - self._began)
        assert head.startswith(b"HTTP/1.1 200"), head
        return True


def _length(head: bytes) -> int:
    fields = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return next(int(value) for name, _, value in fields if name.lower() == b"content-length")


def run(port: int, method: str, path: str, bodies: list[str]) -> list[float]:
    """Seconds of every request of every client, without the first ones of each."""
    clients = [Client(port, [_request(port, method, path, body) for body in bodies or [""]]) for _ in range(CLIENTS)]
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send()
        while selector.get_map():
            for key, _ in selector.select():
                client = key.data
                if not client.receive():
                    continue
                if len(client.took) < REQUESTS:
                    client.send()
                else:
                    selector.unregister(client.socket)
                    client.socket.close()
    return [seconds for client in clients for seconds in client.took[WARM_UP:]]


def _request(port: int, method: str, path: str, body: str) -> bytes:
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{kind}\r\n{body}".encode()


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])))
