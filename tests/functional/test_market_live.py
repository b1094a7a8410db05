"""``/v1/live`` of launched processes: two on one database, many clients of which half are slow, and a clean end."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.bench.figures import resident
from tests.functional.market_process import ApiProcess, Client
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


def test_many_clients_half_of_them_slow(api: ApiProcess, loops: Callable[..., int]) -> None:
    """The slow ones read nothing while the candles change; then they get the newest state, and few others of it."""
    count, candles, changes, changed = loops(quick=200, full=1000), 1000, 40, 20
    token = api.token("read")
    with closing(Client(api.port, api.token("alg"))) as writer, ExitStack() as stack:
        writer("POST", "/v1/ingest/tick", {"ticks": [tick(n, T + n * MINUTE) for n in range(candles)]})
        before = resident(api.pid)
        clients = []
        for number in range(count):
            is_slow = number % 2 == 1
            client = stack.enter_context(LiveClient(api.port, token, receive_buffer=4096 if is_slow else 0))
            assert client.subscribe("LIVE:A", "1m", **({"since": 0} if is_slow else {}))["type"] == "subscribed"
            clients.append(client)
        first, *quick, slow = clients[0], *clients[2::2], clients[1::2]
        reader = threading.Thread(target=drain, args=(quick,))
        reader.start()
        for number in range(changes):
            some = range(changed * number, changed * (number + 1))
            ticks = [tick(candles + n, T + (candles - 1 - n % changed) * MINUTE) for n in some]
            assert writer("POST", "/v1/ingest/tick", {"ticks": ticks})[1]["accepted"] == changed
        candle = newest(api.port, token)
        assert candle["n"] == changes + 1
        assert until(first, candle)
        assert (resident(api.pid) - before) * 1024 < count / 2 * 256 * 1024
        for client in slow[:10]:
            assert len(until(client, candle)) < changes / 4
        api.stop()
        reader.join()


def drain(clients: list[LiveClient]) -> None:
    """Read what arrives, without a look at it, until the service closes the connections."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(10):
                if not client_socket(key).recv(1 << 16):
                    selector.unregister(key.fileobj)


def client_socket(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj
