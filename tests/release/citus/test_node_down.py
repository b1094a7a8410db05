"""A node of a distributed version that ends or stops: its symbols are refused in time, all others are served."""

from __future__ import annotations

import http.client
import json
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from time import monotonic
from typing import Any, NamedTuple

import pytest

from marketdata.api.serve import NODE_WAIT_SECONDS
from marketdata.http.listener import WORKERS
from tests.marketdata.api.conftest import Api, check_shape, eventually
from tests.marketdata.api.live_client import LiveClient
from tests.release.citus.cluster import Database, Node
from tests.release.citus.serving import TABLE, serving

T = 1_700_000_040_000
SYMBOLS = [f"DOWN:{number}" for number in range(12)]
BOUND = 8.0
"""Seconds after which a request has an answer: five for the node, and three for a busy machine."""
CROWD = 2 * WORKERS
"""Clients of the symbols of one node: more than there are workers."""


class Answer(NamedTuple):
    status: int
    body: dict[str, Any]
    seconds: float


class Cluster:
    """The API on a cluster of which ``node`` goes down. ``lost`` and ``kept`` are symbols on it and on others."""

    def __init__(self, api: Api, database: Database) -> None:
        self.api = api
        self.node: Node = database.node_of(TABLE, SYMBOLS[0])
        self.name = f"127.0.0.1:{self.node.port}"
        self.lost = [symbol for symbol in SYMBOLS if database.node_of(TABLE, symbol) == self.node]
        self.kept = [symbol for symbol in SYMBOLS if symbol not in self.lost]

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        began = monotonic()
        token = self.api.tokens["write" if body else "read"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with closing(http.client.HTTPConnection("127.0.0.1", self.api.service.port, timeout=60)) as connection:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()), monotonic() - began)

    def chart(self, symbol: str) -> Answer:
        return self.ask("GET", f"/v1/chart?symbol={symbol}&interval=1m")

    def store(self, identity: str, symbols: list[str]) -> Answer:
        ticks = [{"symbol": each, "id": identity, "ts": T, "price": "1", "size": "1"} for each in symbols]
        return self.ask("POST", "/v1/ingest/tick", {"ticks": ticks})

    def states(self) -> dict[str, str]:
        return {each["host"]: each["state"] for each in self.api.get("/ready")["nodes"]}

    def metric(self, name: str) -> float:
        text = self.api("GET", "/metrics").text
        (value,) = re.findall(rf'^{name}{{node="{self.name}"}} (\S+)$', text, re.MULTILINE)
        return float(value)

    def is_whole(self) -> bool:
        return set(self.states().values()) == {"usable"}


@pytest.fixture(scope="module")
def cluster(citus_database: Database) -> Iterator[Cluster]:
    with serving(citus_database, 6) as (api,):
        found = Cluster(api, citus_database)
        assert found.lost
        assert len(found.kept) > 4
        assert found.store("first", SYMBOLS).status == 200
        yield found


@contextmanager
def killed(node: Node) -> Iterator[None]:
    node.kill()
    try:
        yield
    finally:
        node.start()


WAYS: dict[str, Callable[[Node], AbstractContextManager[None]]] = {"killed": killed, "stopped": Node.frozen}


@pytest.fixture(params=list(WAYS))
def down(request: pytest.FixtureRequest, cluster: Cluster) -> Callable[[], AbstractContextManager[None]]:
    """A context manager during which the node is down."""
    eventually(cluster.is_whole)
    return lambda: WAYS[request.param](cluster.node)


def test_requests_for_its_symbols_end_and_take_no_workers_from_others(
    cluster: Cluster, down: Callable[[], AbstractContextManager[None]]
) -> None:
    assert cluster.metric("marketdata_node_up") == 1
    assert cluster.metric("marketdata_node_shards") == 2
    crowd = (cluster.lost * CROWD)[:CROWD]
    with down():
        with ThreadPoolExecutor(CROWD) as threads:
            asked = [threads.submit(cluster.chart, symbol) for symbol in crowd]
            others = [cluster.chart(symbol) for symbol in cluster.kept]
        answers = [each.result() for each in asked]
        assert {each.status for each in others} == {200}
        assert max(each.seconds for each in others) < NODE_WAIT_SECONDS + 3
        assert {each.status for each in answers} <= {503, 504}
        assert max(each.seconds for each in answers) < BOUND
        eventually(lambda: cluster.states()[cluster.name] != "usable")
        assert cluster.metric("marketdata_node_up") == 0
        ready = cluster.api.get("/ready")
        assert [each["reason"] is None for each in ready["nodes"]].count(True) == 2
        refused = cluster.chart(cluster.lost[0])
        assert (refused.status, refused.body["code"]) == (503, "database_unavailable")
        assert refused.seconds < 1
    eventually(lambda: cluster.chart(cluster.lost[0]).status == 200)


def test_a_batch_over_several_nodes_is_stored_where_it_can(
    cluster: Cluster, down: Callable[[], AbstractContextManager[None]]
) -> None:
    identity = uuid.uuid4().hex
    with down():
        partly = cluster.store(identity, SYMBOLS)
        assert (partly.status, partly.body["code"]) == (503, "partly_stored")
        check_shape("Problem", partly.body)
        stored = {name: partly.body[name] for name in ("accepted", "duplicates", "refused")}
        assert stored == {"accepted": len(cluster.kept), "duplicates": 0, "refused": 0}
        assert partly.seconds < BOUND
        assert cluster.store(f"{identity}-others", cluster.kept).body["accepted"] == len(cluster.kept)
    eventually(cluster.is_whole)
    eventually(lambda: cluster.store(identity, SYMBOLS).status == 200)
    again = cluster.store(identity, SYMBOLS)
    assert again.body == {"accepted": 0, "duplicates": len(SYMBOLS), "rejected": []}


def test_the_service_is_not_ready_while_no_node_is_usable(cluster: Cluster, citus_database: Database) -> None:
    with ExitStack() as stack:
        for node in citus_database.workers:
            stack.enter_context(killed(node))
        eventually(lambda: cluster.api("GET", "/ready").status_int == 503)
        cluster.api.problem("GET", "/ready", status=503, code="database_unavailable")
        assert cluster.api.get("/healthz")["database"]["reachable"]
    eventually(lambda: cluster.api("GET", "/ready").status_int == 200)
    eventually(cluster.is_whole)


def test_live_connections_go_on_and_are_told_of_what_they_may_have_missed(
    cluster: Cluster, down: Callable[[], AbstractContextManager[None]]
) -> None:
    lost, kept = cluster.lost[0], cluster.kept[0]
    with LiveClient(cluster.api.service.port, cluster.api.tokens["read"]) as client:
        for symbol in (lost, kept):
            client.subscribe(symbol, "1m")
        with down():
            eventually(lambda: cluster.states()[cluster.name] != "usable")
            cluster.store(uuid.uuid4().hex, [kept])
            assert received(client, kept)["symbol"] == kept
        eventually(cluster.is_whole)
        assert cluster.store(uuid.uuid4().hex, [lost]).status == 200
        assert received(client, lost)["symbol"] == lost


def received(client: LiveClient, symbol: str) -> dict[str, Any]:
    """The next candle of the symbol, or the message that some may be missing."""
    while (message := client.receive())["symbol"] != symbol:
        pass
    assert message["type"] == "candle" or message["code"] == "missed"
    return message
