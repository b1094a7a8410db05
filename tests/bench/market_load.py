"""Clients on kept-alive connections, in a process of their own so that the server alone is measured.

One thread and one selector: a client costs a few microseconds a request, so that two cores suffice for both sides.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

START = 1_700_000_000_000
SYMBOLS = 4
GAP = 5_000
"""Milliseconds between two ticks of a symbol, as in the store's bench."""
BATCH = 10_000

_RANGE = re.compile(r"\{(\d+)-(\d+)\}")
_BATCH = re.compile(r"batch(?:-(\d+)-(\d+))?")


@dataclass
class _Client:
    connection: socket.socket
    asked_at: float = 0.0
    missing: int = 0
    """Bytes of the answer that are still to come."""
    status: str = ""


def drive(port: int, make: Callable[[], bytes], clients: int, seconds: float) -> dict[str, object]:
    """Each client sends the next request of ``make`` as soon as the previous one was answered. Returns rate, latencies
    (s) and statuses."""
    selector = selectors.DefaultSelector()
    buffer = bytearray(1 << 18)
    latencies: list[float] = []
    statuses: Counter[str] = Counter()
    began = time.perf_counter()
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(connection)
        selector.register(connection, selectors.EVENT_READ, client)
        _send(client, make())
    while selector.get_map():
        for key, _ in selector.select(60):
            client = key.data
            if not _has_answer(client, buffer):
                continue
            statuses[client.status] += 1
            latencies.append(time.perf_counter() - client.asked_at)
            if time.perf_counter() - began >= seconds:
                selector.unregister(client.connection)
                client.connection.close()
            else:
                _send(client, make())
    took = time.perf_counter() - began
    return {"rate": len(latencies) / took, "latencies": latencies, "statuses": statuses}


def _send(client: _Client, request: bytes) -> None:
    client.asked_at = time.perf_counter()
    client.connection.sendall(request)


def _has_answer(client: _Client, buffer: bytearray) -> bool:
    """Read what has arrived, and keep only the status."""
    count = client.connection.recv_into(buffer)
    if not count:
        raise SystemExit("the server closed a connection")
    if not client.missing:
        end = buffer.find(b"\r\n\r\n", 0, count)
        if end < 0:
            raise SystemExit("the head of an answer came in pieces")
        head = bytes(buffer[:end]).lower()
        client.status = head[9:12].decode()
        client.missing = end + 4 + int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    client.missing -= count
    return not client.missing


def requests(kind: str, token: str) -> Callable[[], bytes]:
    """``tick``, ``batch``, ``batch-1000-10`` (1 000 ticks of 10 symbols), or the path to GET, in which ``{5-8}``
    becomes one of 5, 6 and 7, anew each time. ``token`` may also be a whole value of Authorization."""
    numbers = itertools.count(time.time_ns() // 1000)
    authorization = f"Authorization: {token if ' ' in token else f'Bearer {token}'}\r\n"
    head = f"POST /v1/ingest/tick HTTP/1.1\r\nHost: a\r\n{authorization}Content-Type: application/json\r\n"

    def tick(number: int, symbols: int = SYMBOLS) -> str:
        price = f"{100 + number % 50}.{number % 997:03}"
        return (
            f'{{"symbol":"BENCH:{number % symbols}","id":"{number}","ts":{START + number % 10**8 * GAP // symbols},'
            f'"price":"{price}","size":"1.25","side":"buy"}}'
        )

    def post(body: str) -> bytes:
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    if kind == "tick":
        return lambda: post(tick(next(numbers)))
    if batch := _BATCH.fullmatch(kind):
        size, symbols = int(batch[1] or BATCH), int(batch[2] or SYMBOLS)
        return lambda: post('{"ticks":[' + ",".join(tick(next(numbers), symbols) for _ in range(size)) + "]}")
    rest = f" HTTP/1.1\r\nHost: a\r\n{authorization}\r\n"
    draw = random.Random(kind).randrange

    def get() -> bytes:
        return f"GET {_RANGE.sub(lambda found: str(draw(int(found[1]), int(found[2]))), kind)}{rest}".encode()

    return get


def main() -> None:
    port, kind, clients, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    token = sys.stdin.readline().strip()
    print(json.dumps(drive(port, requests(kind, token), clients, seconds)))


if __name__ == "__main__":
    main()
