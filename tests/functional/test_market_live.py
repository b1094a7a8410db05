"""``/v1/live`` of launched processes: two on one database, many clients of which half are slow, also through the
frontend, and a clean end."""

from __future__ import annotations

import http.client
import os
import select
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.bench.figures import resident
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client
from tests.marketdata.api import live_client
from tests.marketdata.api.live_client import LiveClient

pytestmark = pytest.mark.functional

T = 1_700_000_040_000
MINUTE = 60_000


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    process.start()
    yield process
    process.stop()


def tick(number: int, ts: int, price: str = "1") -> dict[str, Any]:
    return {"symbol": "LIVE:A", "id": f"{number}", "ts": ts, "price": price, "size": "1"}


def newest(port: int, token: str) -> Any:
    with closing(Client(port, token)) as client:
        return client("GET", "/v1/chart?symbol=LIVE:A&interval=1m&limit=1")[1]["candles"][0]


def until(client: LiveClient, candle: Any) -> list[Any]:
    """Receive until ``candle``, and return every candle of its bucket up to it."""
    received = []
    while not received or received[-1] != candle:
        message = client.receive()
        if message["type"] == "candle" and message["candle"]["t"] == candle["t"]:
            received.append(message["candle"])
    return received


def test_two_processes_on_one_database_both_push(api: ApiProcess) -> None:
    second = ApiProcess(api.state_dir)
    second.start()
    with closing(Client(api.port, api.token("alg"))) as writer:
        try:
            writer("POST", "/v1/ingest/tick", tick(0, T))
            with LiveClient(api.port, api.token("read")) as one, LiveClient(second.port, api.token("read")) as two:
                for client in (one, two):
                    client.subscribe("LIVE:A", "1m")
                writer("POST", "/v1/ingest/tick", tick(1, T))
                candle = newest(api.port, api.token("read"))
                assert candle["n"] == 2
                assert until(one, candle)
                assert until(two, candle)
                ending = threading.Thread(target=second.stop)
                ending.start()
                assert two.until_closed() == 1001
                ending.join()
        finally:
            second.stop()


def client_socket(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj


# -- through the frontend --------------------------------------------------------------------------------------------

LAST_PRICE = "31.415926535"
KIB_EACH = 128
"""How much the resident memory of each process may grow for each client, slow or not. Each process limits the data that
wait for a slow client. Without this limit it would grow by more."""


class FrontendProcess:
    """``marketdata frontend`` before a running API, without a login."""

    def __init__(self, api: ApiProcess) -> None:
        settings = {
            "MARKET_STATE_DIR": str(api.state_dir), "MARKET_FRONTEND_PORT": "0", "BASIC_AUTH_MODE": "off",
            "API_UPSTREAM": f"http://127.0.0.1:{api.port}",
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "marketdata", "frontend"], cwd=ROOT, env=os.environ | settings,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], SECONDS)[0], "no address"
        self.port = int(self._process.stdout.readline().rpartition(":")[2])
        self.pid = self._process.pid

    def health(self) -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)) as client:
            client.request("GET", "/healthz")
            return client.getresponse().status

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(SECONDS) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def frontend(api: ApiProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrontendProcess]:
    """Live clients ask at its path, as a page of its own does."""
    process = FrontendProcess(api)
    host, handshake = f"127.0.0.1:{process.port}", live_client.handshake

    def through_the_frontend(_token: str | None) -> bytes:
        asked = handshake(None, Host=host, Origin=f"http://{host}")
        return asked.replace(b"GET /v1/live ", b"GET /api/v1/live ")

    monkeypatch.setattr(live_client, "handshake", through_the_frontend)
    yield process
    process.stop()


def test_slow_clients_of_the_frontend_get_the_newest_state_in_bounded_memory(
    api: ApiProcess, frontend: FrontendProcess
) -> None:
    """The slow clients read nothing, and more data wait for each than all buffers between them and the API can hold.
    Both processes keep a bounded part of it. The other clients get every change, and the slow ones then get the newest
    state."""
    count, candles, changes, changed = 100, 3000, 40, 20
    token = api.token("read")
    with closing(Client(api.port, api.token("alg"))) as writer, ExitStack() as stack:
        writer("POST", "/v1/ingest/tick", {"ticks": [tick(n, T + n * MINUTE) for n in range(candles)]})
        assert frontend.health() == 200
        before = {pid: resident(pid) for pid in (api.pid, frontend.pid)}
        clients = []
        for number in range(count):
            is_slow = number % 2 == 1
            client = stack.enter_context(LiveClient(frontend.port, "", receive_buffer=4096 if is_slow else 0))
            assert client.subscribe("LIVE:A", "1m", **({"since": 0} if is_slow else {}))["type"] == "subscribed"
            clients.append(client)
        quick, slow = clients[::2], clients[1::2]
        seen: set[LiveClient] = set()
        reader = threading.Thread(target=read_until_seen, args=(quick, f'"{LAST_PRICE}"'.encode(), seen))
        reader.start()
        for number in range(changes):
            some = range(changed * number, changed * (number + 1))
            ticks = [tick(candles + n, T + (candles - 1 - n % changed) * MINUTE) for n in some]
            assert writer("POST", "/v1/ingest/tick", {"ticks": ticks})[1]["accepted"] == changed
            assert frontend.health() == 200
        last = tick(candles + changes * changed, T + (candles - 1) * MINUTE + 1, LAST_PRICE)
        assert writer("POST", "/v1/ingest/tick", last)[0] == 201
        reader.join(SECONDS)
        assert seen == set(quick)
        for pid, kib in before.items():
            assert resident(pid) - kib < count * KIB_EACH
        candle = newest(api.port, token)
        assert candle["c"] == LAST_PRICE
        for client in slow[:10]:
            assert len(until(client, candle)) < changes / 4


def read_until_seen(clients: list[LiveClient], text: bytes, seen: set[LiveClient]) -> None:
    """Read what arrives at all clients at once, until each of them was sent ``text``."""
    tails = dict.fromkeys(clients, b"")
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map() and (ready := selector.select(SECONDS)):
            for key, _ in ready:
                data = client_socket(key).recv(1 << 16)
                if text in tails[key.data] + data:
                    seen.add(key.data)
                if not data or key.data in seen:
                    selector.unregister(key.fileobj)
                tails[key.data] = data[-len(text) :]
