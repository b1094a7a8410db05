"""Shards move, and nodes are added and removed, while clients read and write: no client sees it."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import until
from tests.release.citus.citus_market import (
    SYMBOLS,
    TABLE,
    CitusMarket,
    Journal,
    Traffic,
    differences,
    first_items,
    stray_rows,
)
from tests.release.citus.cluster import Node

pytestmark = pytest.mark.functional

MOVES = 8


def test_clients_see_nothing_of_moves_and_of_nodes_that_come_and_go(market: CitusMarket, plain: ApiProcess) -> None:
    writing, reading = market.started(), market.started()
    journal = Journal()
    journal.batches.append(first_items(random.Random(1), streamed=12_000))
    with closing(Client(writing.port, writing.token("alg"))) as client:
        journal.replay(client)
    traffic = Traffic(writing, reading, journal)
    traffic.start()
    try:
        move_shards(market, traffic, MOVES)
        add_and_remove_nodes(market, traffic)
    finally:
        traffic.stop()
    assert traffic.failures == []
    market.database.execute("CALL citus_cleanup_orphaned_resources()")
    assert market.database.execute("SELECT object_name FROM pg_dist_cleanup") == []
    assert stray_rows(market.database) == []
    with closing(Client(plain.port, plain.token("alg"))) as client:
        journal.replay(client)
    count, found = differences(plain, writing)
    assert count > 3000
    assert found == []
    assert differences(plain, reading, SYMBOLS[:3])[1] == []


def test_an_api_of_two_processes_follows_its_shards(market: CitusMarket, plain: ApiProcess) -> None:
    api = market.started(MARKET_API_PROCESSES="2")
    journal = Journal()
    journal.batches.append(first_items(random.Random(1), streamed=0))
    with closing(Client(api.port, api.token("alg"))) as client:
        journal.replay(client)
    traffic = Traffic(api, api, journal, writers=4)
    traffic.start()
    try:
        move_shards(market, traffic, 4)
    finally:
        traffic.stop()
    assert traffic.failures == []
    with closing(Client(plain.port, plain.token("alg"))) as client:
        journal.replay(client)
    assert differences(plain, api, intervals=("1m",))[1] == []


def move_shards(market: CitusMarket, traffic: Traffic, moves: int) -> None:
    chance = random.Random(2)
    for number in range(moves):
        market.database.execute("CALL citus_cleanup_orphaned_resources()")
        symbol = chance.choice(SYMBOLS)
        market.database.move(TABLE, symbol, ("block_writes", "force_logical")[number % 2])
        left = stray_rows(market.database)
        traffic.wait(0.5)
        now = {(port, name): rows for port, name, rows in stray_rows(market.database)}
        assert all(now.get((port, name), rows) == rows for port, name, rows in left), "written where it is not any more"
        assert traffic.failures == []


def add_and_remove_nodes(market: CitusMarket, traffic: Traffic) -> None:
    database = market.database
    node = database.add_node()
    traffic.wait(0.5)
    database.rebalance("force_logical")
    traffic.wait(1)
    assert any(database.node_of(TABLE, symbol) == node for symbol in SYMBOLS)
    assert traffic.failures == []
    leaving = database.workers[0]
    database.drain(leaving)
    traffic.wait(1)
    assert traffic.failures == []
    until(lambda: not database.execute("CALL citus_cleanup_orphaned_resources()") and clients_of(leaving) == 0)
    database.remove(leaving)
    leaving.kill()
    logged = len(market.log)
    try:
        traffic.wait(3)
    finally:
        leaving.start()
    assert traffic.failures == []
    assert market.log[logged:] == ""


def clients_of(node: Node) -> int:
    """The connections of the API to a node."""
    [(count,)] = node.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'marketdata%%'")
    return int(count)
