"""Shards move, and nodes are added and removed, while clients read and write: no client sees it."""

from __future__ import annotations

import random

import pytest

from marketdata.store.pool import connect
from marketdata.store.version import registered
from tests.functional.serving import until
from tests.marketdata.store.brute_force import rollups
from tests.marketdata.store.conftest import stored_rollups, stored_ticks
from tests.release.citus.citus_market import SYMBOLS, TABLE, CitusMarket, Traffic, first_items, stray_rows
from tests.release.citus.cluster import Node

pytestmark = pytest.mark.functional


def test_clients_see_nothing_of_moves_and_of_nodes_that_come_and_go(market: CitusMarket) -> None:
    with Traffic(market.started(), market.started(), first_items(streamed=12_000)) as traffic:
        move_shards(market, traffic, 4)
        add_and_remove_nodes(market, traffic)
    assert traffic.failures == []
    market.database.execute("CALL citus_cleanup_orphaned_resources()")
    assert market.database.execute("SELECT object_name FROM pg_dist_cleanup") == []
    assert stray_rows(market.database) == []
    assert_everything_is_stored(market, traffic)


def test_an_api_of_two_processes_follows_its_shards(market: CitusMarket) -> None:
    api = market.started(MARKET_API_PROCESSES="2")
    with Traffic(api, api, first_items(streamed=0), writers=4) as traffic:
        move_shards(market, traffic, 2)
    assert traffic.failures == []
    assert_everything_is_stored(market, traffic)


def assert_everything_is_stored(market: CitusMarket, traffic: Traffic) -> None:
    with connect(market.database.url) as connection:
        (found,) = registered(connection, "md")
        ticks = {symbol: stored_ticks(connection, found.version, symbol) for symbol in SYMBOLS}
        assert {each.id for of_symbol in ticks.values() for each in of_symbol} == traffic.acknowledged
        for symbol, of_symbol in ticks.items():
            assert stored_rollups(connection, found.version, symbol) == rollups(of_symbol), symbol


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


def add_and_remove_nodes(market: CitusMarket, traffic: Traffic) -> None:
    database = market.database
    node = database.add_node()
    traffic.wait(0.5)
    database.rebalance("force_logical")
    traffic.wait(1)
    assert any(database.node_of(TABLE, symbol) == node for symbol in SYMBOLS)
    leaving = database.workers[0]
    database.drain(leaving)
    traffic.wait(1)
    until(lambda: not database.execute("CALL citus_cleanup_orphaned_resources()") and clients_of(leaving) == 0)
    database.remove(leaving)
    leaving.kill()
    logged = len(market.log)
    try:
        traffic.wait(3)
    finally:
        leaving.start()
    assert market.log[logged:] == ""


def clients_of(node: Node) -> int:
    """The connections of the API to a node."""
    [(count,)] = node.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'marketdata%%'")
    return int(count)
